"""Alerts are delivered by the service: signed, as a chat takes them, or by a program; and nobody
waits for a target that hangs."""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.model.alerts import ALERTS_QUEUE, Notice
from andon.model.task import Task
from andon.model.words import State
from andon.service.alerts.delivering import key_of
from andon.service.webhook_signing import signed

from .kit import PATIENCE, Running, eventually, look_at_alerts, serving

SECRET = "the-receiver-knows-it-too"


class Receiver:
    """A place to which alerts are sent. What is asked of `/hangs` is not answered until the end."""

    def __init__(self) -> None:
        self.received: Queue[tuple[str, dict[str, str], bytes]] = Queue()
        self.arrived = threading.Semaphore(0)
        self._over = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if "hangs" in self.path:
                    receiver.arrived.release()
                    receiver._over.wait(PATIENCE)
                    return
                status = 500 if "fails" in self.path else 302 if "moved" in self.path else 200
                answer = f"seen {self.path}".encode()
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.put((self.path, headers, body))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)

    def next(self) -> tuple[str, dict[str, str], bytes]:
        return self.received.get(timeout=PATIENCE)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    receiver = Receiver()
    yield receiver
    receiver.close()


def target(service: Running, name: str, **fields: Any) -> None:
    service.call(service.service.engine.alerts.put_target(name, fields))


def test(service: Running, name: str) -> str:
    return service.call(service.service.engine.alerts.test(name))


test.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]


def fire(service: Running, name: str) -> str:
    """Hand over a notice that is no test: such a one is tried again."""

    async def hand_over() -> str:
        alerts = service.service.engine.alerts
        at = service.service.engine.now()
        notice = Notice(
            key=f"k{at}", happened="firing", rule="r", when="new-error", at=at, subjects=()
        )
        [outcome] = await alerts.submit(await alerts.book(), [(notice, name)])
        assert outcome.error is None
        return outcome.id

    return service.call(hand_over())


def task_of(service: Running, task_id: str) -> Task:
    [task] = service.call(service.service.engine.get([task_id]))
    assert task is not None
    return task


def ended(service: Running, task_id: str, *states: State) -> Task:
    def look() -> Task | None:
        task = task_of(service, task_id)
        return task if task.state in states else None

    task = eventually(look)
    assert task is not None
    return task


