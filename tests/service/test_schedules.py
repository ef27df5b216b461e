"""Schedules over HTTP: made, changed and acted on, and who may do so."""

import asyncio
from pathlib import Path

import httpx
import pytest

from andon import Andon
from andon.service.trust.registry import Registry

from .conftest import make_app
from .kit import problem, serving

URL = "/api/v1/schedules"
HOURLY = {"every": 3600, "task": {"name": "add", "args": {"a": 1}, "options": {"max_retries": 7}}}


def test_a_schedule_is_made_once_and_changed(http: httpx.Client) -> None:
    made = http.put(f"{URL}/s", json=HOURLY)
    assert made.status_code == 201
    assert made.headers["location"] == "/api/v1/schedules/s"
    assert http.put(f"{URL}/s", json=HOURLY).status_code == 200
    changes = {"cron": "0 2 * * *", "tz": "Europe/Berlin", "task": {"priority": "high"}}
    assert http.patch(f"{URL}/s", json=changes).status_code == 200
    found = http.get(f"{URL}/s").json()
    assert (found["cron"], found["every"]) == (["0 2 * * *"], None)
    task = found["task"]
    assert (task["args"], task["priority"], task["policy"]["max_retries"]) == ({"a": 1}, 1, 7)
    assert http.get(URL).json()["schedules"][0]["name"] == "s"
    seen = http.get(f"{URL}/s?as=choria").json()
    assert (seen["Name"], seen["Schedule"]) == ("s", "CRON_TZ=Europe/Berlin 0 2 * * *")
    assert http.get(f"{URL}?as=jobbers").json()["schedules"][0]["cron_expr"] == "0 2 * * *"
    problem(http.get(f"{URL}/s?as=nobody"), 422, "invalid-request")
    [time] = http.get(f"{URL}/s/next?count=1&after=2027-03-28T00:00:00Z").json()["times"]
    assert time["local"] == "2027-03-28T03:00:00+02:00"
    assert "Clocks go forward" in time["notes"][0]


def test_a_schedule_is_paused_run_and_deleted(http: httpx.Client) -> None:
    http.put(f"{URL}/s", json=HOURLY)
    assert http.post(f"{URL}/s/pause").json() == {
        "name": "s",
        "state": "recurring",
        "changed": True,
    }
    assert [one["name"] for one in http.get(f"{URL}?paused=true").json()["schedules"]] == ["s"]
    borne = http.post(f"{URL}/s/run").json()["task"]
    assert http.get(f"/api/v1/tasks/{borne}").json()["args"] == {"a": 1}
    assert http.post(f"{URL}/s/resume").json()["changed"]
    assert http.delete(f"{URL}/s").json()["state"] is None
    problem(http.get(f"{URL}/s"), 404, "not-found")


def test_a_backfill_goes_in_parts_and_asks_with_its_number(http: httpx.Client) -> None:
    http.put(f"{URL}/s", json={**HOURLY, "every": 60})
    day = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    refused = problem(http.post(f"{URL}/s/backfill", json=day), 422, "invalid-request")
    assert "1,440 occurrences" in refused["detail"]
    first = http.post(f"{URL}/s/backfill", json={**day, "yes": True}).json()
    assert (first["created"], first["next"]) == (1000, "2026-01-01T16:40:00.000Z")
    rest = {**day, "start": first["next"], "yes": True}
    last = http.post(f"{URL}/s/backfill", json=rest).json()
    assert (last["created"], last["next"]) == (440, None)


BAD = {
    "tz": {**HOURLY, "tz": "Europe/Belin"},
    "cron": {"cron": "0 25 * * *", "task": HOURLY["task"]},
    "end": {**HOURLY, "start": "2027-01-02T00:00:00Z", "end": "2027-01-01T00:00:00Z"},
    "start": {**HOURLY, "start": "tomorrow"},
    "task.args": {"every": 60, "task": {"name": "add", "args": {"q": 1}}},
    "task.options.max_retrys": {
        "every": 60,
        "task": {"name": "add", "args": [1], "options": {"max_retrys": 1}},
    },
}


