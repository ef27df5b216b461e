"""Copying a namespace from one store to another, live tasks included.

Afterwards every task of the source is in the target with the same record, moves and edges, in the
state it was in, or the ledger says which is not. The source keeps everything. It may be cut short
at any moment and repeated: each record arrives whole or not at all, and a repeat goes on with what
is not there yet. Memory is bounded by one batch.

A task that cannot be read or written is left out, named in the log, and counted in the ledger; the
others are copied as if it were not there (docs/rulings.md, R36).

Not copied, because no store lists them: tombstones of deleted tasks (their ids are free in the
target, their old events are gone, a late repeat of their last report is refused there), claim
tokens, tokens of rate limits, and which workers are alive.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

from andon.contract.edges import Edge, Link
from andon.contract.isolation import each_alone, why_of
from andon.contract.limits import MAX_BATCH
from andon.contract.notes import NotePut, PutNote
from andon.contract.queries import Query
from andon.contract.requests import Snapshot
from andon.contract.store import Store
from andon.engine.all_notes import all_notes
from andon.engine.copy_ledger import Ledger, Tally, note
from andon.engine.copy_mark import begin_copy, end_copy
from andon.engine.dependencies import satisfies
from andon.engine.faults import ANYTHING
from andon.lifecycle.firing import paused
from andon.model.errors import AndonError, ConfigurationError
from andon.model.fleet import QueueConfig
from andon.model.settings import MOVING, MOVING_LAST
from andon.model.task import Task
from andon.model.words import State

log = logging.getLogger("andon.engine")

_MOST_BYTES = 4 * 1024 * 1024  # of arguments and results in one call, as for any batch
_MOST_MOVES = 5_000  # in one call: 5,000 are some 0.1 s in which the target's others wait
_READS_AT_ONCE = 32
_PAGE = 1_000

Tell = Callable[[int, int], object]
"""Called with how many tasks are done, of how many."""


async def where(store: Store) -> str:
    """The name of a store in messages: its place, without the rest of its URL."""
    return (await store.info()).location


async def refuse_workers(store: Store) -> None:
    """Raise `ConfigurationError` if workers are alive on the store."""
    alive = await store.workers()
    if alive:
        names = ", ".join(
            [*(worker.id for worker in alive[:5]), *(["…"] if len(alive) > 5 else [])]
        )
        raise ConfigurationError(
            f"Workers are alive on {await where(store)}: {names}. What they do while the copy "
            "runs would be missed. Stop them (one that was killed is forgotten after "
            "a minute), or copy all the same with --with-workers."
        )


async def copy(
    source: Store, target: Store, *, merge: bool = False, tell: Tell = lambda done, total: None
) -> Ledger:
    """Copy tasks, queues' configuration, task types and settings between two open stores.

    `merge` allows a target that has tasks of its own; what is there already is never changed. No
    worker should run on either store meanwhile (see `refuse_workers`). Raises `ConfigurationError`
    for a target that cannot be the intended one, and the stores' own errors.
    """
    mark = await begin_copy(source, target, merge=merge)
    ledger = await _Copying(source, target, tell).run()
    if ledger.balanced:
        await end_copy(target, mark)
    return ledger


class _Copying:
    """One pass over the source, in order of creation, so that parents come before children."""

    def __init__(self, source: Store, target: Store, tell: Tell) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._ledger = Ledger(clock_ahead_ms=target.now() - source.now())
        self._read: Counter[tuple[str, str]] = Counter()
        self._written: Counter[tuple[str, str]] = Counter()
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    async def run(self) -> Ledger:
        before = await _counts(self._target)
        total = (await _counts(self._source)).total()
        await self._copy_beside()
        self._tell(0, total)
        async for tasks in self._pages():
            await self._copy_tasks(tasks)
            done = self._read.total()
            self._tell(done, max(done, total))
        if not self._ledger.unreadable:  # what is not there yet must not be swept away
            await self._copy_settings(MOVING_LAST)
        await self._verify(before)
        return self._ledger

    async def _pages(self) -> AsyncIterator[Sequence[Task]]:
        cursor = ""
        while True:
            page = await self._source.find(Query(limit=MAX_BATCH, cursor=cursor))
            if page.tasks:
                yield page.tasks
            if not page.cursor:
                return
            cursor = page.cursor

    async def _copy_tasks(self, tasks: Sequence[Task]) -> None:
        readable: list[Task] = []
        for task in map(paused, tasks):
            self._tally(task).read += 1
            self._read[_line(task)] += 1
            if task.state is State.UNKNOWN:
                note(self._ledger.unreadable, task.id)
            else:
                readable.append(task)
            if task.state is State.RECURRING:
                note(self._ledger.paused, task.id)
        there = await self._target.get([task.id for task in readable])
        for task, found in zip(readable, there, strict=True):
            if found is not None:
                self._compare(task, found)
        absent = [task for task, found in zip(readable, there, strict=True) if found is None]
        for chunk in _chunks(absent):
            await self._restore(chunk)

    async def _restore(self, tasks: Sequence[Task]) -> None:
        satisfied = await self._satisfied(tasks)
        read = await asyncio.gather(*(self._read_alone(t, satisfied[t.id]) for t in tasks))
        snapshots = [snapshot for snapshot in read if snapshot is not None]
        outcomes = await each_alone(self._put, snapshots, self._unwritten, ANYTHING)
        refused: list[Task] = []
        for snapshot, restored in zip(snapshots, outcomes, strict=True):
            if restored:
                self._tally(snapshot.task).written += 1
                self._written[_line(snapshot.task)] += 1
            elif restored is not None:
                refused.append(snapshot.task)
        if refused:  # another process wrote it just now, or it was here and deleted
            found = await self._target.get([task.id for task in refused])
            for task, here in zip(refused, found, strict=True):
                self._compare(task, here)

    async def _put(self, snapshots: Sequence[Snapshot]) -> list[bool | None]:
        """Whether each was restored; None, from elsewhere: it cannot be."""
        return [*await self._target.restore(snapshots)] if snapshots else []

    def _unwritten(self, snapshot: Snapshot, why: str) -> None:
        self._fail(snapshot.task, why)

    def _fail(self, task: Task, why: object) -> None:
        self._tally(task).failed += 1
        note(self._ledger.failed, task.id)
        log.error("Task %s cannot be copied: %s", task.id, why)

    async def _read_alone(self, task: Task, satisfied: tuple[str, ...] | str) -> Snapshot | None:
        """The task as it is in the source; None where it cannot be read."""
        if isinstance(satisfied, str):
            self._fail(task, satisfied)
            return None
        try:
            return await self._snapshot(task, satisfied)
        except (AndonError, OSError):
            raise
        except Exception as error:
            self._fail(task, why_of(error))
            return None

    async def _snapshot(self, task: Task, satisfied: tuple[str, ...]) -> Snapshot:
        async with self._reads:
            history = await self._source.history(task.id)
            edges = await self._edges(task.id)
        # The task may have moved since it was read: its moves are those up to its revision.
        revision = task.status.revision
        moves = tuple(event for event in history.events if event.revision <= revision)
        return Snapshot(
            task=task,
            history=moves,
            dropped=revision - len(moves),
            edges=tuple(edges),
            satisfied=satisfied,
        )

    async def _edges(self, parent: str) -> list[Edge]:
        edges = await self._source.dependents(parent, "", _PAGE)
        while edges and len(edges) % _PAGE == 0:
            page = await self._source.dependents(parent, edges[-1].child, _PAGE)
            if not page:
                break
            edges += page
        return edges

    async def _satisfied(self, tasks: Sequence[Task]) -> dict[str, tuple[str, ...] | str]:
        """By task, the dependencies that need not be waited for any more; or the error of asking.

        A store answers with them when a blocked task links again, which changes nothing: its verify
        timer does the same.
        """
        links = [
            Link(
                task.id,
                tuple(parent for parent in d.dependencies if parent != task.id),
                d.load_dependencies,
                d.requires == "all-resolved",
            )
            for task in tasks
            if task.state is State.BLOCKED
            for d in [task.definition]
        ]
        found: dict[str, tuple[str, ...] | str] = {task.id: () for task in tasks}

        async def ends(some: Sequence[Link]) -> list[None]:
            for end in await self._source.link(some) if some else ():
                known = found[end.child]
                if satisfies(end) and not isinstance(known, str) and end.parent not in known:
                    found[end.child] = (*known, end.parent)
            return [None] * len(some)

        def failed(link: Link, why: str) -> None:
            found[link.child] = why

        await each_alone(ends, links, failed, ANYTHING)
        return found

    def _compare(self, task: Task, found: Task | None) -> None:
        if found == task:
            self._tally(task).there += 1
        else:
            self._tally(task).differing += 1
            note(self._ledger.differing, task.id)

    def _tally(self, task: Task) -> Tally:
        return self._ledger.tasks.setdefault(task.state.value, Tally())

    # --- queues, types, settings: before the tasks, so that limits hold when those arrive ---

    async def _copy_beside(self) -> None:
        ledger = self._ledger.beside
        queues = {queue.name: queue for queue in await self._target.queues()}
        for queue in await self._source.queues():
            plain = QueueConfig(name=queue.name)
            if queue == plain:
                continue
            here = queues.get(queue.name, plain)
            tally = ledger["queues"]
            if not self._is_new(tally, queue, None if here == plain else here, queue.name):
                continue
            if not await self._target.put_queue(queue, expect=plain):
                tally.written -= 1  # another client configured it just now
                tally.differing += 1
                note(self._ledger.differing, queue.name)
        types = {(info.name, info.version): info for info in await self._target.types()}
        for info in await self._source.types():
            here = types.get((info.name, info.version))
            if self._is_new(ledger["types"], info, here, f"{info.name} version {info.version}"):
                await self._target.put_types([info])
        await self._copy_settings(MOVING)
        await self._copy_notes()

    async def _copy_notes(self) -> None:
        """Copy the records of groups and of workers that only claim. Records that exist in the
        target stay."""
        tally = self._ledger.beside["notes"]
        async for some in all_notes(self._source):
            here = await self._target.notes([name for name, _ in some])
            new = [
                PutNote(name, value, None)
                for (name, value), there in zip(some, here, strict=True)
                if self._is_new(tally, value, there, name.key)
            ]
            for outcome in await self._target.put_notes(new) if new else ():
                if outcome is not NotePut.WRITTEN:  # another process was first, or it is refused
                    tally.written -= 1
                    tally.differing += 1

    async def _copy_settings(self, names: Iterable[str]) -> None:
        ledger = self._ledger.beside
        for name in names:
            value, here = await self._source.setting(name), await self._target.setting(name)
            if value and self._is_new(ledger["settings"], value, here or None, name):
                await self._target.put_setting(name, value, expect=here)

    def _is_new(self, tally: Tally, wanted: object, here: object | None, name: str) -> bool:
        """Whether it is to be written, noted as done; what is there already stays."""
        tally.read += 1
        if here is None:
            tally.written += 1
        elif here == wanted:
            tally.there += 1
        else:
            tally.differing += 1
            note(self._ledger.differing, name)
        return here is None

    # --- what the stores themselves count ---

    async def _verify(self, before: Counter[tuple[str, str]]) -> None:
        source, target = await _counts(self._source), await _counts(self._target)
        here, there = await where(self._source), await where(self._target)
        for queue, state in sorted({*source, *self._read}):
            line = (queue, state)
            if source[line] != self._read[line]:
                self._ledger.miscounted.append(
                    f"{here} counts {source[line]:,} {state} tasks in queue {queue}, "
                    f"{self._read[line]:,} were read."
                )
        for queue, state in sorted({*before, *target, *self._written}):
            line = (queue, state)
            arrived = target[line] - before[line]
            if arrived != self._written[line]:
                self._ledger.miscounted.append(
                    f"{there} counts {arrived:+,} {state} tasks in queue {queue} since "
                    f"the copy began, {self._written[line]:,} were written."
                )


def _line(task: Task) -> tuple[str, str]:
    return task.definition.queue, task.state.value


async def _counts(store: Store) -> Counter[tuple[str, str]]:
    """Tasks by queue and state, as the store counts them."""
    counts: Counter[tuple[str, str]] = Counter()
    for stats in await store.stats():
        for state, count in stats.counts.items():
            counts[stats.queue, state] = count
    return counts


def _chunks(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """The tasks in batches of bounded size."""
    chunk: list[Task] = []
    size = moves = 0
    for task in tasks:
        more = len(task.definition.args) + len(task.result or b"")
        if chunk and (size + more > _MOST_BYTES or moves + task.status.revision > _MOST_MOVES):
            yield chunk
            chunk, size, moves = [], 0, 0
        chunk.append(task)
        size += more
        moves += task.status.revision
    if chunk:
        yield chunk
