"""`Idempotency-Key`: a submit that may be repeated without an id of its own."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon
from andon.service.trust.registry import Registry
from andon.stores.registry import open_store

from .kit import problem, serving

TASKS = "/api/v1/tasks"
BULK = "/api/v1/bulk"
JOBS = "/api/v1/jobs"
ADD = {"name": "add", "args": {"a": 1}}


def keyed(key: str) -> dict[str, str]:
    return {"idempotency-key": key}


def stored(http: httpx.Client) -> int:
    return len(http.get(TASKS).json()["tasks"])


def test_a_repeat_is_the_same_task_and_answered_as_the_first_was(http: httpx.Client):
    first = http.post(TASKS, json={**ADD, "delay": 60}, headers=keyed("k1"))
    again = http.post(TASKS, json={**ADD, "delay": 60}, headers=keyed("k1"))
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert first.json()["created"] is True
    assert first.headers["location"] == again.headers["location"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert stored(http) == 1


def test_another_key_is_another_task(http: httpx.Client):
    ids = {http.post(TASKS, json=ADD, headers=keyed(key)).json()["id"] for key in ("k1", "k2")}
    assert len(ids) == stored(http) == 2


def test_the_same_key_with_another_body_is_refused_and_stores_nothing(http: httpx.Client):
    http.post(TASKS, json=ADD, headers=keyed("k1"))
    other = http.post(TASKS, json={**ADD, "priority": 2}, headers=keyed("k1"))
    told = problem(other, 422, "idempotency-key-reused")
    assert told["field"] == "Idempotency-Key"
    assert stored(http) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ä", "a\tb"])
def test_a_key_that_is_none_is_refused(http: httpx.Client, key: str):
    headers = {b"idempotency-key": key.encode("latin-1")}
    answer = http.post(TASKS, json=ADD, headers=headers)
    assert problem(answer, 422, "invalid-request")["field"] == "Idempotency-Key"
    assert stored(http) == 0


def test_a_key_that_is_given_twice_is_refused(http: httpx.Client):
    twice = [(b"idempotency-key", b"a"), (b"idempotency-key", b"b")]
    problem(http.post(TASKS, json=ADD, headers=twice), 400, "malformed-request")


@pytest.mark.parametrize(
    ("path", "body"),
    [(TASKS, {**ADD, "id": "mine"}), (JOBS, {"type": "add", "params": {"a": 1}, "job_id": "m"})],
)
def test_a_key_beside_an_id_is_refused(http: httpx.Client, path: str, body: dict[str, Any]):
    answer = http.post(path, json=body, headers=keyed("k1"))
    assert "not both" in problem(answer, 422, "invalid-request")["detail"]


def test_a_bulk_submit_is_repeated_entry_by_entry(http: httpx.Client):
    tasks: list[Any] = [ADD, None, {**ADD, "id": "own"}, {"name": "add", "args": {"a": 2}}]
    first = http.post(BULK, json={"tasks": tasks}, headers=keyed("k1")).json()
    again = http.post(BULK, json={"tasks": tasks}, headers=keyed("k1")).json()
    assert (first["accepted"], first["refused"]) == (again["accepted"], again["refused"]) == (3, 1)
    assert [one["id"] for one in first["tasks"]] == [one["id"] for one in again["tasks"]]
    assert [one["created"] for one in again["tasks"]] == [True, False, False, True]
    assert stored(http) == 3

    tasks[3] = {"name": "add", "args": {"a": 3}}
    changed = http.post(BULK, json={"tasks": tasks}, headers=keyed("k1")).json()
    assert changed["tasks"][0] == first["tasks"][0]
    assert changed["tasks"][3]["error"]["type"] == "urn:andon:problem:idempotency-key-reused"
    assert stored(http) == 3


def test_a_job_is_repeated(http: httpx.Client):
    body = {"type": "add", "params": {"a": 1}}
    first = http.post(JOBS, json=body, headers=keyed("k1"))
    again = http.post(JOBS, json=body, headers=keyed("k1"))
    assert first.status_code == again.status_code == 201
    assert first.json()["job_id"] == again.json()["job_id"]
    assert first.json()["job_id"].startswith("job_")
    assert first.headers["location"] == f"{JOBS}/{first.json()['job_id']}"
    assert again.headers["idempotent-replayed"] == "true"
    other = http.post(JOBS, json={**body, "max_retries": 9}, headers=keyed("k1"))
    problem(other, 422, "idempotency-key-reused")


def test_a_deleted_task_is_not_run_again_by_a_late_repeat(http: httpx.Client):
    made = http.post(TASKS, json=ADD, headers=keyed("k1")).json()
    http.post(f"{TASKS}/{made['id']}/cancel")
    assert http.delete(f"{TASKS}/{made['id']}").status_code == 200
    again = http.post(TASKS, json=ADD, headers=keyed("k1"))
    assert (again.status_code, again.json()["id"]) == (201, made["id"])
    assert stored(http) == 0


@pytest.fixture
def two(tmp_path: Path) -> Iterator[list[httpx.Client]]:
    """Clients with a token each."""
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")

    async def tokens() -> list[str]:
        store = open_store(app.url)
        await store.open()
        made = [await Registry(store).create(name, ["*"]) for name in ("one", "two")]
        await store.close()
        return [text for text, _ in made]

    one, two = asyncio.run(tokens())
    with (
        serving(app, require_token=True) as running,
        running.client(headers={"authorization": f"Bearer {one}"}) as first,
        running.client(headers={"authorization": f"Bearer {two}"}) as second,
    ):
        yield [first, second]


def test_a_key_is_of_one_token(two: list[httpx.Client]):
    ids = {http.post(TASKS, json=ADD, headers=keyed("k1")).json()["id"] for http in two * 2}
    assert len(ids) == 2
    other = two[1].post(TASKS, json={"name": "other"}, headers=keyed("k9"))
    assert other.status_code == 201
    assert two[0].post(TASKS, json=ADD, headers=keyed("k9")).status_code == 201