@pytest.mark.parametrize("field", BAD)
def test_what_can_never_fire_is_refused_by_its_field(http: httpx.Client, field: str) -> None:
    there = http.put(f"{URL}/there", json=HOURLY).json()
    for answer in (
        http.put(f"{URL}/new", json=BAD[field]),
        http.patch(f"{URL}/there", json=BAD[field]),
    ):
        assert answer.status_code == 422
        assert answer.json()["field"] == field
    assert http.get(URL).json()["schedules"] == [there]


def test_no_schedule_takes_the_id_of_a_task(http: httpx.Client) -> None:
    http.post("/api/v1/tasks", json={"id": "t", "name": "add", "args": [1]})
    refused = problem(http.put(f"{URL}/t", json=HOURLY), 422, "invalid-submission")
    assert refused["field"] == "name"
    problem(http.post(f"{URL}/t/pause"), 404, "not-found")


def test_a_schedule_needs_the_scopes_that_a_submit_of_its_tasks_needs(tmp_path: Path) -> None:
    app = make_app(f"sqlite:///{tmp_path}/tasks.db")

    async def tokens() -> list[str]:
        engine = await app.connections.engine()
        registry = Registry(engine.store)  # type: ignore[attr-defined]
        made = [
            await registry.create(name, scopes)
            for name, scopes in (
                ("all", ["*"]),
                ("maker", ["tasks:create:default", "tasks:change:default", "tasks:read:default"]),
                ("changer", ["tasks:change:default", "tasks:read:default"]),
            )
        ]
        await app.close()
        return [text for text, _ in made]

    everything, maker, changer = asyncio.run(tokens())
    secret = {**HOURLY, "task": {**HOURLY["task"], "scopes": ["vault:open"]}}
    with serving(app, require_token=True) as running, running.client() as http:

        def call(token: str, method: str, path: str, body: object) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return http.request(method, path, json=body, headers=headers)

        refused = problem(call(maker, "PUT", f"{URL}/s", secret), 403, "forbidden")
        assert refused["scope"] == "vault:open"
        assert call(maker, "PUT", f"{URL}/mine", HOURLY).status_code == 201
        assert call(everything, "PUT", f"{URL}/s", secret).status_code == 201
        # its task would still open the vault
        problem(call(maker, "PATCH", f"{URL}/s", {"every": 60}), 403, "forbidden")
        week = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
        problem(call(maker, "POST", f"{URL}/s/backfill", week), 403, "forbidden")
        problem(call(changer, "POST", f"{URL}/mine/backfill", week), 403, "forbidden")
        assert call(changer, "POST", f"{URL}/mine/pause", {}).status_code == 200
        forged = {"ids": ["mine"], "event": "rerun", "fields": {"schedule": {"after": 0}}}
        told = problem(
            call(changer, "POST", "/api/v1/engine/act", forged), 422, "invalid-submission"
        )
        assert "put_schedules" in told["detail"]


async def test_an_application_has_its_schedules_behind_a_service(tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/tasks.db")) as running:
        app = Andon(running.url, name="shop", release="1")

        @app.task(name="report", every=3600)
        async def report() -> None: ...

        async with app:
            assert [one.result for one in await app.schedules.declare()] == ["created"]
            assert [one.result for one in await app.schedules.declare()] == ["unchanged"]
            assert (await app.schedules.pause("report")).paused
            assert [one.name for one in await app.schedules.list()] == ["report"]
            day = 1_767_225_600_000, 1_767_312_000_000
            done = await app.schedules.backfill("report", *day)
            assert (done.created, done.range.count) == (24, 24)
            again = await app.schedules.backfill("report", day[0], day[1] + 3_600_000, yes=True)
            assert (again.created, again.existed) == (1, 24)
            await app.schedules.delete("report")
            assert await app.schedules.list() == []
