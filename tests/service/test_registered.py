"""Artifacts over HTTP: registered, encoded, left after an end, listed in pages."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon.lifecycle.commands import Command, Complete, Fail, Release
from andon.lifecycle.leaving import EXCEPTIONAL, may_leave
from andon.model.task import Run, TaskError
from andon.model.words import Reason

from .conftest import make_app
from .kit import Running, problem, serving
from .test_files import Held, put

LINES = gzip.compress(b"line\n" * 1_000)
REFERENCE = {"kind": "reference", "url": "https://example.org/live?a=b c&ü".replace(" ", "%20")}


@pytest.fixture
def held(service: Running) -> Held:
    return Held(service)


def register(http: httpx.Client, held: Held, name: str, **fields: Any) -> httpx.Response:
    return http.post(f"{held.run}/artifacts/{name}", json=fields, headers=held.headers)


def raw(http: httpx.Client, url: str) -> tuple[httpx.Response, bytes]:
    """An answer and its body as it was sent, not decoded."""
    with http.stream("GET", url) as answer:
        return answer, b"".join(answer.iter_raw())


def test_a_file_is_registered_then_sent_and_fetched_as_it_was_encoded(
    http: httpx.Client, held: Held
):
    made = register(http, held, "log", content_type="text/plain", expires_in=3600).json()
    assert (made["kind"], made["present"], made["size"]) == ("file", False, 0)
    problem(http.get(f"{held.files}/log"), 404, "artifact-not-found")
    [listed] = http.get(held.files).json()["artifacts"]
    assert not listed["present"]

    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    sent = http.put(made["put_url"], content=LINES, headers=headers)
    assert sent.status_code == 200, sent.text
    assert sent.json()["size"] == len(LINES)
    answer, body = raw(http, f"{held.files}/log")
    assert body == LINES
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["content-type"] == "text/plain"
    assert http.get(f"{held.files}/log").text == "line\n" * 1_000
    [listed] = http.get(held.files).json()["artifacts"]
    same = {key: value for key, value in made.items() if not key.startswith("put_")}
    wanted = {"present": True, "encoding": "gzip", "size": len(LINES)}
    assert listed == {**same, **wanted, "sha256": sent.json()["sha256"]}


def test_an_upload_keeps_its_encoding(http: httpx.Client, held: Held):
    kept = put(http, held, "log", LINES, headers={"Content-Encoding": "gzip"}).json()
    assert kept["encoding"] == "gzip"
    answer, body = raw(http, f"{held.files}/log")
    assert (answer.headers["content-encoding"], body) == ("gzip", LINES)
    bad = put(http, held, "bad", b"x", headers={"Content-Encoding": "x" * 200})
    problem(bad, 422, "invalid-submission")


def test_a_reference_leads_elsewhere(http: httpx.Client, held: Held):
    made = register(http, held, "live", **REFERENCE).json()
    assert made["put_url"] is None
    answer = http.get(f"{held.files}/live", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "https://example.org/live?a=b%20c&%C3%BC"
    url = http.get(f"{held.files}/live/url").json()
    assert url["url"] == REFERENCE["url"]


def test_a_link_gives_what_it_stands_for(http: httpx.Client, held: Held):
    put(http, held, "log", b"lines", headers={"Content-Type": "text/plain"})
    register(http, held, "live", **REFERENCE)
    made = register(http, held, "live", kind="link", target="log").json()
    assert (made["kind"], made["target"]) == ("link", "log")
    answer = http.get(f"{held.files}/live")
    assert (answer.text, answer.headers["content-type"]) == ("lines", "text/plain")
    register(http, held, "lost", kind="link", target="nothing")
    problem(http.get(f"{held.files}/lost"), 404, "artifact-not-found")
    register(http, held, "me", kind="link", target="me")
    problem(http.get(f"{held.files}/me"), 409, "artifact-conflict")


def test_an_error_says_why_there_is_nothing(http: httpx.Client, held: Held):
    register(http, held, "core", kind="error", reason="too-large", message="It has 9 GiB.")
    register(http, held, "dump", kind="error", reason="missing")
    told = problem(http.get(f"{held.files}/core"), 424, "artifact-error")
    assert (told["reason"], told["detail"]) == ("too-large", "It has 9 GiB.")
    assert "missing" in problem(http.get(f"{held.files}/dump"), 424, "artifact-error")["detail"]
    problem(http.get(f"{held.files}/core/url"), 424, "artifact-error")


def test_what_is_registered_again_is_the_same_with_a_later_end(http: httpx.Client, held: Held):
    first = register(http, held, "out", expires_at="2035-01-01T00:00:00Z").json()
    http.put(first["put_url"], content=b"x", headers={"Content-Type": first["content_type"]})
    again = register(http, held, "out", expires_at="2036-01-01T00:00:00Z").json()
    assert (again["present"], again["size"]) == (True, 1)
    assert again["expires_at"].startswith("2036")
    problem(
        register(http, held, "out", expires_at="2035-06-01T00:00:00Z"), 409, "artifact-conflict"
    )
    problem(register(http, held, "out", content_type="a/b"), 409, "artifact-conflict")
    [listed] = http.get(held.files).json()["artifacts"]
    assert listed["expires_at"].startswith("2036")


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"kind": "folder"}, 422, "invalid-request"),
        ({"unknown": 1}, 422, "invalid-request"),
        ({"expires_in": 0}, 422, "invalid-request"),
        ({"expires_in": 1, "expires_at": "2035-01-01T00:00:00Z"}, 422, "invalid-request"),
        ({"expires_at": "soon"}, 422, "invalid-submission"),
        ({"kind": "reference"}, 422, "invalid-submission"),
        ({"kind": "reference", "url": "javascript:x"}, 422, "invalid-submission"),
        ({"kind": "link"}, 422, "invalid-submission"),
        ({"kind": "error"}, 422, "invalid-submission"),
        ({"content_type": "a/b\r\nx: y"}, 422, "invalid-submission"),
    ],
)
def test_what_cannot_be_registered_is_refused(
    http: httpx.Client, held: Held, body: dict[str, Any], status: int, name: str
):
    problem(register(http, held, "out", **body), status, name)
    assert http.get(held.files).json()["artifacts"] == []


def test_a_name_of_1024_characters_is_a_name(http: httpx.Client, held: Held):
    name = "x" * 1_024
    put(http, held, name, b"long")
    assert http.get(f"{held.files}/{name}").content == b"long"
    assert http.get(held.files).json()["artifacts"][0]["name"] == name
    problem(put(http, held, "x" * 1_025, b"x"), 422, "invalid-submission")


def test_a_list_comes_in_pages_run_after_run(service: Running, http: httpx.Client, held: Held):
    wanted = [(0, name) for name in ("a", "b", "c")] + [(1, name) for name in ("a", "d")]
    for name in ("b", "a", "c"):
        put(http, held, name, b"x")
    service.call(service.service.engine.report(held.task, Release()))
    held.claim_again()
    for name in ("d", "a"):
        put(http, held, name, b"x")
    for limit in (1, 2, 3, 5, 50):
        seen: list[tuple[int, str]] = []
        cursor = ""
        while True:
            page = http.get(held.files, params={"limit": limit, "cursor": cursor}).json()
            assert len(page["artifacts"]) <= limit
            seen += [(one["run"], one["name"]) for one in page["artifacts"]]
            cursor = page["cursor"]
            if not cursor:
                break
        assert seen == wanted, limit
    of_one = http.get(held.files, params={"run": 1, "limit": 1}).json()
    assert [one["name"] for one in of_one["artifacts"]] == ["a"]
    rest = http.get(held.files, params={"run": 1, "cursor": of_one["cursor"]}).json()
    assert [one["name"] for one in rest["artifacts"]] == ["d"]
    for bad in ("x", "eA", "OjE", "ü"):
        problem(http.get(held.files, params={"cursor": bad}), 422, "invalid-request")


# --- after the end of a run ---


def cancelled(running: Running, held: Held) -> None:
    running.call(running.service.engine.cancel([held.id], force=True))


def reported(command: Command) -> Callable[[Running, Held], None]:
    def report(running: Running, held: Held) -> None:
        running.call(running.service.engine.report(held.task, command))

    return report


def test_a_run_that_was_cancelled_leaves_its_files_behind(
    service: Running, http: httpx.Client, held: Held
):
    cancelled(service, held)
    assert put(http, held, "log", b"why").status_code == 200
    made = register(http, held, "more", content_type="a/b").json()
    sent = http.put(made["put_url"], content=b"x", headers={"Content-Type": "a/b"})
    assert sent.status_code == 200
    assert http.get(f"{held.files}/log").content == b"why"


@pytest.mark.parametrize("end", [Complete(result=b"1"), Fail(error=TaskError(message="no"))])
def test_a_run_that_has_reported_its_own_end_leaves_nothing_more(
    service: Running, http: httpx.Client, held: Held, end: Command
):
    reported(end)(service, held)
    problem(put(http, held, "late", b"x"), 409, "lease-lost")
    problem(register(http, held, "late"), 409, "lease-lost")
    assert http.get(held.files).json()["artifacts"] == []


def test_after_its_grace_a_run_leaves_nothing_more(tmp_path: Path):
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")
    with serving(app, artifact_grace=0.0) as running, running.client() as http:
        held = Held(running)
        cancelled(running, held)
        began = running.service.engine.now()
        while running.service.engine.now() <= began:
            pass
        problem(put(http, held, "late", b"x"), 409, "lease-lost")


def test_the_grace_counts_from_an_end_that_was_none_of_the_runs_own():
    run = Run(number=0, created_reason=Reason.SUBMITTED, scheduled_at=1)
    assert not may_leave(run, 10, 100)  # it was never claimed
    run = Run(number=0, created_reason=Reason.SUBMITTED, scheduled_at=1, claimed_at=2)
    assert may_leave(run, 10**12, 0)
    for reason in Reason:
        ended = Run(
            number=0,
            created_reason=Reason.SUBMITTED,
            scheduled_at=1,
            claimed_at=2,
            resolved_at=1_000,
            resolved_reason=reason,
        )
        for now, in_time in ((1_000, True), (1_100, True), (1_101, False)):
            assert may_leave(ended, now, 100) is (in_time and reason in EXCEPTIONAL), reason
    assert Reason.CANCEL_FORCED in EXCEPTIONAL
    assert Reason.LEASE_EXPIRED in EXCEPTIONAL
    assert not {Reason.SUCCESS, Reason.ERROR, Reason.RETRIES_EXHAUSTED} & EXCEPTIONAL
