"""What serves many at once goes on when something breaks that nobody thought of: the event hub, its
pings, attention streams. The culprit is named in the log."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.contract.topics import EVENTS_TOPIC
from andon.engine.http import wire
from andon.lifecycle import rendering
from andon.lifecycle.backoff import ExponentialBackoff
from andon.service import hub

from .kit import Running, eventually, serving
from .test_events import listening, submit


class Unforeseen(Exception):
    """No error of Andon's own family."""


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    return Andon(f"sqlite:///{tmp_path}/tasks.db")


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "BACKOFF", ExponentialBackoff(0.01, 0.1))
    monkeypatch.setattr("andon.service.remote.attending._AGAIN_S", 0.01)


def failing_once(
    monkeypatch: pytest.MonkeyPatch, target: Any, name: str, *, times: int = 1
) -> list[Any]:
    """Make a coroutine function raise the first times that it is called from now on."""
    real, failed = getattr(target, name), list[Any]()

    async def fails(*args: Any, **kwargs: Any) -> Any:
        if len(failed) < times:
            failed.append(args)
            raise Unforeseen(name)
        return await real(*args, **kwargs)

    monkeypatch.setattr(target, name, fails)
    return failed


def test_a_log_that_cannot_be_read_for_a_moment_ends_no_stream(
    http: httpx.Client,
    service: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    with listening(http) as stream, listening(http) as other:
        failed = failing_once(monkeypatch, service.service.engine, "events", times=3)
        submit(http, "a", "b", "c")
        for one in (stream, other):
            assert [move["task"] for move in one.until(3)] == ["a", "b", "c"]
        assert len(failed) == 3
    assert "Unforeseen" in caplog.text


def test_listening_that_breaks_ends_no_stream(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    engine = service.service.engine
    real, broken = engine.listen, list[Any]()

    def listen(topics: Any) -> Any:
        listener = real(topics)
        if list(topics) == [EVENTS_TOPIC] and len(broken) < 2:
            failing_once(monkeypatch, listener, "wait")
            broken.append(listener)
        return listener

    monkeypatch.setattr(engine, "listen", listen)
    with listening(http) as stream:
        submit(http, "a")
        assert [move["task"] for move in stream.until(1)] == ["a"]
        submit(http, "b")
        assert [move["task"] for move in stream.until(2)] == ["a", "b"]
    assert len(broken) == 2


@pytest.mark.parametrize("bad", ["a", "b", "c"], ids=["first", "middle", "last"])
def test_a_move_that_cannot_be_told_is_left_out_alone(
    http: httpx.Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bad: str,
):
    real = rendering.event_document

    def shown(event: Any) -> Any:
        if event.task == bad:
            raise Unforeseen(bad)
        return real(event)

    monkeypatch.setattr(hub, "event_document", shown)
    rest = [one for one in "abc" if one != bad]
    with listening(http) as stream:
        start = stream.last_id
        submit(http, "a", "b", "c")
        assert [move["task"] for move in stream.until(2)] == rest
        submit(http, "d")
        assert [move["task"] for move in stream.until(3)] == [*rest, "d"]
    with listening(http, after=start) as resumed:
        assert [move["task"] for move in resumed.until(3)] == [*rest, "d"]
    assert f"task {bad} cannot be told" in caplog.text


@pytest.mark.parametrize("bad", ["a", "b", "c"], ids=["first", "middle", "last"])
def test_a_record_that_cannot_be_read_holds_up_no_other_move(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch, bad: str
):
    engine = service.service.engine
    real = engine.get

    async def get(ids: Any) -> Any:
        if bad in ids:
            raise Unforeseen(bad)
        return await real(ids)

    with listening(http, **{"as": "cbintel"}) as stream:
        monkeypatch.setattr(engine, "get", get)
        submit(http, "a", "b", "c")
        told = stream.until(6)
        assert {move["task"] for move in told} >= {one for one in "abc" if one != bad}


def test_a_stream_that_breaks_ends_alone(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    with listening(http) as first, listening(http) as second:
        [victim, *_] = service.service.hub._subscribers

        def broken(*args: Any) -> None:
            raise Unforeseen("give")

        monkeypatch.setattr(hub.Subscriber, "__slots__", ())
        real = hub.Subscriber.give

        def give(self: Any, *args: Any) -> None:
            broken() if self is victim else real(self, *args)

        monkeypatch.setattr(hub.Subscriber, "give", give)
        submit(http, "a")
        eventually(lambda: len(first.moves()) + len(second.moves()) == 1)
        ended = eventually(
            lambda: [m for s in (first, second) for m in s.messages if m.get("event") == "end"]
        )
        assert json.loads(ended[0]["data"]) == {"reason": "failed"}


def test_a_ping_that_breaks_is_missed_by_one_stream_only(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    hub_ = service.service.hub
    hub_._ping_s = 0.02
    real = hub.Subscriber.ping
    pinged: list[Any] = []

    with listening(http), listening(http) as second:
        [victim, *_] = hub_._subscribers

        def ping(self: Any, chunk: bytes) -> None:
            if self is victim:
                raise Unforeseen("ping")
            pinged.append(self)
            real(self, chunk)

        monkeypatch.setattr(hub.Subscriber, "ping", ping)
        eventually(lambda: len(pinged) > 3)
        submit(http, "a")
        eventually(lambda: second.moves() or victim.ended)


class Attention:
    """An attention stream, read in a thread."""

    def __init__(self, http: httpx.Client, **wanted: Any) -> None:
        self.frames: list[dict[str, Any]] = []
        self._http, self._wanted = http, wanted
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: any(frame.get("ready") for frame in self.frames))

    def _read(self) -> None:
        try:
            with self._http.stream("POST", "/api/v1/engine/attend", json=self._wanted) as answer:
                for line in answer.iter_lines():
                    self.frames.append(json.loads(line))
        except (httpx.HTTPError, httpx.StreamError):
            return

    def hinted(self, topic: str) -> bool:
        return any(topic in frame.get("topics", ()) for frame in self.frames)


def test_a_topic_whose_hints_break_is_listened_to_again(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    engine = service.service.engine
    real, broken = engine.listen, list[Any]()

    def listen(topics: Any) -> Any:
        listener = real(topics)
        if list(topics) == ["ready:q"] and not broken:
            failing_once(monkeypatch, listener, "wait")
            broken.append(listener)
        return listener

    monkeypatch.setattr(engine, "listen", listen)
    with service.client() as other:
        stream = Attention(other, topics=["ready:q", "ready:r"])
        eventually(lambda: stream.hinted("ready:q"))  # what was missed while it was broken
        stream.frames.clear()
        submit(http, "a", queue="q")
        submit(http, "b", queue="r")
        eventually(lambda: stream.hinted("ready:q") and stream.hinted("ready:r"))
    assert broken


def test_a_task_that_cannot_be_watched_is_told_of_and_the_others_are_watched(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    submit(http, "a", "b", "c")
    engine = service.service.engine
    real = engine.watch

    def watch(task_id: str) -> Any:
        if task_id == "b":
            raise Unforeseen(task_id)
        return real(task_id)

    monkeypatch.setattr(engine, "watch", watch)
    with service.client() as other:
        stream = Attention(other, tasks=["a", "b", "c"])
        [told] = [frame for frame in stream.frames if frame.get("task") == "b"]
        assert told["error"]["type"] == "StoreUnavailable"
        http.post("/api/v1/acts", json={"action": "cancel", "ids": ["a", "c"]})
        eventually(lambda: {f["task"] for f in stream.frames if f.get("done")} == {"a", "c"})


@pytest.mark.parametrize("bad", ["a", "b", "c"], ids=["first", "middle", "last"])
def test_a_record_that_cannot_be_written_ends_no_attention(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch, bad: str
):
    from andon.service.remote import attending

    submit(http, "a", "b", "c")
    real = wire.encode

    def encode(frame: Any) -> bytes:
        if frame.task == bad and frame.record is not None:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "half a character")
        return real(frame)

    monkeypatch.setattr(attending, "encode", encode)
    with service.client() as other:
        stream = Attention(other, tasks=["a", "b", "c"])
        [told] = [f for f in stream.frames if f.get("task") == bad]
        assert told["error"]["type"] == "StoreUnavailable"
        assert {f["task"] for f in stream.frames if f.get("record")} == set("abc") - {bad}


def test_who_cannot_say_whether_a_token_is_good_asks_again(
    app: Andon, monkeypatch: pytest.MonkeyPatch
):
    with serving(app, stream_ping=0.02) as running:
        registry = running.service.access.registry
        text, _ = running.call(registry.create("t", ["*"]))
        header = {"authorization": f"Bearer {text}"}
        with (
            running.client(headers=header) as client,
            running.client() as plain,
            listening(client) as stream,
        ):
            failed = failing_once(monkeypatch, running.service.guard, "authorize", times=3)
            eventually(lambda: len(failed) == 3)
            submit(plain, "a")
            assert [move["task"] for move in stream.until(1)] == ["a"]


def test_a_report_that_breaks_fails_alone(
    http: httpx.Client,
    service: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    submit(http, "a", "b", "c")
    runs = http.post("/api/v1/runs/claim", json={"worker": "w", "limit": 3}).json()["runs"]
    engine = service.service.engine
    real = engine.report_run

    async def report_run(task_id: str, *rest: Any, **more: Any) -> Any:
        if task_id == "b":
            raise Unforeseen(task_id)
        return await real(task_id, *rest, **more)

    monkeypatch.setattr(engine, "report_run", report_run)
    reports = [{"token": run["token"], "outcome": "completed"} for run in runs]
    with caplog.at_level(logging.ERROR):
        told = http.post("/api/v1/runs/report", json={"reports": reports}).json()["outcomes"]
    assert [one["state"] for one in told] == ["completed", None, "completed"]
    assert told[1]["error"]["status"] == 500
    assert "Unforeseen" in caplog.text


def test_the_hub_begins_anew_where_its_start_failed(
    http: httpx.Client, service: Running, monkeypatch: pytest.MonkeyPatch
):
    failing_once(monkeypatch, service.service.engine, "events_end")
    assert http.get("/api/v1/events/stream").status_code == 500
    with listening(http) as stream:
        submit(http, "a")
        assert [move["task"] for move in stream.until(1)] == ["a"]
