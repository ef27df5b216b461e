"""The limits of a queue, held against what became of its tasks: whatever happens to them, no moment
has more runs than the queue allows, and every task gets its turn."""

import asyncio
from random import Random
from typing import Any

import pytest
from histories import (
    Interval,
    active_intervals,
    most_at_once,
    most_beyond_rate,
    most_per_key,
)

from andon.contract.outcomes import ChangeKind
from andon.contract.store import Store
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Complete,
    Fail,
    Interrupted,
    Release,
    Reprioritise,
    RequestCancel,
    Rerun,
    Reschedule,
    RunNow,
    Snooze,
)
from andon.lifecycle.timers import on_timer, rearm
from andon.model.errors import InvalidTransition
from andon.model.task import Task, TaskError, TaskEvent
from andon.model.words import TERMINAL, Event, State

from .kit import HOLD_MS, LEASE_MS, Kit

TASKS = 48
CLAIMERS = 5
MOVES = 160
"""Moves that others make while the tasks run, before these are left to end."""

HAPPENS = frozenset(
    {
        Event.CANCEL,
        Event.COMPLETE,
        Event.DUE,
        Event.FAIL,
        Event.LOSE,
        Event.RELEASE,
        Event.REPRIORITISE,
        Event.REQUEST_CANCEL,
        Event.RERUN,
        Event.RESCHEDULE,
        Event.SNOOZE,
    }
)
"""What each load must have had of, however its moves fell."""

PATIENCE_S = 270
"""How long a load may take on a machine that does much else. It takes seconds elsewhere."""

SHORT_LEASE_MS = 40
QUEUE = "limited"
POLICY = {"max_retries": 1_000, "retry_delay": 0.02, "backoff": "constant"}

LIMITS: dict[str, dict[str, Any]] = {
    "runs": {"max_concurrent": 3},
    "runs of a key": {"max_concurrent_per_key": 1},
    "two runs of a key": {"max_concurrent_per_key": 2},
    "rate": {"rate_limit": 100.0, "rate_burst": 4},
    "all of them": {
        "max_concurrent": 3,
        "max_concurrent_per_key": 1,
        "rate_limit": 150.0,
        "rate_burst": 5,
    },
}


