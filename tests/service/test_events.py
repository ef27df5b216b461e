"""Event streams: live, filtered, resumed, bounded, and ended in good order."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from andon import Andon

from .kit import PATIENCE, Running, eventually, problem, serving
from .raw import connected

STREAM = "/api/v1/events/stream"
TASKS = "/api/v1/tasks"


class Listener:
    """Reads a stream in a thread and keeps its messages."""

    def __init__(self, answer: httpx.Response) -> None:
        self.messages: list[dict[str, str]] = []
        self.last_id = ""
        self._answer = answer
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def moves(self) -> list[dict[str, Any]]:
        return [json.loads(m["data"]) for m in self.messages if m.get("event") == "move"]

    def until(self, count: int) -> list[dict[str, Any]]:
        """So many moves, once they have come."""
        return eventually(lambda: moves if len(moves := self.moves()) >= count else [])

    def has(self, count: int) -> None:
        """Wait until more messages than that have come."""
        eventually(lambda: len(self.messages) > count)

    def _read(self) -> None:
        message: dict[str, str] = {}
        try:
            for line in self._answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    message[name or "comment"] = value
                    continue
                self.last_id = message.get("id", self.last_id)
                self.messages.append(message)
                message = {}
        except (httpx.HTTPError, httpx.StreamError):
            return


@contextmanager
def listening(http: httpx.Client, after: str | None = None, **query: str) -> Iterator[Listener]:
    headers = {} if after is None else {"Last-Event-ID": after}
    with http.stream("GET", STREAM, params=query, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        listener = Listener(answer)
        eventually(lambda: listener.messages)
        yield listener


def submit(http: httpx.Client, *ids: str, **said: Any) -> None:
    tasks = [{"name": "elsewhere", "id": task_id, **said} for task_id in ids]
    assert http.post("/api/v1/bulk", json={"tasks": tasks}).json()["refused"] == 0


def test_moves_come_as_they_happen(http: httpx.Client):
    with listening(http) as stream:
        submit(http, "one")
        http.post(f"{TASKS}/one/cancel")
        first, second = stream.until(2)
    assert (first["task"], first["event"], first["to"]) == ("one", "submit", "pending")
    assert (second["event"], second["from"], second["to"]) == ("cancel", "pending", "cancelled")
    assert second["revision"] == 2


def test_a_stream_starts_now(http: httpx.Client):
    submit(http, "before")
    with listening(http) as stream:
        submit(http, "after")
        assert [move["task"] for move in stream.until(1)] == ["after"]


@pytest.mark.parametrize(
    ("query", "tasks"),
    [
        ({"task": "a"}, ["a", "a"]),
        ({"queue": "mail"}, ["b", "b"]),
        ({"state": "cancelled"}, ["a", "b"]),
        ({"state": "CANCELLED", "as": "cbintel"}, ["a", "b"]),
        ({"queue": "mail", "state": "cancelled"}, ["b"]),
    ],
)
def test_a_stream_has_what_it_was_asked_for(
    http: httpx.Client, query: dict[str, str], tasks: list[str]
):
    http.patch("/api/v1/queues/mail", json={})
    submit(http, "a", delay=3600)
    with listening(http, **query) as stream:
        http.post(f"{TASKS}/a/run-now")
        submit(http, "b", queue="mail")
        http.post(f"{TASKS}/a/cancel")
        http.post(f"{TASKS}/b/cancel")
        assert [move["task"] for move in stream.until(len(tasks))] == tasks


def test_moves_are_told_in_a_profiles_words(http: httpx.Client):
    with listening(http, **{"as": "cbintel"}) as stream:
        submit(http, "one")
        assert [move["status"] for move in stream.until(2)] == ["PENDING", "QUEUED"]


@pytest.mark.parametrize("seen", [0, 1, 2, 5])
def test_a_stream_goes_on_exactly_where_it_was_cut(http: httpx.Client, seen: int):
    with listening(http) as stream:
        start = stream.last_id
        submit(http, *(f"t{n}" for n in range(6)))
        stream.until(6)
        ids = [message["id"] for message in stream.messages if message.get("event") == "move"]
    after = start if seen == 0 else ids[seen - 1]
    with listening(http, after) as stream:
        submit(http, "t6")
        found = stream.until(7 - seen)
    assert [move["task"] for move in found] == [f"t{n}" for n in range(seen, 7)]


def test_nothing_is_missed_or_doubled_while_a_stream_catches_up(http: httpx.Client):
    with listening(http) as stream:
        start = stream.last_id
    stop = threading.Event()
    sent: list[str] = []

    def keep_submitting() -> None:
        with httpx.Client(base_url=http.base_url, verify=False, timeout=PATIENCE) as other:
            while not stop.is_set():
                ids = [f"n{len(sent) + n}" for n in range(50)]
                submit(other, *ids)
                sent.extend(ids)

    thread = threading.Thread(target=keep_submitting)
    thread.start()
    try:
        eventually(lambda: len(sent) >= 200)
        with listening(http, start) as stream:
            eventually(lambda: len(sent) >= 1_000)
            stop.set()
            thread.join()
            found = stream.until(len(sent))
    finally:
        stop.set()
        thread.join()
    assert [move["task"] for move in found] == sent


def test_a_client_that_comes_back_after_the_log_was_trimmed_is_told_of_the_gap(
    http: httpx.Client,
):
    submit(http, "one")
    with listening(http, "nonsense~0") as stream:
        [move] = stream.until(1)
        assert move["task"] == "one"
        assert "gap" in [message.get("event") for message in stream.messages]


def test_a_quiet_stream_is_pinged(app: Andon):
    with (
        serving(app, stream_ping=0.1) as running,
        running.client() as http,
        listening(http) as stream,
    ):
        eventually(lambda: any("comment" in message for message in stream.messages))


def test_streams_end_in_good_order_when_the_service_stops(app: Andon):
    with serving(app) as running, running.client() as http, listening(http) as stream:
        running.stop()
        stream.thread.join(PATIENCE)
        # At the end of the grace for requests in hand it would be cut off instead.
        assert stream.messages[-1] == {"event": "end", "data": '{"reason":"stopping"}'}


def test_a_long_poll_ends_when_the_service_stops(app: Andon):
    with serving(app) as running, running.client() as http:
        submit(http, "one")
        answers: list[httpx.Response] = []
        poll = threading.Thread(
            target=lambda: answers.append(http.get(f"{TASKS}/one", params={"wait": 60}))
        )
        poll.start()
        engine = running.service.engine
        eventually(lambda: engine._watching._waiters)  # pyright: ignore[reportPrivateUsage]
        running.stop()
        poll.join(PATIENCE)
        assert answers[0].json()["state"] == "pending"


@pytest.mark.slow
def test_a_reader_that_does_not_read_is_ended_and_harms_nobody(app: Andon):
    with (
        serving(app, stream_buffer=1_000, body_timeout=0.5) as running,
        running.client() as http,
        connected(running.url, receive_buffer=4_096) as lazy,
        listening(http) as stream,
    ):
        lazy.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % STREAM.encode())
        eventually(lambda: len(running.service.hub) == 2)
        sent = 0
        while len(running.service.hub) == 2:
            submit(http, *(f"{'n' * 50}{sent + n}" for n in range(500)))
            sent += 500
            stream.has(sent)
            assert sent < 100_000
        assert len(stream.until(sent)) == sent


def test_a_client_that_vanishes_is_forgotten(service: Running, http: httpx.Client):
    for _ in range(5):
        with connected(service.url) as connection:
            connection.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % STREAM.encode())
            eventually(lambda: len(service.service.hub) == 1)
        eventually(lambda: len(service.service.hub) == 0)


def test_streams_are_bounded(app: Andon):
    with serving(app, max_streams=1) as running, running.client() as http, listening(http):
        problem(http.get(STREAM), 503, "too-many-streams")


def test_the_log_can_be_read_page_by_page(http: httpx.Client):
    submit(http, "a", "b", "c")
    seen: list[str] = []
    cursor = ""
    while True:
        page = http.get("/api/v1/events", params={"cursor": cursor, "limit": 2}).json()
        seen += [event["task"] for event in page["events"]]
        if not page["events"]:
            break
        cursor = page["cursor"]
    assert seen == ["a", "b", "c"]
    shown = http.get("/api/v1/events", params={"as": "cbintel", "task": "a"}).json()["events"]
    assert [entry["status"] for entry in shown] == ["PENDING", "QUEUED"]


def test_a_stream_ends_once_its_token_is_revoked(app: Andon):
    with serving(app, require_token=False, stream_ping=0.2) as running:
        registry = running.service.access.registry
        token, record = running.call(registry.create("reader", ["tasks:read:*"]))
        headers = {"Authorization": f"Bearer {token}"}
        with (
            running.client(headers=headers) as http,
            listening(http) as revoked,
            running.client() as other,
            listening(other) as open_to_all,
        ):
            revoked.has(0)
            running.call(registry.revoke(record.id))
            eventually(lambda: not revoked.thread.is_alive())
            assert other.post(TASKS, json={"name": "add", "args": [1]}).status_code == 201
            open_to_all.until(1)


def test_an_event_id_that_the_store_does_not_know_is_told_as_a_gap(http: httpx.Client):
    submit(http, "a")
    with listening(http, after="nonsense") as stream:
        stream.until(1)
        assert [one.get("event") for one in stream.messages if "event" in one][:2] == [
            "gap",
            "move",
        ]


def test_a_stream_goes_on_where_a_page_of_events_ended(http: httpx.Client):
    submit(http, "a")
    cursor = http.get("/api/v1/events").json()["cursor"]
    submit(http, "b")
    with listening(http, after=cursor) as stream:
        assert [one["task"] for one in stream.until(1)] == ["b"]
