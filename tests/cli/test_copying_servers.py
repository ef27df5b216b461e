"""`andon storage copy` between server stores: once around all of them, and cut by `kill -9`."""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import shared_stores
from launching import launch
from servers import Servers

from andon.contract.queries import Query
from andon.contract.requests import ClaimRequest
from andon.contract.store import Store
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Command, Complete, Fail, Stop, Terminate, UnknownTask
from andon.model.settings import MOVING, MOVING_LAST
from andon.model.task import Task, TaskError, TaskEvent
from andon.model.words import State
from andon.stores.registry import open_store

from .conftest import Cli

ANDON = [sys.executable, "-m", "andon.cli"]
MANY = 4_000
PATIENCE_S = 60
ERROR = TaskError(message="out of paper")

APP = """
from andon import Andon

app = Andon()

@app.task(name="job", lease=2, retry_delay=None)
async def job() -> str:
    return "done"
"""

LIVE = {"active", "lost", "blocked", "waiting", "scheduled", "pending", "held", "retry"}
"""What the tasks are called that a worker has to finish, after what they wait for."""

ENDED = {"completed", "failed", "unreachable", "stalled", "dropped", "expired", "cancelled"}


def on(cli: Cli, url: str) -> Cli:
    """The command line on another store."""
    other = Cli(cli.folder)
    other.store = other.url = url
    return other


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "ANDON_URL"}


async def every_task(store: Store) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    cursor = ""
    while True:
        page = await store.find(Query(limit=200, cursor=cursor))
        tasks |= {task.id: task for task in page.tasks}
        if not page.cursor:
            return tasks
        cursor = page.cursor


# --- around ---


async def fill(engine: LocalEngine) -> None:
    """A task in every state, each named after it, and what stands beside the tasks."""

    async def submit(task_id: str, **fields: object) -> None:
        (outcome,) = await engine.submit([Submission(id=task_id, name="job", **fields)])  # type: ignore[arg-type]
        assert outcome.error is None, outcome.error

    async def run(command: Command | None, *, worker: str = "gone", lease_ms: int = 60_000) -> None:
        request = ClaimRequest(
            worker=worker, token=f"t{time.monotonic_ns()}", queues=("default",), limit=1,
            lease_ms=lease_ms,
        )  # fmt: skip
        (task,) = await engine.claim(request)
        if command is not None:
            await engine.report(task, command)
        await engine.settled()

    await submit("expired", deadline_in=0.05)
    until = time.monotonic() + PATIENCE_S
    while (await engine.get(["expired"]))[0].state is not State.EXPIRED:  # type: ignore[union-attr]
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
        await engine.timekeeper.run_once()
    await submit("completed")
    await run(Complete(result=b'{"answer": 42}'))
    await submit("failed")
    await submit("unreachable", dependencies=("failed",))
    await run(Terminate(error=ERROR))
    await submit("retry", options={"retry_delay": 1.0, "max_retries": 3})
    await run(Fail(error=ERROR))
    await submit("stalled")
    await run(Stop())
    await submit("dropped", options={"on_unknown": "drop"})
    await run(UnknownTask())
    await submit("cancelled")
    await engine.cancel(["cancelled"])
    await submit("active", options={"lease": 60.0, "max_retries": 3})
    await run(None)
    await submit("lost", options={"lease": 1.0, "max_retries": 3})
    await run(None, lease_ms=1)
    await submit("blocked", dependencies=("completed", "active"))
    await submit("scheduled", delay=1.0)
    await submit("pending", priority=3)
    await submit("waiting", dependencies=("blocked", "pending"), load_dependencies=True)
    await submit("held", unique_key="the-key")
    for name in (*MOVING, *MOVING_LAST):
        if name != "retention":
            await engine.store.put_setting(name, f"its {name}".encode(), expect=None)
    await engine.store.put_setting("retention", b"604800", expect=None)


async def snapshot(
    engine: LocalEngine,
) -> tuple[dict[str, Task], dict[str, list[TaskEvent]], dict[str, bytes | None]]:
    """All tasks, their moves, and the settings that move with them."""
    tasks = await every_task(engine.store)
    moves = {task_id: list((await engine.history(task_id)).events) for task_id in tasks}
    settings = {name: await engine.store.setting(name) for name in (*MOVING, *MOVING_LAST)}
    return tasks, moves, settings


async def report_active(engine: LocalEngine) -> None:
    """The run that was in hand all the way reports to the store it has come to."""
    (task,) = await engine.get(["active"])
    assert task is not None
    await engine.report(task, Complete(result=b'"done"'))


