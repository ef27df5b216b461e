"""Messages on every store: what a log, a note or a hint of one of them could make different."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import selected_stores
from servers import Servers
from tests.service.kit import Running, eventually, serving
from tests.taskcluster.kit import Queue, own_queue

from andon import Andon
from andon.service.taskcluster.messages.configuration import read_message_settings
from andon.service.taskcluster.messages.exchanges import ALL
from andon.service.taskcluster.settings import TaskclusterSettings

from .listening import NAMES, Listener, listening
from .receiving import SECRET, Receiver

ONE_LIFE = ["task-defined", "task-pending", "task-running", "task-completed", "task-group-resolved"]
EVERYTHING = [(exchange.value, "#") for exchange in sorted(ALL)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("store_kind", selected_stores(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(scope="module")
def url(store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> str:
    if store_kind == "memory":
        return "memory://"
    return servers.fresh_url(store_kind, tmp_path_factory.mktemp("store"))


def face(folder: Path, receiver: Receiver) -> TaskclusterSettings:
    (folder / "secret").write_text(SECRET)
    path = folder / "messages.toml"
    path.write_text(f'[webhook.hook]\nurl = "{receiver.url}"\nsecret_file = "secret"\n')
    return TaskclusterSettings(messages=read_message_settings(path))


@pytest.fixture(scope="module")
def running(
    url: str, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    settings = face(tmp_path_factory.mktemp("settings"), receiver)
    with serving(Andon(url), taskcluster=settings) as running:
        yield running


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    with running.client() as http:
        yield http


def live(http: httpx.Client) -> str:
    queue, of_its_own = Queue(http), own_queue()
    task_id = queue.create(taskQueueId=of_its_own)
    assert queue.claim(queue=of_its_own)
    assert queue.report(task_id, 0, "completed").status_code == 200
    return task_id


def of(listener: Listener, task_id: str) -> list[str]:
    return [
        one["exchange"].removeprefix(NAMES)
        for one in listener.messages
        if task_id in one["routingKey"].split(".")
    ]


def once(names: list[str]) -> list[str]:
    """Without what came again."""
    return list(dict.fromkeys(names))


def test_a_listener_and_a_webhook_get_the_life_of_a_task(http: httpx.Client, receiver: Receiver):
    with listening(http, *EVERYTHING) as listener:
        task_id = live(http)
        eventually(lambda: once(of(listener, task_id)) == ONE_LIFE)
    eventually(lambda: task_id in str(receiver.taken[-1:]) and len(receiver.taken) >= 5)
    assert receiver.wrong == []


def test_a_listener_goes_on_where_it_was_cut(http: httpx.Client):
    with listening(http, *EVERYTHING) as listener:
        first = live(http)
        eventually(lambda: once(of(listener, first)) == ONE_LIFE)
        seen = listener.last_id
    missed = [live(http) for _ in range(3)]
    with listening(http, *EVERYTHING, after=seen) as listener:
        eventually(lambda: all(once(of(listener, one)) == ONE_LIFE for one in missed))
        assert not listener.gaps


CHANGES = ["task-priority-changed", "task-group-priority-changed", "task-group-sealed"]


def test_what_becomes_of_a_group_is_told_and_goes_on_where_a_listener_was_cut(
    http: httpx.Client, receiver: Receiver
):
    queue = Queue(http)
    bindings = [(name, "#") for name in CHANGES]
    with listening(http, *bindings) as listener:
        group = queue.create(taskQueueId=own_queue(), schedulerId="sched")
        queue.answer("POST", f"/task-group/{group}/priority", {"newPriority": "high"})
        eventually(lambda: sorted(once(of(listener, group))) == sorted(CHANGES[:2]))
        seen = listener.last_id
    queue.answer("POST", f"/task-group/{group}/seal")
    queue.answer("POST", f"/task-group/{group}/seal")
    with listening(http, *bindings, after=seen) as listener:
        eventually(lambda: of(listener, group))
        assert once(of(listener, group)) == CHANGES[2:]
        [sealed] = [one for one in listener.messages if group in one["routingKey"]]
    record = queue.answer("GET", f"/task-group/{group}")
    assert sealed["payload"] == {"version": 1, **record}
    eventually(lambda: sealed["id"] in receiver.ids)


def test_what_happens_while_no_service_runs_is_delivered_by_the_next(
    store_kind: str, servers: Servers, tmp_path: Path, receiver: Receiver
):
    if store_kind == "memory":
        pytest.skip("memory:// ends with its process")
    app = Andon(servers.fresh_url(store_kind, tmp_path))
    settings = face(tmp_path, receiver)
    with serving(app, taskcluster=settings):
        pass
    with serving(app, taskcluster=TaskclusterSettings()) as running, running.client() as http:
        task_id = live(http)
    with serving(app, taskcluster=settings):
        eventually(
            lambda: (
                once(
                    [
                        one["exchange"].removeprefix(NAMES)
                        for one in receiver.taken
                        if task_id in one["routingKey"].split(".")
                    ]
                )
                == ONE_LIFE
            )
        )
