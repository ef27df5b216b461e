"""Who did it, over HTTP: a token names the caller, an open service goes by what callers say."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from andon.client.services import service_at
from andon.engine.actor import acting_as
from andon.service.trust.registry import Registry
from andon.stores.registry import open_store

from .conftest import make_app
from .kit import Running, serving


def acts(running: Running, **query: Any) -> list[tuple[str, str, str]]:
    with running.client() as client:
        reply = client.get("/api/v1/audit", params=query)
        assert reply.status_code == 200, reply.text
        return [(one["act"], one["subject"], one["actor"]) for one in reply.json()]


def submit(running: Running, task_id: str, **headers: str) -> None:
    with running.client(headers=headers) as client:
        body = {"id": task_id, "name": "add", "args": {"a": 1}, "delay": 3600}
        assert client.post("/api/v1/tasks", json=body).status_code == 201


def test_an_open_service_goes_by_the_name_that_callers_give(tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/a.db")) as running, running.client() as client:
        submit(running, "a")
        submit(running, "b")
        headers = {"Andon-Actor": "ann%20%C3%A4"}
        assert client.post("/api/v1/tasks/a/cancel", json={}, headers=headers).status_code == 200
        assert client.post("/api/v1/tasks/b/run-now", json={}).status_code == 200
        assert client.patch("/api/v1/queues/q", json={"paused": True}).status_code == 200
        assert acts(running) == [
            ("configure-queue", "q", "anyone on this machine"),
            ("run-now", "b", "anyone on this machine"),
            ("cancel", "a", "ann ä"),
        ]
        assert acts(running, actor="ann ä", limit=1) == [("cancel", "a", "ann ä")]
        history = client.get("/api/v1/events", params={"task": "a"}).json()["events"]
        assert [one.get("actor") for one in history] == [None, "ann ä"]


def test_a_token_names_the_caller_whatever_they_say(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"

    async def token() -> tuple[str, str]:
        store = open_store(url)
        await store.open()
        try:
            text, record = await Registry(store).create("ci", ["*"])
            return text, record.id
        finally:
            await store.close()

    text, token_id = asyncio.run(token())
    with serving(make_app(url), require_token=True) as running:
        headers = {"Authorization": f"Bearer {text}"}
        submit(running, "a", **headers)
        with running.client(headers=headers) as client:
            said = {"Andon-Actor": "somebody else"}
            client.post("/api/v1/tasks/a/cancel", json={}, headers=said).raise_for_status()
            found = client.get("/api/v1/audit").json()
            made = client.post("/api/v1/tokens", json={"name": "n", "scopes": ["tasks:*"]}).json()
            client.delete(f"/api/v1/tokens/{made['id']}").raise_for_status()
            client.delete(f"/api/v1/tokens/{made['id']}").raise_for_status()
            later = client.get("/api/v1/audit").json()
        assert [(one["act"], one["subject"], one["actor"]) for one in found] == [
            ("cancel", "a", "token ci"),
            ("create-token", token_id, ""),
        ]
        assert [(one["act"], one["actor"]) for one in later[:2]] == [
            ("revoke-token", "token ci"),
            ("create-token", "token ci"),
        ]
        assert text not in str(later)


async def test_a_python_client_says_who_acts(tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/a.db")) as running:
        submit(running, "a")
        submit(running, "b")
        engine = service_at(running.url)
        await engine.open()
        try:
            with acting_as("ann"):
                await engine.cancel(["a", "no-such-task"])
            (record,) = await engine.acts("ann")
            assert (record.act, record.subject, record.count) == ("cancel", "a", 1)
            assert (await engine.history("a")).events[-1].actor == "ann"
        finally:
            await engine.close()


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 501}])
def test_a_list_out_of_bounds_is_refused(query: dict[str, Any], tmp_path: Path) -> None:
    with serving(make_app(f"sqlite:///{tmp_path}/a.db")) as running, running.client() as client:
        assert client.get("/api/v1/audit", params=query).status_code == 422
