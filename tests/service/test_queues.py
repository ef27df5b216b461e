"""Queues over HTTP: made, configured, purged and deleted, on every store."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest
from conftest import selected_stores
from servers import Servers

from andon.contract.requests import ClaimRequest

from .conftest import make_app
from .kit import Running, problem, serving

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "/api/v1/queues"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "store_kind" in metafunc.fixturenames:
        metafunc.parametrize("store_kind", selected_stores(metafunc.config), scope="module")


@pytest.fixture(scope="module")
def running(
    store_kind: str, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("queues")
    with serving(make_app(servers.fresh_url(store_kind, folder)), max_bulk=4) as running:
        yield running


@pytest.fixture(scope="module")
def http(running: Running) -> Iterator[httpx.Client]:
    with running.client() as client:
        yield client


def submit(http: httpx.Client, queue: str, *ids: str) -> None:
    for task_id in ids:
        asked = {"id": f"{queue}-{task_id}", "name": "job", "queue": queue}
        assert http.post("/api/v1/tasks", json=asked).status_code == 201


def claim(running: Running, queue: str) -> list[str]:
    """The ids of what a worker gets from the queue."""

    async def claimed() -> list[str]:
        engine, ids = running.service.engine, list[str]()
        for partition in range(await engine.partitions()):
            asked = ClaimRequest(
                worker="w",
                token=f"{queue}{partition}",
                queues=(queue,),
                limit=1,
                lease_ms=60_000,
                partition=partition,
            )
            ids += [task.id for task in await engine.claim(asked)]
        return ids

    return running.call(claimed())


def listed(http: httpx.Client) -> set[str]:
    return {queue["name"] for queue in http.get(PLACE).json()}


def test_a_queue_is_made_once_and_its_place_is_told(http: httpx.Client):
    answer = http.post(PLACE, json={"name": "made/1", "max_concurrent": 3})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == "/api/v1/queues/made%2F1"
    assert http.get(answer.headers["location"]).json() == answer.json()
    assert answer.json()["max_concurrent"] == 3
    again = http.post(PLACE, json={"name": "made/1", "max_concurrent": 3})
    assert (again.status_code, again.json()) == (200, answer.json())
    other = problem(
        http.post(PLACE, json={"name": "made/1", "max_concurrent": 4}), 409, "queue-exists"
    )
    assert "PATCH /api/v1/queues/made%2F1" in other["detail"]
    assert http.get(f"{PLACE}/made%2F1").json()["max_concurrent"] == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "no spaces"}, "name"),
        ({"name": ""}, "name"),
        ({"max_size": 3}, "name"),
        ({"name": "bad", "weight": 0}, "weight"),
        ({"name": "bad", "policy": {"max_retires": 1}}, "policy.max_retires"),
        ({"name": "bad", "deleted": True}, "deleted"),
        ({"name": None}, "name"),
    ],
)
def test_a_queue_that_cannot_be_is_not_made(
    http: httpx.Client, body: dict[str, object], field: str
):
    before = listed(http)
    assert problem(http.post(PLACE, json=body), 422, "invalid-request")["field"] == field
    assert listed(http) == before


def test_a_purge_removes_what_waits_as_many_as_one_request_may(
    http: httpx.Client, running: Running
):
    submit(http, "purged", "a", "b", "c", "d", "e", "f")
    [active] = claim(running, "purged")
    answer = http.post(f"{PLACE}/purged/purge", json={})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "queue": "purged",
        "removed": 4,
        "refused": 0,
        "more": True,
        "deleted": False,
    }
    answer = http.post(f"{PLACE}/purged/purge")
    assert (answer.json()["removed"], answer.json()["more"]) == (1, False)
    assert http.get(f"{PLACE}/purged").json()["counts"]["active"] == 1
    assert http.post(f"{PLACE}/purged/purge", json={"force": True}).json()["removed"] == 1
    assert http.get(f"/api/v1/tasks/{active}").status_code == 404


def test_a_queue_with_live_tasks_is_deleted_by_force_and_listed_no_more(
    http: httpx.Client, running: Running
):
    assert http.patch(f"{PLACE}/doomed", json={"max_size": 9}).status_code == 200
    submit(http, "doomed", "a", "b")
    refused = problem(http.delete(f"{PLACE}/doomed"), 409, "queue-not-empty")
    assert "2 pending" in refused["detail"]
    assert refused["queue"] == "doomed"
    assert http.get(f"{PLACE}/doomed").json()["max_size"] == 9
    answer = http.delete(f"{PLACE}/doomed", params={"force": "true"})
    assert answer.status_code == 200, answer.text
    assert (answer.json()["removed"], answer.json()["deleted"]) == (2, True)
    problem(http.get(f"{PLACE}/doomed"), 404, "not-found")
    problem(http.delete(f"{PLACE}/doomed"), 404, "not-found")
    problem(http.post(f"{PLACE}/doomed/purge"), 404, "not-found")
    assert "doomed" not in listed(http)

    submit(http, "doomed", "late")
    queue = http.get(f"{PLACE}/doomed").json()
    assert (queue["counts"], queue["max_size"]) == ({"pending": 1}, None)
    assert claim(running, "doomed") == ["doomed-late"]


def test_more_than_one_request_may_remove_is_deleted_by_several(http: httpx.Client):
    submit(http, "large", *"abcdef")
    refused = problem(http.delete(f"{PLACE}/large?force=true"), 409, "queue-not-empty")
    assert "4 were removed; delete it again" in refused["detail"]
    assert http.delete(f"{PLACE}/large?force=true").status_code == 200
    assert "large" not in listed(http)


def test_a_deleted_queue_is_made_again_with_nothing_of_its_old_settings(http: httpx.Client):
    assert http.post(PLACE, json={"name": "anew", "paused": True}).status_code == 201
    assert http.delete(f"{PLACE}/anew").status_code == 200
    answer = http.post(PLACE, json={"name": "anew"})
    assert (answer.status_code, answer.json()["paused"]) == (201, False)
    assert "anew" in listed(http)
