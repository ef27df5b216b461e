"""The life of `n` tasks through a store alone, in the batches in which Andon writes them."""

from andon.client.ids import IdMaker
from andon.engine.control import change_of
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete
from andon.model.task import Definition, Task
from andon.model.words import State
from andon.stores.base import MAX_BATCH, Change, ClaimRequest, Store

AT_ONCE = 100
"""Runs at once in the worker that is measured, and so the most in a claim and in a commit."""

_ids = IdMaker()


def new_tasks(size: int, now: int) -> list[Task]:
    """Tasks as a client submits them."""
    return [
        admit(Definition(id=_ids(), name="bench.noop", queue="bench"), now, f"w{i}")
        for i in range(size)
    ]


def claiming(token: str, limit: int) -> ClaimRequest:
    """A worker's claim."""
    return ClaimRequest(
        worker="host-1-abcdef", token=token, queues=("bench",), limit=limit, lease_ms=600_000
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
