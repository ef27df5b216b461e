"""The life of `n` tasks through a store alone, and the same repeated by a bare client: the limit.

What the store sends its server during a whole life of `n` tasks (creates of 200, claims and
commits of 100, as a submitter and a worker of 100 runs send them) is recorded, and repeated on the
emptied server. So the server has the same work on the same records to do, while nothing is decided,
encoded or waited for beside it. What is stored afterwards is counted by the store.
"""

import asyncio
import json
import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any

from andon.client.ids import IdMaker
from andon.contract.limits import MAX_BATCH
from andon.contract.requests import Change, ClaimRequest
from andon.contract.store import Store
from andon.engine.control import change_of
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete
from andon.model.task import Definition, Task
from andon.model.words import State
from andon.stores.registry import open_store

AT_ONCE = 100
"""Runs at once in the worker that is measured, and so the most in a claim and in a commit."""

_ids = IdMaker()


def new_tasks(size: int, now: int) -> list[Task]:
    """Tasks as a client submits them in one call."""
    write_id = new_write_id()
    return [
        admit(Definition(id=_ids(), name="bench.noop", queue="bench"), now, write_id)
        for _ in range(size)
    ]


def claiming(token: str, limit: int, lease_ms: int = 600_000) -> ClaimRequest:
    """A worker's claim."""
    return ClaimRequest(
        worker="host-1-abcdef", token=token, queues=("bench",), limit=limit, lease_ms=lease_ms
    )


def completions(claimed: list[Task], now: int) -> list[Change]:
    """The ends of those runs."""
    return [
        change_of(task, apply(task, Complete(result=b"null"), now=now, random=lambda: 0.5))
        for task in claimed
    ]


async def submit(store: Store, n: int) -> None:
    """Create `n` tasks."""
    for start in range(0, n, MAX_BATCH):
        await store.create(new_tasks(min(MAX_BATCH, n - start), store.now()))


async def drain(store: Store, n: int) -> None:
    """Claim and complete them."""
    for start in range(0, n, AT_ONCE):
        claimed = await store.claim(claiming(f"claim-{start}", min(AT_ONCE, n - start)))
        await store.commit(completions(claimed, store.now()))


async def counted(store: Store, state: State) -> int:
    """How many there are in a state."""
    return sum(stats.counts.get(state, 0) for stats in await store.stats())


Recording = Callable[[], AbstractContextManager[list[Any]]]
"""Keeps what is sent while it is open."""

Repeat = Callable[[str, list[Any]], Awaitable[float]]
"""Sends to a URL what was kept; seconds."""


async def measure(
    url: str, n: int, empty: Callable[[], None], recording: Recording, repeat: Repeat
) -> dict[str, dict[str, Any]]:
    """What submitting and draining `n` tasks reach."""
    store = open_store(url)
    await store.open()
    with recording() as submits:
        await submit(store, n)
    with recording() as drains:
        await drain(store, n)
    await store.close()
    empty()
    store = open_store(url)
    await store.open()
    try:
        found = {}
        for kind, sent, state in (
            ("submit bulk", submits, State.PENDING),
            ("drain", drains, State.COMPLETED),
        ):
            seconds = await repeat(url, sent)
            verified = await counted(store, state)
            found[kind] = {"n": n, "rate": round(n / seconds, 1), "verified": verified}
        return found
    finally:
        await store.close()


def main(url: str, told: str, recording: Recording, repeat: Repeat) -> None:
    """Measure once, and print outcomes as a session does (side_by_side.py)."""

    def empty() -> None:
        subprocess.run(shlex.split(os.environ["BENCH_RESET"]), check=True)

    empty()
    found = asyncio.run(measure(url, json.loads(told)["drain"], empty, recording, repeat))
    for kind, outcome in found.items():
        print(json.dumps({"kind": kind, **outcome}), flush=True)
