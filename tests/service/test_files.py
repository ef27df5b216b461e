"""Artifacts and logs over HTTP, by whatever speaks it: streamed, checked, bounded."""

import base64
import hashlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest
from servers.s3 import bucket_url

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.lifecycle.commands import Complete, Release
from andon.service.trust.access import OPEN

from .conftest import make_app
from .kit import PATIENCE, Running, eventually, problem, serving

MIB = 1024 * 1024


class Held:
    """A task that a run holds, and its token."""

    def __init__(self, running: Running, task_id: str = "t") -> None:
        engine = running.service.engine
        running.call(engine.submit([Submission(id=task_id, name="add", queue=task_id)]))
        self._running = running
        self.id = task_id
        self.files = f"/api/v1/tasks/{task_id}/artifacts"
        self.logs = f"/api/v1/tasks/{task_id}/logs"
        self._claim(0)

    def _claim(self, number: int) -> None:
        request = ClaimRequest(
            worker="w", token=f"{self.id}{number}", queues=(self.id,), limit=1, lease_ms=60_000
        )
        runs = self._running.service.runs
        [(self.task, self.token)] = self._running.call(runs.claim(OPEN, request, lambda *run: run))
        self.run = f"/api/v1/runs/{self.id}/{number}"
        self.headers = {"Authorization": f"Bearer {self.token}"}

    def claim_again(self) -> None:
        """The run after this one."""
        self._claim(self.task.status.runs[-1].number + 1)

    def end(self) -> None:
        engine = self._running.service.engine
        self._running.call(engine.report(self.task, Complete(result=b"1")))


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    with bucket_url() as url:
        yield url


@pytest.fixture
def held(service: Running) -> Held:
    return Held(service)


def put(http: httpx.Client, held: Held, name: str, content: Any, **options: Any) -> httpx.Response:
    headers = {**held.headers, **options.pop("headers", {})}
    return http.put(f"{held.run}/artifacts/{name}", content=content, headers=headers, **options)


def test_what_was_uploaded_is_listed_and_comes_back_as_it_was(http: httpx.Client, held: Held):
    sent = b"\x00\xff" * 300_000
    kept = put(http, held, "out.bin", sent, headers={"Content-Type": "image/x-noise"})
    assert kept.status_code == 200, kept.text
    digest = hashlib.sha256(sent)
    assert kept.json()["sha256"] == digest.hexdigest()
    assert http.get(held.files).json()["artifacts"] == [kept.json()]
    got = http.get(f"{held.files}/out.bin")
    assert got.content == sent
    assert got.headers["content-type"] == "image/x-noise"
    assert got.headers["content-length"] == str(len(sent))
    assert got.headers["etag"] == f'"{digest.hexdigest()}"'
    assert got.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    assert got.headers["content-disposition"].startswith("attachment")


def test_a_body_of_unknown_length_is_taken_and_an_empty_one_is_a_file(
    http: httpx.Client, held: Held
):
    assert put(http, held, "some", iter([b"a", b"b" * MIB])).json()["size"] == MIB + 1
    assert put(http, held, "none", b"").json()["size"] == 0
    empty = http.get(f"{held.files}/none")
    assert (empty.status_code, empty.content) == (200, b"")


@pytest.mark.parametrize(
    ("asked", "content", "told"),
    [
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
        ("bytes=8-99", b"89", "bytes 8-9/10"),
        ("bytes=0-", b"0123456789", None),
        ("bytes=4-2", b"0123456789", None),
        ("bytes=0-1,4-5", b"0123456789", None),
        ("lines=1-2", b"0123456789", None),
    ],
)
def test_a_part_of_it_can_be_asked_for(
    http: httpx.Client, held: Held, asked: str, content: bytes, told: str | None
):
    put(http, held, "digits", b"0123456789")
    got = http.get(f"{held.files}/digits", headers={"Range": asked})
    assert (got.status_code, got.content) == (206 if told else 200, content)
    assert got.headers.get("content-range") == told


def test_a_part_that_is_not_there_and_a_content_that_is_no_more_are_refused(
    http: httpx.Client, held: Held
):
    put(http, held, "digits", b"0123456789")
    where = f"{held.files}/digits"
    problem(http.get(where, headers={"Range": "bytes=10-"}), 416, "range-not-satisfiable")
    problem(http.get(where, headers={"If-Match": '"other"'}), 412, "artifact-replaced")


