"""The timekeeper: the loop that fires timers. Any number may run at once, on any worker.

A due entry is a hint. The timekeeper that takes it reads the record, asks the pure core what the
timer means, and writes that move only if the record and the lease are still what was read; a
renewal that arrived in between wins. Taking an entry postpones it by `hold`, so that another
timekeeper takes it if this one dies. Sleeps until the next timer or a hint, at most SLOW_POLL_S:
nothing polls when idle.

Moves come first: blocked tasks whose turn it is to ask about their dependencies are verified beside
them (`engine.verifying`). A record on which nothing can be decided, or whose move cannot be
written, is logged and left alone for longer each time; the others of its batch are fired
(docs/rulings.md, R36).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Protocol

from andon.contract.isolation import each_alone
from andon.contract.limits import MAX_BATCH
from andon.contract.outcomes import Changed, ChangeKind
from andon.contract.requests import Change
from andon.contract.store import Store
from andon.contract.topics import TIMER_TOPIC
from andon.engine.control import change_of
from andon.engine.dependencies import Dependencies, pages
from andon.engine.faults import ANYTHING, Culprits
from andon.engine.letters import DeadLetters
from andon.engine.verifying import Verifying
from andon.engine.writes import new_write_id
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Recur
from andon.lifecycle.constants import SLOW_POLL_S
from andon.lifecycle.firing import asks_for_last
from andon.lifecycle.timers import must_pay, on_timer, rearm, wants_verify
from andon.model.errors import AndonError
from andon.model.task import Task
from andon.model.words import State

log = logging.getLogger("andon.timekeeper")

HOLD_MS = 10_000
"""How long a taken timer is kept from other takers."""

HOUSEKEEPING_S = 5.0
"""Seconds between looks at what no timer covers: fan-outs cut short, event trimming, bounds."""

LOOKS_LEFT_OUT = 5
"""How many looks in a row for fan-outs cut short are left out, at most, while this process notifies
dependents itself. Ends that are being told look like those that a crash left, so such a look reads
hundreds of them for nothing. It is for what a process left that has died, and no task waits for it
alone: a blocked one asks by itself."""

_TRIM_S = 30.0
"""Seconds between looks for what can be trimmed, unless there was something the last time."""

RETRY_LATER_MS = 60_000
"""When a record could not be deleted because dependents need it, look again after this."""


class Ended(Protocol):
    """Called with every end written."""

    def __call__(self, task: Task, state: State | None, changed: Changed, /) -> None: ...


class Timekeeper:
    """Fires the timers of every partition of one store."""

    def __init__(
        self,
        store: Store,
        dependencies: Dependencies,
        ended: Ended,
        *,
        random: Random,
        dead_letter_limit: int | None,
        pay: Callable[[Sequence[Task]], Awaitable[set[str]]],
        also: Sequence[Callable[[], Coroutine[Any, Any, None]]],
        sweep: Sequence[Callable[[], Awaitable[int]]],
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        """`pay` stores what tasks owe and returns the ids of those that still owe. `also` are loops
        beside the timers, once per process. Each of `sweep` deletes notes that are not needed any
        more, some in each call, and returns how many. `poll_s`: how often to look without a hint;
        the other chores are rarer by the same factor."""
        self._pay = pay
        self._also = also
        self._sweep = sweep
        self._poll_s = poll_s
        self._store = store
        self._dependencies = dependencies
        self._ended = ended
        self._random = random
        self._verifying = Verifying(store, dependencies, random)
        self._letters = DeadLetters(store, random, dead_letter_limit, self._write)
        self._culprits = Culprits("The timer of task")
        self._tasks: list[asyncio.Task[None]] = []
        self._left_out = 0  # looks for fan-outs cut short
        self._trim_at = 0.0  # by the loop's clock

    def start(self) -> None:
        """Begin to fire timers. Idempotent."""
        if not self._tasks:
            loops = [self._keep(partition) for partition in range(self._store.partitions)]
            loops += [self._housekeep(), *(begin() for begin in self._also)]
            self._tasks = [asyncio.ensure_future(loop) for loop in loops]

    async def stop(self) -> None:
        """Stop. Timers that were taken and not fired are fired by another timekeeper after their
        hold."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._verifying.stop()

    async def run_once(self, partition: int = 0) -> int | None:
        """Fire everything due in a partition, and verify; ms UTC of its next timer, None if it has
        none."""
        next_at = await self._fire_all(partition)
        await self._verifying.done()
        return next_at

    async def _fire_all(self, partition: int) -> int | None:
        while True:
            due = await self._store.take_due(partition, MAX_BATCH, HOLD_MS)
            if due.tasks:
                await self._fire(due.tasks, due.now)
            if len(due.tasks) < MAX_BATCH:
                return due.next_at

    async def _keep(self, partition: int) -> None:
        with self._store.listen([TIMER_TOPIC]) as hints:
            while True:
                try:
                    next_at = await self._fire_all(partition)
                    wait = self._until(next_at)
                except Exception as error:
                    _say("timers wait for the store", error)
                    await asyncio.sleep(1 + self._random.random())
                    continue
                if wait > 0:
                    await hints.wait(wait)

    def _until(self, next_at: int | None) -> float:
        longest = self._poll_s * (0.75 + self._random.random() / 4)
        if next_at is None:
            return longest
        return min(max(next_at - self._store.now(), 0) / 1000, longest)

    async def _fire(self, tasks: Sequence[Task], now: int) -> None:
        fired: list[tuple[Task, Change]] = []
        blocked: list[Task] = []
        owing: list[Task] = []
        timers: list[tuple[str, int | None]] = []
        lasts = await self._lasts(tasks)
        for task in tasks:
            try:
                change = self._move(task, now, lasts.get(task.id))
                if change is not None:
                    fired.append((task, change))
                elif wants_verify(task, now):
                    blocked.append(task)
                elif must_pay(task, now):
                    owing.append(task)
                else:
                    timers.append((task.id, rearm(task, now)))
            except Exception as error:
                timers.append((task.id, now + self._left_alone(task.id, error)))
        if fired:
            written = await self._write(fired, now)
            owing += _borne([pair for pair in fired if pair[0].id in written])
        if owing:
            unpaid = await self._pay(owing)
            timers += [(task.id, rearm(task, now)) for task in owing if task.id in unpaid]
        timers += self._verifying.take(blocked, now)
        if timers:
            await self._store.rearm(timers)

    async def _lasts(self, tasks: Sequence[Task]) -> dict[str, State | None]:
        """By schedule, the state of its newest occurrence, where its decision asks for that."""
        asked = {
            task.id: schedule.last_id
            for task in tasks
            if (schedule := task.status.schedule) is not None and asks_for_last(schedule)
        }
        if not asked:
            return {}
        states = await self._store.states(list(asked.values()))
        return dict(zip(asked, states, strict=True))

    def _move(self, task: Task, now: int, last: State | None) -> Change | None:
        """What the timer means; None if nothing is due yet."""
        command = on_timer(task, now)
        if command is None:
            return None
        if isinstance(command, Recur):
            command = Recur(last=last)
        moved = apply(task, command, now=now, random=self._random.random, write_id=new_write_id())
        seen = task.cell.lease_until if task.cell is not None else None
        return change_of(task, moved, seen_lease=seen)

    def _left_alone(self, task_id: str, why: object) -> int:
        """Ms for which a record that failed is left alone. It is not set aside (docs/rulings.md,
        R28): it decodes, and the release that can decide on it finds it as it is."""
        return round(self._culprits.failed(task_id, why) * 1000)

    async def _write(self, fired: Sequence[tuple[Task, Change]], now: int) -> set[str]:
        """Write the moves; the ids of the tasks whose move stands."""
        outcomes = await each_alone(
            self._store.commit, [change for _, change in fired], _unwritten, ANYTHING
        )
        written: set[str] = set()
        for (task, change), outcome in zip(fired, outcomes, strict=True):
            if outcome.kind is ChangeKind.APPLIED:
                written.add(task.id)
                self._culprits.succeeded(task.id)
                state = change.after.state if change.after is not None else None
                self._ended(task, state, outcome)
            elif outcome.kind in _REFUSED:
                why = outcome.why or f"the store refuses it: {outcome.kind}"
                await self._store.rearm([(task.id, now + self._left_alone(task.id, why))])
            elif change.after is None and outcome.current is not None:
                await self._release(task, now)
        return written

    async def _release(self, task: Task, now: int) -> None:
        """A record could not be deleted: release its edges to dependents that have ended."""
        try:
            over = False
            async for edges in pages(self._store, task.id):
                holding = [edge.child for edge in edges if edge.loads or not edge.settled]
                children = await self._store.get(holding)
                ended = [
                    (task.id, name)
                    for name, child in zip(holding, children, strict=True)
                    if child is None or child.status.finished_at is not None
                ]
                if ended:
                    over = True
                    await self._store.release_edges(ended)
            later = 0 if over else RETRY_LATER_MS
        except (AndonError, OSError):
            raise
        except Exception as error:
            later = self._left_alone(task.id, error)
        await self._store.rearm([(task.id, now + later)])

    # --- what no timer covers ---

    async def _housekeep(self) -> None:
        while True:
            try:
                await self.housekeep()
            except Exception as error:
                _say("housekeeping waits for the store", error)
            pause = HOUSEKEEPING_S * self._poll_s / SLOW_POLL_S
            await asyncio.sleep(pause * (0.75 + self._random.random() / 2))

    async def housekeep(self) -> None:
        """Finish fan-outs cut short, trim events and stubs, keep the dead-letter bound: each for
        itself, so that a failure of one does not end the others."""
        failures: list[Exception] = []
        for chore in (self._resume, self._trim, self._letters.keep_bound):
            try:
                await chore()
            except Exception as error:
                failures.append(error)
        for error in failures[1:]:
            _say("housekeeping waits for the store", error)
        if failures:
            raise failures[0]

    async def _resume(self) -> None:
        self._left_out += 1
        if self._dependencies.are_being_told and self._left_out <= LOOKS_LEFT_OUT:
            return
        self._left_out = 0
        self._dependencies.resume(await self._store.take_unsettled(MAX_BATCH))

    async def _trim(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._trim_at:
            found = await self._store.trim(10_000)
            for sweep in self._sweep:
                found += await sweep()
            self._trim_at = loop.time() + (0 if found else _TRIM_S)


_REFUSED = frozenset((ChangeKind.INVALID, ChangeKind.TOO_LARGE, ChangeKind.KEY_HELD))
"""Outcomes by which a timer's move is not written, and would not be if it were tried again at
once."""


def _borne(written: Sequence[tuple[Task, Change]]) -> list[Task]:
    """The records that owe tasks by the move that was just written."""
    return [
        Task(definition=task.definition, status=change.after, result=task.result, ref=task.ref)
        for task, change in written
        if change.after is not None and change.after.owes
    ]


def _unwritten(change: Change, why: str) -> Changed:
    return Changed(ChangeKind.INVALID, why=why)


def _say(what: str, error: Exception) -> None:
    """Any error ends this round only: a loop that ended here would leave every timer to other
    processes, unnoticed. (A changed password is not one of the store's errors, and is temporary,
    too.)"""
    if isinstance(error, AndonError):
        log.warning("%s: %s", what, error)
    else:
        log.error("%s, after an error that was not foreseen.", what, exc_info=error)
