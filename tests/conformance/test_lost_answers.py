"""An answer that is lost in the middle of a call of several pages costs that call, and nothing
else: later reads have every item, each once. Every place where one can be lost is tried."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from servers.faults import fault, small_pages

from andon.contract.edges import Link, Settlement
from andon.contract.optional import CountsDeadLetters
from andon.contract.queries import Query
from andon.contract.requests import Snapshot
from andon.lifecycle.commands import Cancel, Complete, Delete, Release, Terminate
from andon.model.errors import StoreUnavailable
from andon.model.task import Task, TaskError
from andon.model.words import State

from .kit import Kit

Answer = TypeVar("Answer")
Ask = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Calls, and calls again when the answer was lost, as every caller of a store does."""

MOST = 200
"""Answers that one call may take, at the most: then the test is at fault."""


async def ask(call: Callable[[], Awaitable[Answer]]) -> Answer:
    try:
        return await call()
    except (StoreUnavailable, asyncio.CancelledError):
        return await call()


class Reads:
    """Something to read, of which more can be written."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit

    async def begin(self) -> None:
        """Begin anew, so that each round reads as much as the one before."""

    async def grow(self) -> None:
        """Write more of it."""

    async def end(self) -> None:
        """Take away what the next round would read, too."""

    async def expected(self) -> Any:
        """All that was written."""

    async def read(self) -> Any:
        """All that is found, page by page."""


class Listed(Reads):
    """The pages of a list."""

    ids: list[str]

    async def begin(self) -> None:
        self.ids = []
        self.queue = self.kit.fresh("queue")

    async def grow(self) -> None:
        self.ids += [task.id for task in await self.kit.submit_many(9, queue=self.queue)]

    async def expected(self) -> Any:
        return sorted(self.ids)

    async def read(self) -> Any:
        found: list[str] = []
        cursor = ""
        while True:
            query = Query(limit=6, cursor=cursor, queue=self.queue)
            page = await ask(lambda query=query: self.kit.store.find(query))
            found += [task.id for task in page.tasks]
            cursor = page.cursor
            if not cursor:
                return sorted(found)


class Counted(Listed):
    """The counts of a queue: always of the same, as a store may be asked once for each."""

    async def begin(self) -> None:
        self.queue = "default"
        self.ids = getattr(self, "ids", [])

    async def expected(self) -> Any:
        return len(self.ids)

    async def read(self) -> Any:
        stats = await ask(self.kit.store.stats)
        return {of.queue: of.counts[State.PENDING] for of in stats if of.counts}[self.queue]


class Fetched(Listed):
    """Records and states by id."""

    async def expected(self) -> Any:
        return self.ids

    async def read(self) -> Any:
        tasks: list[Task | None] = await ask(lambda: self.kit.store.get(self.ids))
        states = await ask(lambda: self.kit.store.states(self.ids))
        assert set(states) == {State.PENDING}
        return [task.id for task in tasks if task is not None]


class Logged(Reads):
    """The event log."""

    moves: list[tuple[str, int]]

    async def begin(self) -> None:
        self.moves = []
        self._before = await self.kit.store.events_end()

    async def grow(self) -> None:
        tasks = await self.kit.submit_many(3)
        claimed = await self.kit.claim(3)
        await self.kit.store.commit([self.kit.change(task, Complete()) for task in claimed])
        self.moves += [(task.id, revision) for task in tasks for revision in (1, 2, 3)]

    async def expected(self) -> Any:
        return sorted(self.moves)

    async def read(self) -> Any:
        found: list[tuple[str, int]] = []
        cursor = self._before
        while True:
            page = await ask(lambda cursor=cursor: self.kit.store.events(cursor, 5))
            if not page.events:
                return sorted(found)
            assert not page.gap
            found += [(event.task, event.revision) for event in page.events]
            cursor = page.cursor


class Remembered(Reads):
    """The history of one task, with more moves than its record holds."""

    async def begin(self) -> None:
        self.task = await self.kit.submit()

    async def grow(self) -> None:
        for _ in range(10):
            (claimed,) = await self.kit.claim()
            self.task = await self.kit.moved(claimed, Release())

    async def end(self) -> None:
        await self.kit.move(self.task, Cancel())

    async def expected(self) -> Any:
        return [*range(1, self.task.status.revision + 1)]

    async def read(self) -> Any:
        history = await ask(lambda: self.kit.store.history(self.task.id))
        assert history.dropped == 0
        return [event.revision for event in history.events]


class Depending(Reads):
    """The dependents of a task."""

    async def begin(self) -> None:
        self.parent = await self.kit.active()
        self.children: list[str] = []

    async def grow(self) -> None:
        children = [await self.kit.submit(dependencies=(self.parent.id,)) for _ in range(4)]
        await self.kit.store.link([Link(child.id, (self.parent.id,)) for child in children])
        self.children += [child.id for child in children]

    async def expected(self) -> Any:
        return sorted(self.children)

    async def read(self) -> Any:
        found: list[str] = []
        after, dependents = "", self.kit.store.dependents
        while True:
            edges = await ask(lambda after=after: dependents(self.parent.id, after, 3))
            if not edges:
                return found
            found += [edge.child for edge in edges]
            after = found[-1]


class Unsettled(Reads):
    """Ended tasks whose dependents are to be told: found until they were."""

    async def begin(self) -> None:
        self.edges: list[tuple[str, str]] = []

    async def grow(self) -> None:
        for _ in range(4):
            parent = await self.kit.active()
            child = await self.kit.submit(dependencies=(parent.id,))
            await self.kit.store.link([Link(child.id, (parent.id,))])
            await self.kit.move(parent, Complete())
            self.edges.append((parent.id, child.id))
        await self._settle(self.edges.pop())

    async def _settle(self, *edges: tuple[str, str]) -> None:
        told = [Settlement(child, parent, satisfied=True) for parent, child in edges]
        await self.kit.store.settle(told)

    async def end(self) -> None:
        await self._settle(*self.edges)

    async def expected(self) -> Any:
        return sorted(parent for parent, _ in self.edges)

    async def read(self) -> Any:
        return sorted(task for task, _ in await ask(lambda: self.kit.store.take_unsettled(1_000)))


class DeadLetters(Reads):
    """The oldest dead letters beyond a number of them."""

    async def begin(self) -> None:
        self.ids: list[str] = []

    async def end(self) -> None:
        for task_id in self.ids:
            await self.kit.move(await self.kit.there(task_id), Delete())

    async def grow(self) -> None:
        give_up = Terminate(error=TaskError(message="no"))
        tasks = [await self.kit.active() for _ in range(8)]
        await self.kit.store.commit([self.kit.change(task, give_up) for task in tasks])
        self.ids += [task.id for task in tasks]

    async def expected(self) -> Any:
        return sorted(self.ids)

    async def read(self) -> Any:
        assert isinstance(self.kit.store, CountsDeadLetters)
        oldest = self.kit.store.oldest_dead_letters
        return sorted(task.id for task in await ask(lambda: oldest(beyond=0, most=1_000)))


class Restored(Listed):
    """Records restored in one call, of which the answer may be lost."""

    async def grow(self) -> None:
        tasks = [self.kit.record(queue=self.queue) for _ in range(5)]
        snapshots = [
            Snapshot(task=task, history=task.status.events, dropped=0, edges=(), satisfied=())
            for task in tasks
        ]
        await ask(lambda: self.kit.store.restore(snapshots))
        self.ids += [task.id for task in tasks]


READS: dict[str, type[Reads]] = {
    "find": Listed,
    "stats": Counted,
    "get": Fetched,
    "events": Logged,
    "history": Remembered,
    "dependents": Depending,
    "take_unsettled": Unsettled,
    "oldest_dead_letters": DeadLetters,
}


def _kind(store_kind: str) -> str:
    kind = store_kind.partition("-")[0]
    if kind in ("memory", "given"):
        pytest.skip("nothing is asked of anybody who could lose an answer")
    return kind


@pytest.mark.parametrize("cancels", [False, True], ids=["lost", "cancelled"])
@pytest.mark.parametrize("name", READS)
async def test_a_read_that_lost_an_answer_costs_later_reads_nothing(
    kit: Kit, store_kind: str, name: str, cancels: bool
) -> None:
    kind = _kind(store_kind)
    if name == "oldest_dead_letters" and not isinstance(kit.store, CountsDeadLetters):
        pytest.skip("its dead letters are found by their state, like what find lists")
    reads = READS[name](kit)
    with small_pages(kind):
        at = 0
        while True:
            at += 1
            await reads.begin()
            await reads.grow()
            with fault(kind, at, cancels=cancels) as lost:
                assert await reads.read() == await reads.expected()
            assert await reads.read() == await reads.expected()
            await reads.end()
            if not lost.happened:
                break
            assert at < MOST
    assert at > 1


async def test_a_restore_that_lost_an_answer_is_made_whole_by_its_repeat(
    kit: Kit, store_kind: str
) -> None:
    kind = _kind(store_kind)
    reads = Restored(kit)
    with small_pages(kind):
        at = 0
        while True:
            at += 1
            await reads.begin()
            with fault(kind, at) as lost:
                await reads.grow()
            assert await reads.read() == await reads.expected()
            await reads.end()
            if not lost.happened:
                break
            assert at < MOST
    assert at > 1


LIMITS: dict[str, dict[str, Any]] = {
    "none": {},
    "concurrent": {"max_concurrent": 1_000},
    "key": {"max_concurrent_per_key": 4},
    "rate": {"rate_limit": 100_000.0},
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_claims_that_lost_an_answer_hand_out_every_task_once(
    kit: Kit, store_kind: str, limit: str
) -> None:
    kind = _kind(store_kind)
    if store_kind == "nats-4" and limit != "none":
        pytest.skip("what a permit names is held for a minute (docs/stores/nats.md)")
    await kit.configure(**LIMITS[limit])
    handed: list[str] = []
    submitted: list[str] = []
    with small_pages(kind):
        at = 0
        while True:
            at += 1
            submitted += [
                (await kit.submit(key=f"k{n % 3}" if n else None, priority=n % 2)).id
                for n in range(7)
            ]
            with fault(kind, at) as lost:
                while claimed := await _claim(kit):
                    handed += [task.id for task in claimed]
            while claimed := await _claim(kit):
                handed += [task.id for task in claimed]
            assert sorted(handed) == sorted(submitted)
            if not lost.happened:
                break
            assert at < MOST
    assert at > 1


async def _claim(kit: Kit) -> list[Task]:
    """What a claim hands out, answered or repeated, and was completed."""
    token = kit.fresh("claim")
    claimed: list[Task] = await ask(lambda: kit.claim(4, token=token))
    if claimed:
        changes = [kit.change(task, Complete()) for task in claimed]
        await ask(lambda: kit.store.commit(changes))
    return claimed
