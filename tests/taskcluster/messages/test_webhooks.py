"""Webhooks: signed so that receivers' own library believes them, and sent until they are taken."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from ports import free_port
from tests.service.kit import eventually, serving
from tests.taskcluster.kit import Queue, own_queue, slugid
from tests.taskcluster.serving import serving_on

from andon import Andon
from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import ConfigurationError
from andon.service.taskcluster.messages import delivery
from andon.service.taskcluster.messages.configuration import read_message_settings
from andon.service.taskcluster.settings import TaskclusterSettings

from .receiving import SECRET, Receiver

ONE_LIFE = ["task-defined", "task-pending", "task-running", "task-completed", "task-group-resolved"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon: no test waits for a second."""
    defaults = delivery.Delivery.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "pauses", ExponentialBackoff(0.01, 0.05))


def configured(folder: Path, *urls: str, more: str = "") -> Path:
    """A file that delivers to these."""
    (folder / "secret").write_text(SECRET + "\n")
    path = folder / "messages.toml"
    path.write_text(
        "".join(
            f'[webhook.hook{number}]\nurl = "{url}"\nsecret_file = "secret"\ntimeout = 5\n{more}'
            for number, url in enumerate(urls)
        )
    )
    return path


def face(folder: Path, *urls: str, more: str = "") -> TaskclusterSettings:
    return TaskclusterSettings(messages=read_message_settings(configured(folder, *urls, more=more)))


def live(queue: Queue, **fields: Any) -> str:
    of_its_own = own_queue()
    task_id = queue.create(taskQueueId=of_its_own, **fields)
    assert queue.claim(queue=of_its_own)
    assert queue.report(task_id, 0, "completed").status_code == 200
    return task_id


def of(receiver: Receiver, task_id: str) -> list[str]:
    """The messages about a task, which has a group of its own."""
    return [
        one["exchange"].rpartition("/")[2]
        for one in receiver.taken
        if task_id in one["routingKey"].split(".")
    ]


def test_what_happens_comes_signed_and_in_order(tmp_path: Path, receiver: Receiver):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with (
        serving(app, taskcluster=face(tmp_path, receiver.url)) as running,
        running.client() as http,
    ):
        queue = Queue(http)
        ids = [live(queue, routes=["index.a"]) for _ in range(3)]
        eventually(lambda: len(receiver.taken) == 15)
        metrics = http.get("/metrics").text
    assert receiver.wrong == []
    assert [of(receiver, task_id) for task_id in ids] == [ONE_LIFE] * 3
    first = receiver.taken[0]
    assert set(first) == {"id", "exchange", "routingKey", "routes", "redelivered", "payload"}
    assert first["routes"] == ["index.a"]
    assert (
        'andon_taskcluster_messages_total{outcome="delivered",sink="webhook.hook0"} 15.0' in metrics
    )


@pytest.mark.parametrize("status", [301, 401, 404, 429, 500, 503])
def test_an_answer_that_may_heal_is_asked_for_again(
    tmp_path: Path, receiver: Receiver, status: int
):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    receiver.answer = lambda _: status
    with (
        serving(app, taskcluster=face(tmp_path, receiver.url)) as running,
        running.client() as http,
    ):
        task_id = live(Queue(http))
        eventually(lambda: receiver.tries > 6)
        assert receiver.taken == []
        receiver.answer = lambda _: 200
        eventually(lambda: len(receiver.taken) == 5)
    assert of(receiver, task_id) == ONE_LIFE
    assert receiver.wrong == []