class Load:
    """Claimers that end runs in every way, a timekeeper, and somebody who meddles with the tasks:
    all of them at once, on several instances of the store."""

    def __init__(self, kit: Kit, stores: list[Store], seed: int) -> None:
        self.kit = kit
        self.stores = stores
        self.seed = seed
        self.keys: dict[str, str] = {}  #: the concurrency key of each task
        self.happened: set[Event] = set()
        self.is_over = False
        self._meddled = 0

    @property
    def is_closing(self) -> bool:
        """Whether the tasks are left alone, to end."""
        return self._meddled >= MOVES and self.happened >= HAPPENS

    async def run(self) -> None:
        """Until every task has ended."""
        async with asyncio.timeout(PATIENCE_S):
            keeping = asyncio.ensure_future(self._keep_time(self.stores[-1]))
            try:
                await asyncio.gather(
                    self._submit(self._random("submit")),
                    self._meddle(self.stores[0], self._random("meddle")),
                    *(
                        self._work(f"worker{i}", self.stores[i % len(self.stores)])
                        for i in range(CLAIMERS)
                    ),
                )
            finally:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)

    def _random(self, who: str) -> Random:
        return Random(f"{self.seed} {who}")

    async def _submit(self, random: Random) -> None:
        while len(self.keys) < TASKS:
            tasks = [self._record(random) for _ in range(random.randint(1, 4))]
            await self.stores[0].create(tasks)
            self.keys.update((task.id, task.definition.key or "") for task in tasks)
            await asyncio.sleep(random.random() * 0.004)

    def _record(self, random: Random) -> Task:
        delay = random.choice((None, None, 1, 30))
        return self.kit.record(
            queue=QUEUE,
            key=random.choice(("a", "b", "c")),
            priority=random.choice((0, 0, 5)),
            run_at=None if delay is None else self.kit.store.now() + delay,
            policy=POLICY,
        )

    # --- the workers ---

    async def _work(self, worker: str, store: Store) -> None:
        random = self._random(worker)
        while not self.is_over:
            forgets = not self.is_closing and random.random() < 0.15
            tasks = await self.kit.claim_from(
                store,
                random.randint(1, 4),
                queues=(QUEUE,),
                worker=worker,
                lease_ms=SHORT_LEASE_MS if forgets else LEASE_MS,
            )
            await asyncio.sleep(random.random() * 0.008)
            if not forgets:  # else its leases run out
                random.shuffle(tasks)
                for task in tasks:
                    await self._report(store, task, random)
            if not tasks:
                await self._look_whether_over(store)

    async def _report(self, store: Store, task: Task, random: Random) -> None:
        command: Command = Complete()
        if not self.is_closing:
            command = random.choice(
                (
                    Complete(),
                    Complete(),
                    Fail(error=TaskError(message="again")),
                    Fail(error=TaskError(message="again at once"), delay=0),
                    Fail(error=TaskError(message="no more"), retryable=False),
                    Snooze(delay=random.choice((0, 20))),
                    Release(),
                    Interrupted(),
                )
            )
        for _ in range(3):  # somebody may have asked to cancel it meanwhile
            if await self._move(store, task, command):
                return
            current = (await store.get([task.id]))[0]
            if current is None or current.status.run != task.status.run:
                return
            task, command = current, Complete()

    async def _look_whether_over(self, store: Store) -> None:
        if not self.is_closing or len(self.keys) < TASKS:
            return
        states = await store.states(list(self.keys))
        self.is_over = all(state in TERMINAL for state in states)

    # --- those who move what they do not hold ---

    async def _meddle(self, store: Store, random: Random) -> None:
        while not self.is_closing:
            if self.keys:
                self._meddled += 1
                (task,) = await store.get([random.choice(list(self.keys))])
                assert task is not None
                await self._move(store, task, self._whim(task, random))
            await asyncio.sleep(random.random() * 0.003)

    def _whim(self, task: Task, random: Random) -> Command:
        if task.state in TERMINAL:
            return Rerun(run_at=random.choice((None, self.kit.store.now() + 15)))
        return random.choice(
            (
                Cancel(),
                Cancel(force=True),
                RequestCancel(),
                Reprioritise(priority=random.choice((0, 5, 9))),
                RunNow(),
                Reschedule(run_at=self.kit.store.now() + 15),
            )
        )

    async def _keep_time(self, store: Store) -> None:
        while True:
            for partition in range(store.partitions):
                due = await store.take_due(partition, 50, HOLD_MS)
                for task in due.tasks:
                    command = on_timer(task, due.now)
                    if command is None:
                        await store.rearm([(task.id, rearm(task, due.now))])
                        continue
                    lease = None if task.cell is None else task.cell.lease_until
                    await self._move(store, task, command, seen_lease=lease)
            await asyncio.sleep(0.004)

    async def _move(self, store: Store, task: Task, command: Command, **guards: Any) -> bool:
        """Whether the move is one that can be made, and was."""
        try:
            change = self.kit.change(task, command, **guards)
        except InvalidTransition:
            return False
        (changed,) = await store.commit([change])
        if changed.kind is not ChangeKind.APPLIED:
            return False
        self.happened.add(command.event)
        return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
async def test_no_moment_has_more_runs_than_the_queue_allows(
    kit: Kit, limits: dict[str, Any], seed: int
) -> None:
    await kit.configure(name=QUEUE, **limits)
    load = Load(kit, [kit.store, await kit.again()], seed)
    await load.run()
    events = (await kit.read_events("")).events
    assert {event.task for event in events} == set(load.keys)
    intervals = active_intervals(events)
    _holds(limits, intervals, events, load.keys)
    assert (await kit.stats(QUEUE)).parked == 0