@pytest.mark.parametrize("name", ["..", ".", "../../etc/passwd", "a/b", "%", "ü x", "C:\\x"])
def test_a_name_is_a_name_and_never_a_path(http: httpx.Client, held: Held, name: str):
    escaped = "".join(f"%{byte:02X}" for byte in name.encode())
    kept = put(http, held, escaped, name.encode())
    assert kept.status_code == 200, kept.text
    assert kept.json()["name"] == name
    assert http.get(f"{held.files}/{escaped}").content == name.encode()


@pytest.mark.parametrize("name", ["a%00b", "a%0Ab", "x" * 1_025])
def test_a_name_that_cannot_be_is_refused(http: httpx.Client, held: Held, name: str):
    told = problem(put(http, held, name, b"x"), 422, "invalid-submission")
    assert told["field"] == "name"
    assert http.get(held.files).json()["artifacts"] == []


def test_what_is_not_there_is_told_as_such(http: httpx.Client, held: Held):
    problem(http.get(f"{held.files}/nothing"), 404, "artifact-not-found")
    problem(http.get("/api/v1/tasks/nobody/artifacts"), 404, "task-not-found")
    problem(http.get("/api/v1/tasks/nobody/logs"), 404, "task-not-found")


def test_an_expired_artifact_is_gone(http: httpx.Client, held: Held):
    kept = put(http, held, "short", b"x", params={"expires_in": 0.05}).json()
    assert kept["expires_at"] > kept["created_at"]
    eventually(lambda: http.get(f"{held.files}/short").status_code == 404)
    told = problem(put(http, held, "x", b"x", params={"expires_in": 0}), 422, "invalid-request")
    assert told["field"] == "expires_in"
    problem(put(http, held, "x", b"x", params={"expires_at": "soon"}), 422, "invalid-submission")
    later = put(http, held, "x", b"x", params={"expires_at": "2035-01-01T00:00:00Z"}).json()
    assert later["expires_at"].startswith("2035-01-01T00:00:00")


def test_a_run_that_has_ended_keeps_no_more_files(http: httpx.Client, held: Held):
    held.end()
    problem(put(http, held, "late", b"x"), 409, "lease-lost")
    assert http.get(held.files).json()["artifacts"] == []


def test_a_run_that_ends_while_it_uploads_keeps_nothing_of_it(http: httpx.Client, held: Held):
    def content() -> Iterator[bytes]:
        yield b"x" * 600_000  # more than the service takes in one piece
        held.end()
        yield b"x"

    problem(put(http, held, "late.bin", content()), 409, "lease-lost")
    assert http.get(held.files).json()["artifacts"] == []


def test_an_object_store_behind_the_service_keeps_files_and_logs(tmp_path: Any, s3_url: str):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db", artifacts=s3_url)
    with serving(app) as running, running.client() as http:
        held = Held(running)
        sent = b"\x00\xff" * 3 * MIB
        kept = put(http, held, "out.bin", (sent[at : at + MIB] for at in range(0, len(sent), MIB)))
        assert kept.status_code == 200, kept.text
        assert kept.json()["sha256"] == hashlib.sha256(sent).hexdigest()
        assert http.get(held.files).json()["artifacts"] == [kept.json()]
        assert http.get(f"{held.files}/out.bin").content == sent
        part = http.get(f"{held.files}/out.bin", headers={"Range": "bytes=5-9"})
        assert (part.status_code, part.content) == (206, sent[5:10])
        lines = {"lines": [{"text": "kept there"}]}
        said = http.post(f"{held.run}/logs", json=lines, headers=held.headers)
        assert said.status_code == 200, said.text
        assert [one["text"] for one in _followed(http, held, most=1)] == ["kept there"]
        assert not (tmp_path / "tasks.db-artifacts").exists()


def test_a_file_that_is_too_large_is_refused_with_or_without_a_length(tmp_path: Any):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, max_artifact=MIB) as running, running.client() as http:
        held = Held(running)
        problem(put(http, held, "big", b"x" * (MIB + 1)), 413, "body-too-large")
        assert put(http, held, "fits", b"x" * MIB).status_code == 200
        endless = (b"x" * 1024 for _ in range(1025))
        problem(put(http, held, "big", endless), 413, "body-too-large")
        assert [one["name"] for one in http.get(held.files).json()["artifacts"]] == ["fits"]


def _raw(service: Running, text: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])))
    connection.settimeout(PATIENCE)
    connection.sendall(text.encode())
    return connection


