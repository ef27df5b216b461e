"""Messages as server-sent events: what is asked for, resumed, bounded, and only for who may."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.service.kit import PATIENCE, Running, eventually, serving
from tests.taskcluster.environments import python_with, run_script
from tests.taskcluster.kit import QUEUE, Queue, own_queue, refused, slugid
from tests.taskcluster.signer import Signer

from andon import Andon
from andon.service.taskcluster.messages.exchanges import ALL
from andon.service.taskcluster.settings import TaskclusterSettings

from .listening import NAMES, STREAM, Listener, listening, query

PROGRAMS = Path(__file__).parents[1] / "programs"
ALL_OF_THEM = [(exchange.value, "#") for exchange in sorted(ALL)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('store')}/tasks.db")
    with serving(app, taskcluster=TaskclusterSettings(), stream_ping=0.1) as running:
        yield running


@pytest.fixture
def http(running: Running) -> Iterator[httpx.Client]:
    with running.client() as http:
        yield http


@pytest.fixture
def queue(http: httpx.Client) -> Queue:
    return Queue(http)


def live(queue: Queue, **fields: Any) -> str:
    of_its_own = own_queue()
    task_id = queue.create(taskQueueId=of_its_own, **fields)
    [claim] = queue.claim(queue=of_its_own)
    assert claim["status"]["taskId"] == task_id
    assert queue.report(task_id, 0, "completed").status_code == 200
    return task_id


def named(listener: Listener) -> list[str]:
    return [message["exchange"].removeprefix(NAMES) for message in listener.messages]


def test_all_that_happens_to_a_task_comes_as_it_happens(http: httpx.Client, queue: Queue):
    with listening(http, *ALL_OF_THEM) as listener:
        task_id = live(queue, routes=["index.a"])
        first, *_ = listener.until(5)
        assert named(listener) == [
            "task-defined",
            "task-pending",
            "task-running",
            "task-completed",
            "task-group-resolved",
        ]
    assert set(first) == {"id", "exchange", "routingKey", "routes", "redelivered", "payload"}
    assert first["routes"] == ["index.a"]
    assert first["payload"]["status"]["taskId"] == task_id
    assert first["routingKey"].startswith(f"primary.{task_id}._._._.proj.")


def test_artifacts_that_are_no_files_come_with_the_end_of_their_run(
    http: httpx.Client, queue: Queue
):
    with listening(http, ("artifact-created", "#"), ("task-completed", "#")) as listener:
        of_its_own = own_queue()
        task_id = queue.create(taskQueueId=of_its_own)
        queue.claim(queue=of_its_own)
        for name, how in (
            ("public/log", {"storageType": "link", "artifact": "x"}),
            (
                "a",
                {
                    "storageType": "s3",
                    "contentType": "text/plain",
                },
            ),
        ):
            body = {**how, "expires": queue.status(task_id)["deadline"]}
            queue.answer("POST", f"/task/{task_id}/runs/0/artifacts/{name}", body)
        queue.report(task_id, 0, "completed")
        created, _ = listener.until(2)
    assert named(listener) == ["artifact-created", "task-completed"]
    assert created["payload"]["artifact"]["name"] == "public/log"
    assert created["payload"]["workerId"] == "i-0a1b"


@pytest.mark.parametrize("seen", range(6))
def test_a_stream_goes_on_where_it_was_cut(http: httpx.Client, queue: Queue, seen: int):
    with listening(http, *ALL_OF_THEM) as listener:
        start = listener.last_id
        task_id = live(queue)
        whole = listener.until(5)
        after = listener.ids[seen - 1] if seen else start
    with listening(http, *ALL_OF_THEM, after=after) as again:
        # Of a move with several messages all come again, where not all had come.
        expected = whole[max(0, seen - 1) if seen in (1, 4) else seen :]
        assert again.until(len(expected))[: len(expected)] == expected
        live(queue)
        more = again.until(len(expected) + 5)
    assert task_id not in more[-1]["routingKey"]


def test_a_stream_that_wants_little_is_told_where_it_is(http: httpx.Client, queue: Queue):
    with listening(http, ("task-exception", "route.none.#")) as listener:
        start = listener.last_id
        live(queue)
        eventually(lambda: listener.last_id != start and listener.pings)
        assert listener.messages == []


BAD = [
    "",
    "exchange=nothing",
    "exchange=" + NAMES,
    "exchange=exchange/taskcluster-auth/v1/task-failed",
    "exchange=task-failed&routingKeyPattern=",
    "exchange=task-failed&routingKeyPattern=" + "x" * 256,
    "exchange=task-failed&routingKeyPattern=a&routingKeyPattern=b",
    "exchange=task-failed&limit=1",
    "&".join(["exchange=task-failed"] * 101),
    "exchange=%ff",
    "routingKeyPattern=%23",
]


@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_listened_to_is_refused(http: httpx.Client, bad: str):
    refused(http.get(f"{STREAM}?{bad}"), 400, "InvalidRequestArguments", "streamMessages")


@pytest.mark.parametrize("after", ["nonsense", "x~1", "~", "9" * 5_000])
def test_an_id_that_the_log_does_not_know_is_told_as_a_gap(
    http: httpx.Client, queue: Queue, after: str
):
    with listening(http, *ALL_OF_THEM, after=after) as listener:
        eventually(lambda: listener.gaps or after == "~")
        queue.create()
        listener.until(2)


def test_there_is_nothing_else_beside_it(http: httpx.Client):
    for method, path in (("GET", ""), ("GET", "/stream/x"), ("POST", "/stream"), ("GET", "/strea")):
        answer = http.request(method, f"/api/queue-events/v1{path}")
        refused(answer, 404, "ResourceNotFound")


def test_a_service_that_stops_says_so(tmp_path: Path):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, taskcluster=TaskclusterSettings()) as running, running.client() as http:
        with listening(http, *ALL_OF_THEM) as listener:
            running.begin_stop()
            eventually(lambda: listener.ended)
        assert listener.ended == "stopping"


def test_listeners_that_hear_nothing_ask_the_store_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    face = TaskclusterSettings()
    with (
        serving(app, taskcluster=face, stream_ping=0.05) as running,
        running.client() as http,
        ExitStack() as stack,
    ):
        listeners = [stack.enter_context(listening(http, ("task-failed", "#"))) for _ in range(10)]
        reads, read = [0], running.service.feed.read

        async def counted(*args: Any) -> Any:
            reads[0] += 1
            return await read(*args)

        monkeypatch.setattr(running.service.feed, "read", counted)
        # Each is pinged many times over; of the slow poll, which is one for all, there may be two.
        eventually(lambda: all(listener.pings >= 20 for listener in listeners))
        assert reads[0] <= 2 * len(listeners)


def test_only_so_many_may_listen(tmp_path: Path):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    with (
        serving(app, taskcluster=TaskclusterSettings(), max_streams=1, stream_ping=0.1) as running,
        running.client() as http,
    ):
        with listening(http, *ALL_OF_THEM):
            answer = http.get(f"{STREAM}?exchange=task-failed")
            refused(answer, 503, "InternalServerError", "streamMessages")
            assert answer.headers["retry-after"] == "10"
        eventually(lambda: running.service.message_streams == 0)


def test_who_does_not_read_is_cut_off_and_the_others_go_on(tmp_path: Path):
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")
    face = TaskclusterSettings()
    with (
        serving(app, taskcluster=face, body_timeout=0.3) as running,
        running.client() as http,
    ):
        queue = Queue(http)
        host, port = running.url.removeprefix("http://").split(":")
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        lazy.settimeout(PATIENCE)
        lazy.connect((host, int(port)))
        path = f"{STREAM}?{query(ALL_OF_THEM)}"
        lazy.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        with lazy, listening(http, *ALL_OF_THEM) as listener:
            eventually(lambda: running.service.message_streams == 2)
            tags = {f"t{number}": "x" * 4_000 for number in range(20)}
            sent = 0
            while running.service.message_streams == 2:
                queue.create(tags=tags, taskQueueId=QUEUE)
                sent += 1
                assert sent < 2_000
            listener.until(2 * sent)


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Signer]]:
    """A service that asks who is asking, and a client that may do everything."""
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('access')}/tasks.db")
    with serving(app) as first:
        token, _ = first.call(first.service.authentication.clients.create("root", ["*"]))
    face = TaskclusterSettings()
    with serving(app, taskcluster=face, require_token=True, stream_ping=0.1) as running:
        yield running, Signer("root", token)


def signed(running: Running, signer: Signer, path: str) -> dict[str, str]:
    return {"authorization": signer.header("GET", running.url + path)}


LISTEN = "queue-events:listen:" + NAMES


def test_each_exchange_needs_a_scope_of_its_own(asking: tuple[Running, Signer]):
    running, root = asking
    path = f"{STREAM}?{query([('task-failed', '#'), ('task-completed', '#')])}"
    with running.client() as http:
        for scopes in ([], [LISTEN + "task-failed"], [LISTEN + "task-faile*", "queue:*"]):
            headers = signed(running, root.temporary(scopes), path)
            error = refused(
                http.get(path, headers=headers), 403, "InsufficientScopes", "streamMessages"
            )
            assert LISTEN + "task-completed" in error["message"]
        refused(http.get(path), 403, "InsufficientScopes", "streamMessages")
        wrong = signed(running, Signer("root", "x" * 43), path)
        refused(http.get(path, headers=wrong), 401, "AuthenticationFailed", "streamMessages")
        enough = root.temporary([LISTEN + "task-failed", LISTEN + "task-completed"])
        with http.stream("GET", path, headers=signed(running, enough, path)) as answer:
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "*"


def test_a_stream_ends_when_its_client_is_revoked(asking: tuple[Running, Signer]):
    running, _ = asking
    clients = running.service.authentication.clients
    token, _ = running.call(clients.create("listener", [LISTEN + "*"]))
    path = f"{STREAM}?{query([('task-failed', '#')])}"
    headers = signed(running, Signer("listener", token), path)
    with (
        running.client() as http,
        http.stream("GET", path, headers=headers) as answer,
    ):
        listener = Listener(answer)
        eventually(lambda: listener.last_id)
        running.call(clients.revoke("listener"))
        eventually(lambda: listener.ended)
    assert listener.ended == "refused"


def test_head_of_the_stream_is_no_listener(running: Running, http: httpx.Client):
    before = running.service.message_streams  # some that other tests left may be ending
    answer = http.head(STREAM, params=query([("task-defined", "#")]))
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "text/event-stream"
    assert running.service.message_streams <= before
    assert http.head(STREAM).status_code == 400


def test_the_clients_own_event_classes_ask_for_what_they_get(http: httpx.Client, queue: Queue):
    """Exchange and pattern as the Python client makes them, for each exchange."""
    python = python_with("python")
    group = slugid()
    task_id = slugid()
    asked: Any = run_script(
        [python, PROGRAMS / "events.py"],
        {
            "taskDefined": {"taskId": task_id},
            "taskPending": {"taskId": task_id, "runId": "0"},
            "taskRunning": {"workerGroup": "us-east", "taskId": task_id},
            "taskCompleted": {"taskGroupId": group},
            "taskFailed": {"taskGroupId": group},
            "taskException": {"taskGroupId": group},
            "artifactCreated": {"taskGroupId": group},
            "taskPriorityChanged": {"taskGroupId": group},
            "taskGroupResolved": {"taskGroupId": group},
            "taskGroupSealed": {"taskGroupId": group},
            "taskGroupPriorityChanged": {"taskGroupId": group, "schedulerId": "-"},
        },
    )
    assert {one["exchange"] for one in asked.values()} == {NAMES + one.value for one in ALL}
    pairs = [
        (one["exchange"].removeprefix(NAMES), one["routingKeyPattern"]) for one in asked.values()
    ]
    with listening(http, *pairs) as listener:
        live(queue, taskGroupId=slugid())
        live(queue, task_id=task_id, taskGroupId=group)
        listener.until(5)
        last = queue.create(taskGroupId=group)
        queue.answer("POST", f"/task/{last}/priority", {"newPriority": "low"})
        queue.answer("POST", f"/task-group/{group}/priority", {"newPriority": "low"})
        queue.answer("POST", f"/task-group/{group}/seal")
        listener.until(8)
        assert named(listener) == [
            "task-defined",
            "task-pending",
            "task-running",
            "task-completed",
            "task-group-resolved",
            "task-priority-changed",
            "task-group-priority-changed",
            "task-group-sealed",
        ]
        assert all(
            task_id in one["routingKey"] or group in one["routingKey"] for one in listener.messages
        )
