"""`kill -9` of the service in the middle of each call, while everybody asks it for everything:
whatever was answered is so when all is over, and the ledger balances."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from conftest import shared_stores
from servers import Servers
from tests.crash.chance import chance
from tests.crash.watching import PATIENCE_S, STORM_S, Watcher

from andon.engine.opening import open_store
from andon.model.words import State

from .crowd import CLAIM_TIMEOUT_S, CREATORS, ENDED, METHODS, WORKERS, Crowd
from .persistent import Account, Persistent
from .serving import Restarted, restarted_on

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

STORES = ("sqlite", "postgres")
"""One file, and one server."""

OPTIONS = ("--claim-timeout", f"{CLAIM_TIMEOUT_S}s", "--claim-wait", "300ms")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    kinds = [kind for kind in shared_stores(metafunc.config) if kind in STORES]
    metafunc.parametrize("store_kind", kinds)


@pytest.fixture
def store(store_kind: str, servers: Servers, tmp_path: Path) -> str:
    return servers.fresh_url(store_kind, tmp_path)


@pytest.fixture
def service(store: str, tmp_path: Path) -> Iterator[Restarted]:
    with restarted_on(store, tmp_path, *OPTIONS) as service:
        yield service


def test_a_service_killed_in_the_middle_of_each_call_keeps_what_it_has_answered(
    service: Restarted, store: str, request: pytest.FixtureRequest
) -> None:
    asyncio.run(storm(service, store, chance(request.node.nodeid)))


async def storm(service: Restarted, store: str, rng: random.Random) -> None:
    """Ask, kill, let the workers finish, and hold what is stored against what was answered."""
    account = Account()
    client = Persistent(service.url, account)
    crowd = Crowd(client, account, rng)
    opened = open_store(store)
    await opened.open()
    watcher = Watcher(opened)
    try:
        async with asyncio.TaskGroup() as everybody:
            workers = [everybody.create_task(crowd.work(f"w{n}")) for n in range(WORKERS)]
            others = [
                everybody.create_task(one)
                for one in (
                    *(crowd.create() for _ in range(CREATORS)),
                    crowd.meddle(),
                    crowd.close(),
                )
            ]
            await hunt(service, client, rng, watcher)
            crowd.is_over = True
            await asyncio.wait(others)
            await drain(client, watcher)
            crowd.is_drained = True
            await asyncio.wait(workers)
        await watcher.look()
        await check(client, account, watcher)
    finally:
        await client.close()
        await opened.close()


async def hunt(
    service: Restarted, client: Persistent, rng: random.Random, watcher: Watcher
) -> None:
    """Kill the service while a call is under way, or when some were carried out and not answered
    yet, and start it again: for a while, and until each method had the latter."""
    account = client.account
    start = time.monotonic()
    while time.monotonic() < start + STORM_S or not all(account.lost[name] for name in METHODS):
        assert time.monotonic() < start + STORM_S + PATIENCE_S, (account.cut, account.lost)
        had = rng.choice((account.cut, account.lost))
        least = min(had[name] for name in METHODS)
        await client.sent(rng.choice([name for name in METHODS if had[name] == least]), 2)
        client.is_deaf = had is account.lost
        await asyncio.sleep(rng.random() * (0.2 if client.is_deaf else rng.choice((0.005, 0.05))))
        await asyncio.to_thread(service.kill)
        client.is_deaf = False
        await asyncio.to_thread(service.start)
        await watcher.follow(rng.random() * 0.2)

    assert sum(account.cut.values()), "nothing was under way when it was killed"


async def drain(client: Persistent, watcher: Watcher) -> None:
    """Until every task has ended. What waits for one that has not completed is let go."""
    deadline = time.monotonic() + PATIENCE_S
    while waiting := await unresolved(client, watcher):
        assert time.monotonic() < deadline, waiting
        for task_id, state in waiting.items():
            if state in (State.BLOCKED, State.SCHEDULED):
                await client.ask("scheduleTask", "POST", f"/task/{task_id}/schedule")
        await watcher.follow(0.1)


async def unresolved(client: Persistent, watcher: Watcher) -> dict[str, State | None]:
    """Tasks that were created and have not ended."""
    await watcher.look()
    unseen = client.account.created.keys() - watcher.ledger.tasks.keys()
    return watcher.ledger.unresolved() | dict.fromkeys(unseen)


async def check(client: Persistent, account: Account, watcher: Watcher) -> None:
    """Everything that was answered is so."""
    watcher.ledger.balance(account.created)
    ends = Counter(
        (event.task, event.revision)
        for event in watcher.events
        if event.source is State.ACTIVE and event.target is not State.ACTIVE
    )
    assert set(ends.values()) <= {1}
    assert set(account.handed.values()) <= {1}, "a run was handed out twice"
    reasons: dict[tuple[str, int], str] = {}
    for task_id, sent in account.created.items():
        task = (await client.ask("task", "GET", f"/task/{task_id}")).json()
        assert task | sent | times(task) == task
        status = (await client.ask("status", "GET", f"/task/{task_id}/status")).json()["status"]
        assert status["state"] in ENDED
        runs: list[dict[str, Any]] = status["runs"]
        assert [run["runId"] for run in runs] == list(range(len(runs))), runs
        for run in runs:
            assert run["state"] in ENDED, runs
            reasons[task_id, run["runId"]] = run["reasonResolved"]
    for task_id in account.refused:
        await client.ask("task", "GET", f"/task/{task_id}", good=(404,))
    assert account.handed.keys() <= reasons.keys()
    for run, reason in account.accepted.items():
        assert reasons[run] == reason, (run, reasons[run], "not what was reported")
    for run, reason in account.denied.items():
        assert reasons[run] != reason, (run, "was refused what it was granted")
    await check_groups(client, account)
    await check_artifacts(client, account)


def times(task: dict[str, Any]) -> dict[str, Any]:
    """Those that are written in another way than they were sent."""
    return {name: task[name] for name in ("created", "deadline", "dependencies")}


async def check_groups(client: Persistent, account: Account) -> None:
    for group, members in account.members.items():
        path = f"/task-group/{group}/list"
        listed = (await client.ask("listTaskGroup", "GET", path)).json()
        assert sorted(row["status"]["taskId"] for row in listed["tasks"]) == sorted(members)
        assert listed.get("sealed") == account.sealed.get(group)
        if (size := account.sizes.get(group)) is not None:
            # What had asked before the seal may come after it (docs/rulings.md, R41).
            assert size <= len(members) <= size + CREATORS


async def check_artifacts(client: Persistent, account: Account) -> None:
    for (task_id, run, name), kind in account.entries.items():
        path = f"/task/{task_id}/runs/{run}/artifact-content/{quote(name, safe='')}"
        told = (await client.ask("artifact", "GET", path)).json()
        assert told["storageType"] == kind
        if kind == "s3":
            got = await client.ask("download", "GET", told["url"])
            assert got.content == account.files[task_id, run, name]