def test_an_upload_that_is_cut_leaves_nothing(
    service: Running, http: httpx.Client, held: Held, tmp_path: Any
):
    head = (
        f"PUT {held.run}/artifacts/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
    )
    with _raw(service, f"{head}Authorization: Bearer {held.token}\r\n\r\n") as connection:
        connection.sendall(b"x" * 400_000)
        unfinished = tmp_path / "tasks.db-artifacts" / ".unfinished"
        eventually(lambda: unfinished.exists() and list(unfinished.iterdir()))
    eventually(lambda: not list(unfinished.iterdir()))
    assert http.get(held.files).json()["artifacts"] == []


def _callers() -> set[int]:
    """The ports of those to whom this process has a connection open."""
    found = psutil.Process().net_connections("tcp")
    return {one.raddr.port for one in found if one.raddr}


def test_a_client_that_stops_reading_or_goes_is_dropped_and_others_are_served(tmp_path: Any):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, body_timeout=0.3) as running, running.client() as http:
        held = Held(running)
        put(http, held, "big", (b"x" * MIB for _ in range(32)))
        asked = f"GET {held.files}/big HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with _raw(running, asked) as slow, _raw(running, asked) as gone:
            assert gone.recv(100).startswith(b"HTTP/1.1 200")
            gone.close()
            assert http.get(f"{held.files}/big").content == b"x" * 32 * MIB
            slow.recv(10)
            here = slow.getsockname()[1]
            eventually(lambda: here not in _callers())
            received = 10
            try:
                while piece := slow.recv(MIB):
                    received += len(piece)
            except ConnectionResetError:
                pass
            assert received < 32 * MIB


@pytest.fixture
def logger(http: httpx.Client, held: Held) -> Any:
    def say(*texts: str, **fields: Any) -> httpx.Response:
        body = {"lines": [{"text": text} for text in texts], **fields}
        return http.post(f"{held.run}/logs", json=body, headers=held.headers)

    return say


def test_a_log_is_read_from_where_it_was_left(http: httpx.Client, held: Held, logger: Any):
    assert logger("one", "two", number=1).json() == {"kept": 2}
    first = http.get(held.logs).json()
    assert [line["text"] for line in first["lines"]] == ["one", "two"]
    logger("three", number=2)
    logger("three", number=2)  # its answer was lost
    then = http.get(held.logs, params={"cursor": first["cursor"], "run": 0}).json()
    assert [line["text"] for line in then["lines"]] == ["three"]
    assert not then["over"]


def test_a_log_is_followed_to_its_end(http: httpx.Client, held: Held, logger: Any):
    logger("begun")
    cursor = http.get(held.logs).json()["cursor"]
    began = time.monotonic()
    assert http.get(held.logs, params={"cursor": cursor, "wait": 0.2}).json()["lines"] == []
    assert time.monotonic() - began >= 0.2
    held.end()
    assert logger("last words").status_code == 200
    seen: list[str] = []
    while True:
        page = http.get(held.logs, params={"cursor": cursor, "wait": 10}).json()
        seen += [line["text"] for line in page["lines"]]
        cursor = page["cursor"]
        if page["over"]:
            break
    assert seen == ["last words"]