def _holds(
    limits: dict[str, Any],
    intervals: list[Interval],
    events: tuple[TaskEvent, ...],
    keys: dict[str, str],
) -> None:
    at_once = limits.get("max_concurrent")
    assert at_once is None or most_at_once(intervals) <= at_once
    per_key = limits.get("max_concurrent_per_key")
    if per_key is not None:
        found = most_per_key(intervals, keys.__getitem__)
        for key, most in found.items():
            assert most <= per_key, [i for i in intervals if keys[i.task] == key]
    if "rate_limit" in limits:
        beyond = most_beyond_rate(events, limits["rate_limit"], limits["rate_burst"])
        assert beyond <= 0.5, (
            f"{beyond} claims more than the bucket held"
        )  # times are rounded to ms


# --- whatever lets the next of a key through, lets one through ---


@pytest.mark.parametrize("way", ["retry", "scheduled", "snoozed", "run now", "rerun"])
async def test_a_task_that_comes_back_while_others_of_its_key_wait_takes_one_slot(
    kit: Kit, way: str
) -> None:
    await kit.configure(name=QUEUE, max_concurrent_per_key=1)
    run_at = kit.store.now() + 15 if way == "scheduled" else None
    back = await kit.submit(queue=QUEUE, key="k", run_at=run_at, policy=POLICY)
    if way != "scheduled":
        (claimed,) = await kit.claim(queues=(QUEUE,))
        leaves = {
            "retry": Fail(error=TaskError(message="again")),
            "snoozed": Snooze(delay=15),
            "run now": Snooze(delay=60_000),
            "rerun": Complete(),
        }
        back = await kit.moved(claimed, leaves[way])
    await kit.submit_many(5, queue=QUEUE, key="k")
    held = await kit.claim(10, queues=(QUEUE,))
    assert len(held) == 1
    if way in ("run now", "rerun"):
        await kit.move(back, RunNow() if way == "run now" else Rerun())
    else:
        due = await kit.due(back.id)
        command = on_timer(due, kit.store.now())
        assert command is not None
        await kit.move(due, command)
    assert await kit.claim(10, queues=(QUEUE,)) == []
    for _ in range(6):
        await kit.move(held[0], Complete())
        claimed_next = await kit.claim(10, queues=(QUEUE,))
        if not claimed_next:
            break
        assert len(claimed_next) == 1
        held = claimed_next
    assert (await kit.stats(QUEUE)).counts == {"completed": 6}


# --- the measure itself ---


def _event(task: str, at: int, event: Event, source: State, target: State) -> TaskEvent:
    return TaskEvent(1, at, event, source, target, task=task)


def test_runs_that_overlap_are_counted_together() -> None:
    claim = (Event.CLAIM, State.PENDING, State.ACTIVE)
    complete = (Event.COMPLETE, State.ACTIVE, State.COMPLETED)
    asked = (Event.REQUEST_CANCEL, State.ACTIVE, State.ACTIVE)
    events = [
        _event("a", 10, *claim),
        _event("a", 12, *asked),
        _event("b", 14, *claim),
        _event("a", 15, *complete),
        _event("c", 15, *claim),
        _event("b", 20, *complete),
    ]
    intervals = active_intervals(events)
    assert most_at_once(intervals) == 2
    assert most_per_key(intervals, {"a": "k", "b": "l", "c": "k"}.__getitem__) == {"k": 1, "l": 1}
    assert most_per_key(intervals, {"a": "k", "b": "k", "c": "l"}.__getitem__) == {"k": 2, "l": 1}


def test_claims_beyond_the_bucket_are_counted() -> None:
    claim = (Event.CLAIM, State.PENDING, State.ACTIVE)
    at_a_hundred_a_second = [_event("a", n * 10, *claim) for n in range(20)]
    assert most_beyond_rate(at_a_hundred_a_second, rate=100, burst=1) <= 1e-6
    late = [_event("b", 100, *claim)] * 3
    assert most_beyond_rate(at_a_hundred_a_second + late, rate=100, burst=1) > 2.9