def test_a_webhook_is_signed_over_its_id_its_time_and_its_body(
    service: Running, receiver: Receiver
) -> None:
    target(service, "ops", how="webhook", url=f"{receiver.url}/hook", secret=SECRET)
    task_id = test(service, "ops")
    path, headers, body = receiver.next()
    assert (path, headers["webhook-id"]) == ("/hook", task_id)
    told = f"{task_id}.{headers['webhook-timestamp']}.".encode() + body
    proof = hmac.new(SECRET.encode(), told, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(proof).decode()
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < PATIENCE
    document = json.loads(body)
    assert (document["type"], document["delivery"]) == ("alert.test", task_id)
    assert headers["content-type"] == "application/json"
    assert ended(service, task_id, State.COMPLETED).result == b'"200 seen /\xe2\x80\xa6"'


def test_a_secret_may_be_as_standard_webhooks_writes_it() -> None:
    # The example of the specification.
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    headers = signed(key_of(secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert key_of("whsec_?") == b"whsec_?"


def test_a_chat_gets_a_message_in_the_field_that_it_takes(
    service: Running, receiver: Receiver
) -> None:
    target(service, "chat", how="chat", url=f"{receiver.url}/chat")
    test(service, "chat")
    _, _, body = receiver.next()
    assert json.loads(body) == {"text": "🔵 Andon: chat is tested: nothing is wrong"}
    target(service, "chat", text_field="content")
    test(service, "chat")
    _, _, body = receiver.next()
    assert list(json.loads(body)) == ["content"]


PROGRAM = """
import json, os, sys
told = json.load(sys.stdin)
seen = {name: value for name, value in os.environ.items() if name.startswith("ANDON")}
with open(sys.argv[1], "w") as file:
    json.dump([told["type"], seen], file)
print("paged")
"""


def test_a_command_is_told_on_its_stdin_and_gets_little_of_the_environment(
    app: Andon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_TOKEN", "not-for-programs")
    script, seen = tmp_path / "page.py", tmp_path / "seen.json"
    script.write_text(PROGRAM)
    with serving(app, alert_commands=True) as service:
        argv = [sys.executable, str(script), str(seen)]
        target(service, "page", how="command", argv=argv)
        task = ended(service, test(service, "page"), State.COMPLETED)
        assert task.result == b'"paged"'
    kind, variables = json.loads(seen.read_text())
    assert kind == "alert.test"
    assert set(variables) == {"ANDON_ALERT_RULE", "ANDON_ALERT_HAPPENED", "ANDON_ALERT_TEXT"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["/bin/sh", "-c", "echo no luck; exit 3"], "ended with 3: no luck"),
        (["no-such-program-anywhere"], "ended with 127"),
    ],
)
def test_a_command_that_fails_is_tried_again_and_says_what_it_said(
    app: Andon, argv: list[str], said: str
) -> None:
    with serving(app, alert_commands=True) as service:
        target(service, "page", how="command", argv=argv)
        task = ended(service, fire(service, "page"), State.RETRY)
    assert task.status.last_error is not None
    assert said in task.status.last_error.message


def test_a_command_that_leaves_a_process_behind_holds_nothing_up(app: Andon) -> None:
    with serving(app, alert_commands=True) as service:
        argv = ["/bin/sh", "-c", "sleep 600 & echo done"]
        target(service, "page", how="command", argv=argv)
        assert ended(service, test(service, "page"), State.COMPLETED).result == b'"done"'


def test_commands_do_not_run_where_nobody_said_so(service: Running, tmp_path: Path) -> None:
    target(service, "page", how="command", argv=["touch", str(tmp_path / "ran")])
    task = ended(service, fire(service, "page"), State.RETRY)
    assert task.status.last_error is not None
    assert "start it with --alert-commands" in task.status.last_error.message
    assert not (tmp_path / "ran").exists()


def test_a_target_that_hangs_and_one_that_fails_hold_up_no_other(
    service: Running, receiver: Receiver
) -> None:
    target(service, "hangs", how="chat", url=f"{receiver.url}/hangs")
    target(service, "fails", how="chat", url=f"{receiver.url}/fails")
    target(service, "good", how="chat", url=f"{receiver.url}/good")
    for _ in range(8):
        test(service, "hangs")
    for _ in range(2):
        assert receiver.arrived.acquire(timeout=PATIENCE)
    failing = fire(service, "fails")
    good = [test(service, "good") for _ in range(5)]
    for task_id in good:
        ended(service, task_id, State.COMPLETED)
    ended(service, failing, State.RETRY)
    stats = {one.queue: one.counts for one in service.call(service.service.engine.stats())}
    assert stats[ALERTS_QUEUE]["active"] == 2


@pytest.mark.parametrize("path", ["fails-s3cret", "moved-s3cret"])
def test_what_is_said_of_a_failure_has_nothing_secret(
    service: Running, receiver: Receiver, path: str
) -> None:
    target(service, "ops", how="chat", url=f"{receiver.url}/{path}")
    task = ended(service, fire(service, "ops"), State.RETRY)
    assert task.status.last_error is not None
    assert "The target answered" in task.status.last_error.message
    assert b"s3cret" not in repr(task.status).encode()


def test_a_target_that_is_not_there_is_said_without_its_path(
    service: Running, receiver: Receiver
) -> None:
    target(service, "ops", how="chat", url="http://127.0.0.1:1/s3cret")
    task = ended(service, fire(service, "ops"), State.RETRY)
    assert task.status.last_error is not None
    assert "could not be asked" in task.status.last_error.message
    assert "s3cret" not in repr(task.status)


def test_a_notice_that_somebody_else_submits_is_told_to_nobody(
    service: Running, receiver: Receiver, http: httpx.Client
) -> None:
    target(service, "ops", how="webhook", url=f"{receiver.url}/hook", secret=SECRET)
    genuine = task_of(service, test(service, "ops"))
    receiver.next()
    arguments = json.loads(genuine.definition.args)
    arguments["delivery"]["notice"]["rule"] = "pay me"
    body = {"name": "andon.alert.webhook", "queue": ALERTS_QUEUE, "args": arguments, "id": "forged"}
    answer = http.post("/api/v1/tasks", json=body)
    assert answer.status_code < 300, answer.text
    task = ended(service, "forged", State.FAILED)
    assert task.status.last_error is not None
    assert "not made by Andon's alert rules" in task.status.last_error.message
    assert receiver.received.empty()


def test_a_target_that_was_removed_ends_its_deliveries(
    service: Running, receiver: Receiver
) -> None:
    target(service, "ops", how="chat", url=f"{receiver.url}/fails")
    task_id = fire(service, "ops")
    ended(service, task_id, State.RETRY)
    service.call(service.service.engine.alerts.remove_target("ops"))
    service.call(service.service.engine.retry([task_id]))
    task = ended(service, task_id, State.FAILED)
    assert task.status.last_error is not None
    assert "no alert target 'ops' any more" in task.status.last_error.message


def test_a_test_that_fails_is_not_tried_again(service: Running, receiver: Receiver) -> None:
    target(service, "ops", how="chat", url=f"{receiver.url}/fails")
    assert ended(service, test(service, "ops"), State.FAILED).status.tries == 1


def test_without_targets_nobody_works_the_queue(service: Running) -> None:
    service.call(service.service.engine.alerts.put_rule("new", {"when": "new-error"}))
    assert service.call(service.service.engine.workers()) == []


def test_a_rule_that_fires_reaches_its_target(
    service: Running, receiver: Receiver, http: httpx.Client
) -> None:
    target(service, "chat", how="chat", url=f"{receiver.url}/chat")
    rule = {"when": "dead-letters", "above": 0, "targets": ["chat"]}
    service.call(service.service.engine.alerts.put_rule("letters", rule))
    http.post("/api/v1/tasks", json={"name": "fail", "id": "bad"})
    with service.working(queues=["default"]):
        ended(service, "bad", State.FAILED)
    service.call(look_at_alerts(service.service.engine))
    _, _, body = receiver.next()
    assert json.loads(body)["text"].splitlines() == [
        "🔴 Andon: letters is firing",
        "• default: 1 dead letter",
    ]