def _followed(
    http: httpx.Client, held: Held, after: str | None = None, most: int = 100, **query: Any
) -> Iterator[dict[str, Any]]:
    """Messages of a log stream until it ends, or so many have come."""
    headers = {} if after is None else {"Last-Event-ID": after}
    with http.stream("GET", f"{held.logs}/stream", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        message: dict[str, Any] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name:
                message[name] = value
            elif "event" in message:
                yield {**message, **json.loads(message["data"])}
                most -= 1
                if not most:
                    return
            if not line:
                message = {}


def test_a_log_stream_tells_lines_as_they_come_and_when_there_are_no_more(
    http: httpx.Client, held: Held, logger: Any
):
    logger("one", "two")
    stream = _followed(http, held)
    assert [next(stream)["text"], next(stream)["text"]] == ["one", "two"]
    logger("three")
    line = next(stream)
    assert (line["text"], line["run"], line["level"]) == ("three", 0, "info")
    held.end()
    logger("last words")
    assert next(stream)["text"] == "last words"
    assert next(stream)["reason"] == "over"
    assert list(stream) == []


def test_a_cut_log_stream_goes_on_after_the_line_that_was_seen(
    http: httpx.Client, held: Held, logger: Any
):
    texts = [f"line {number}" for number in range(6)]
    logger(*texts[:4], number=1)
    logger(*texts[4:], number=2)
    seen: list[str] = []
    after = None
    for most in (1, 2, 3):
        for line in _followed(http, held, after, most):
            seen.append(line["text"])
            after = line["id"]
    assert seen == texts


def test_a_log_stream_goes_through_all_runs_or_keeps_to_one(service: Running, http: httpx.Client):
    held = Held(service)
    engine = service.service.engine

    def say(text: str) -> None:
        body = {"lines": [{"text": text}]}
        assert http.post(f"{held.run}/logs", json=body, headers=held.headers).status_code == 200

    say("first run")
    service.call(engine.report(held.task, Release()))
    held.claim_again()
    say("second run")
    held.end()
    told = list(_followed(http, held))
    assert [(one["run"], one["text"]) for one in told[:-1]] == [(0, "first run"), (1, "second run")]
    assert told[-1]["reason"] == "over"
    assert [one.get("text") for one in _followed(http, held, run=1)] == ["second run", None]
    again = list(_followed(http, held, after=told[0]["id"]))
    assert [one.get("text") for one in again] == ["second run", None]


@pytest.mark.parametrize("bad", ["x", "0~0", "0/~", "/~1", "99999999999/~1"])
def test_a_place_that_is_none_of_a_log_stream_is_refused(http: httpx.Client, held: Held, bad: str):
    answer = http.get(f"{held.logs}/stream", headers={"Last-Event-ID": bad})
    problem(answer, 422, "invalid-request")


def test_a_log_stream_ends_with_the_service_and_with_its_task(app: Any):
    with serving(app) as running, running.client() as http:
        held, other = Held(running), Held(running, "other")
        gone, stopped = _followed(http, held), _followed(http, other)
        for one, stream in ((held, gone), (other, stopped)):
            sent = http.post(
                f"{one.run}/logs", json={"lines": [{"text": "x"}]}, headers=one.headers
            )
            assert sent.status_code == 200
            assert next(stream)["text"] == "x"
        held.end()
        assert http.delete("/api/v1/tasks/t").status_code == 200
        assert next(gone)["reason"] == "gone"
        running.begin_stop()
        assert next(stopped)["reason"] == "stopping"


def test_lines_have_a_level_and_a_time(http: httpx.Client, held: Held):
    line = {"text": "hm", "level": "warning", "at": "2030-01-01T00:00:00Z"}
    sent = http.post(f"{held.run}/logs", json={"lines": [line]}, headers=held.headers)
    assert sent.status_code == 200
    [kept] = http.get(held.logs).json()["lines"]
    assert kept == {**line, "at": "2030-01-01T00:00:00.000Z"}


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize(
    "bad", [None, 5, {}, {"text": 7}, {"text": "x", "level": "loud"}, {"text": "x", "at": "soon"}]
)
def test_a_line_that_cannot_be_kept_is_left_out_alone(
    http: httpx.Client, held: Held, bad: Any, place: int
):
    lines: list[Any] = [{"text": "one"}, {"text": "two"}]
    lines.insert(place, bad)
    sent = http.post(f"{held.run}/logs", json={"lines": lines}, headers=held.headers)
    assert sent.status_code == 200, sent.text
    assert sent.json()["kept"] == 2
    [refused] = sent.json()["refused"]
    assert (refused["place"], refused["error"]["status"]) == (place, 422)
    assert [line["text"] for line in http.get(held.logs).json()["lines"]] == ["one", "two"]


@pytest.mark.slow
def test_memory_stays_bounded_for_a_file_of_64_mib(http: httpx.Client, held: Held):
    process = psutil.Process()
    put(http, held, "warm", b"x" * MIB)
    http.get(f"{held.files}/warm")
    before = process.memory_info().rss
    most = 0
    piece = b"x" * MIB

    def pieces() -> Iterator[bytes]:
        nonlocal most
        for _ in range(64):
            most = max(most, process.memory_info().rss)
            yield piece

    assert put(http, held, "big", pieces()).json()["size"] == 64 * MIB
    with http.stream("GET", f"{held.files}/big") as reply:
        size = 0
        for part in reply.iter_bytes(MIB):
            size += len(part)
            most = max(most, process.memory_info().rss)
    assert size == 64 * MIB
    assert most - before < 32 * MIB, f"{(most - before) / MIB:.0f} MiB more"