@contextmanager
def working(cli: Cli) -> Iterator[None]:
    """A worker in a process of its own."""
    app = cli.write("ring_app.py", APP)
    worker = launch(
        [*ANDON, "worker", app, "--url", cli.url],
        env=environment(),
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        worker.kill()
        worker.wait()


def test_a_copy_goes_around_every_store_and_the_last_finishes_it(
    cli: Cli, tmp_path: Path, servers: Servers, pytestconfig: pytest.Config
) -> None:
    between = [kind for kind in shared_stores(pytestconfig) if kind != "sqlite"]
    first, last = tmp_path / "first", tmp_path / "last"
    first.mkdir()
    last.mkdir()
    urls = [
        servers.fresh_url("sqlite", first),
        *(servers.fresh_url(kind, tmp_path) for kind in between),
        servers.fresh_url("sqlite", last),
    ]
    on(cli, urls[0]).behind(fill)
    before = on(cli, urls[0]).behind(snapshot)
    assert before[0].keys() == LIVE | ENDED
    assert {task.state for task in before[0].values()} == set(State) - {
        State.UNSUBMITTED,
        State.UNKNOWN,
        State.RECURRING,
    }
    for source, target in pairwise(urls):
        ledger = cli.json("storage", "copy", source, target)
        assert ledger["balanced"] is True, ledger
        assert sum(tally["written"] for tally in ledger["tasks"].values()) == len(before[0])
        assert ledger["beside"]["settings"]["written"] == len(MOVING) + len(MOVING_LAST)
        assert on(cli, target).behind(snapshot) == before
    end = on(cli, urls[-1])
    assert "the-key" in end("submit", "job", "--unique-key", "the-key", code=1).stderr
    end.behind(report_active)
    with working(end):
        end("wait", *LIVE, "--timeout", "120")
    tasks, moves, _ = end.behind(snapshot)
    assert tasks.keys() == before[0].keys()
    assert Counter(task.state for task in tasks.values()) == {
        State.COMPLETED: len(LIVE) + 1,
        **{State(state): 1 for state in ENDED - {"completed"}},
    }
    for task_id, task in tasks.items():
        made = moves[task_id]
        assert made[: len(before[1][task_id])] == before[1][task_id]
        assert [event.revision for event in made] == list(range(1, task.status.revision + 1))
        assert all(run.resolved_at is not None for run in task.status.runs), task.status.runs
    counted = {q["name"]: q["counts"] for q in end.json("queues", "list")}
    assert sum(counted["default"].values()) == len(tasks)


# --- cut ---


async def _fill_many(engine: LocalEngine) -> None:
    await engine.submit([Submission(id=f"t{number:05}", name="job") for number in range(MANY)])


def _cut(source: str, target: str) -> int:
    """Kill a copy that has begun to write; how many had arrived, 0 if it ended first."""
    with launch(
        [*ANDON, "storage", "copy", source, target],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        try:
            arrived = asyncio.run(_begun(target, process))
        finally:
            process.kill()
        _, said = process.communicate()
    assert process.returncode in (0, -9), said.decode()
    return arrived if process.returncode else 0


async def _begun(target: str, process: "subprocess.Popen[bytes]") -> int:
    store = open_store(target)
    await store.open()
    try:
        async with asyncio.timeout(PATIENCE_S):
            arrived = 0
            while not arrived and process.poll() is None:
                arrived = await _count(store)
        return arrived
    finally:
        await store.close()


async def _count(store: Store) -> int:
    return sum(sum(queue.counts.values()) for queue in await store.stats())


def test_a_copy_that_was_killed_goes_on_when_it_is_repeated(
    hop: tuple[str, str], cli: Cli, tmp_path: Path, servers: Servers
) -> None:
    source = servers.fresh_url(hop[0], tmp_path)
    on(cli, source).behind(_fill_many)
    arrived, target = 0, ""
    for number in range(10):  # on a slow machine it may end first
        folder = tmp_path / f"{number}"
        folder.mkdir()
        target = servers.fresh_url(hop[1], folder)
        arrived = _cut(source, target)
        if arrived:
            break
    assert 0 < arrived < MANY
    ledger = cli.json("storage", "copy", source, target)
    assert ledger["balanced"] is True, ledger
    pending = ledger["tasks"]["pending"]
    assert pending["there"] >= arrived
    assert pending["written"] > 0
    assert pending["there"] + pending["written"] == MANY
    found = [on(cli, url).behind(lambda e: every_task(e.store)) for url in (source, target)]
    assert found[0] == found[1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each server store once as source and once as target."""
    if "hop" in metafunc.fixturenames:
        kinds = shared_stores(metafunc.config)
        hops = list(zip(kinds, [*kinds[1:], kinds[0]], strict=True))
        metafunc.parametrize("hop", hops, ids="-to-".join)