def test_one_message_that_is_refused_is_passed_over(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    receiver.answer = lambda one: 413 if one["exchange"].endswith("task-running") else 200
    with (
        serving(app, taskcluster=face(tmp_path, receiver.url)) as running,
        running.client() as http,
    ):
        task_id = live(Queue(http))
        eventually(lambda: len(receiver.taken) == 4)
    assert of(receiver, task_id) == [one for one in ONE_LIFE if one != "task-running"]
    assert "A message for webhook.hook0 is passed over (task-running primary." in caplog.text


def test_one_that_nobody_answers_at_holds_up_no_other(tmp_path: Path, receiver: Receiver):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    nobody = f"http://127.0.0.1:{free_port()}/"
    with (
        serving(app, taskcluster=face(tmp_path, nobody, receiver.url)) as running,
        running.client() as http,
    ):
        task_id = live(Queue(http))
        eventually(lambda: len(receiver.taken) == 5)
    assert of(receiver, task_id) == ONE_LIFE


def test_a_receiver_that_comes_late_gets_what_it_missed_from_the_next_service(
    tmp_path: Path, receiver: Receiver
):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    receiver.answer = lambda _: 503
    with (
        serving(app, taskcluster=face(tmp_path, receiver.url)) as running,
        running.client() as http,
    ):
        task_id = live(Queue(http))
        eventually(lambda: receiver.tries)
    assert receiver.taken == []
    receiver.answer = lambda _: 200
    with serving(app, taskcluster=face(tmp_path, receiver.url)):
        eventually(lambda: len(receiver.taken) == 5)
    assert of(receiver, task_id) == ONE_LIFE


def test_only_what_is_bound_comes(tmp_path: Path, receiver: Receiver):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    more = 'bindings = [{exchange = "task-completed", pattern = "route.index.#"}]\n'
    with (
        serving(app, taskcluster=face(tmp_path, receiver.url, more=more)) as running,
        running.client() as http,
    ):
        live(Queue(http))
        task_id = live(Queue(http), routes=["index.a"])
        eventually(lambda: receiver.taken)
    assert of(receiver, task_id) == receiver.names() == ["task-completed"]


@pytest.mark.crash
def test_a_service_killed_between_delivery_and_its_cursor_delivers_again(
    tmp_path: Path, receiver: Receiver
):
    """`kill -9` while the receiver has a message that it has not answered, and another that it
    has: whatever was created comes, nothing is missing, and a repeat has the same id."""
    store = f"sqlite:///{tmp_path}/tasks.db"
    options = ("--messages", str(configured(tmp_path, receiver.url)))
    killed: list[str] = []
    task_id = slugid()
    with suppress(_Killed), serving_on(store, tmp_path, *options) as served:
        process = served.process

        def kill(one: dict[str, Any]) -> int:
            if one["exchange"].endswith("task-pending"):
                process.kill()
                killed.append(one["id"])
            return 200

        receiver.answer = kill
        with suppress(httpx.HTTPError), httpx.Client(base_url=served.url, timeout=30) as http:
            Queue(http).create(task_id)
        eventually(lambda: killed and not process.is_running)
        raise _Killed
    before = list(receiver.ids)
    receiver.answer = lambda _: 200
    with serving_on(store, tmp_path, *options):
        eventually(lambda: killed[0] in receiver.ids[len(before) :])
    assert set(of(receiver, task_id)) == {"task-defined", "task-pending"}
    assert len(set(receiver.ids)) == 2, "the repeats have the ids of the first"
    assert receiver.wrong == []


class _Killed(Exception):
    """The service is gone, as it should be."""


GOOD = '[webhook.a]\nurl = "https://x.example/"\nsecret_env = "S"\n'
WRONG = [
    ("", None),
    ("[webhook", "cannot be used"),
    ("[hooks.a]\n", "unknown field"),
    (GOOD.replace("[webhook.a]", '[webhook."a b"]'), "a name has"),
    (GOOD.replace('secret_env = "S"', ""), "give one of secret_env, secret_file"),
    (GOOD.replace('"S"', '"NOT_THERE"'), "the environment has no NOT_THERE"),
    (GOOD.replace("https:", "ftp:"), "the URL begins http:// or https://"),
    (GOOD.replace("https://x.example/", "https://"), "the URL begins"),
    (GOOD.replace("https://x.example/", "http://[::1"), "the URL begins"),
    (GOOD + 'secret = "no"\n', "unknown field"),
    (GOOD + 'url_env = "S"\n', "give one of url, url_env, url_file"),
    (GOOD + "timeout = 0\n", "timeout is"),
    (GOOD + "at_once = 0\n", "at_once is"),
    (GOOD + 'bindings = [{exchange = "task-exploded"}]\n', "there is no exchange 'task-exploded'"),
    (GOOD + 'bindings = [{exchange = "task-failed", pattern = ""}]\n', "a routing key pattern has"),
    (GOOD.replace('secret_env = "S"', 'secret_file = "nowhere"'), "cannot be read"),
    (GOOD.replace('secret_env = "S"', 'secret_env = "SHORT"'), "openssl rand -base64 32"),
    ('[amqp.a]\nurl = "https://x.example/"\n', "the URL begins amqp:// or amqps://"),
]


@pytest.mark.parametrize(("text", "why"), WRONG)
def test_a_file_that_cannot_be_used_is_refused_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str | None
):
    monkeypatch.setenv("S", SECRET)
    monkeypatch.setenv("SHORT", "c2hvcnQ=")
    path = tmp_path / "messages.toml"
    path.write_text(text)
    if why is None:
        assert read_message_settings(path).webhooks == ()
        return
    with pytest.raises(ConfigurationError, match=r"The file of messages ") as caught:
        read_message_settings(path)
    assert why in str(caught.value)
    assert "c2" not in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="it cannot be read: No such file"):
        read_message_settings(tmp_path / "messages.toml")
