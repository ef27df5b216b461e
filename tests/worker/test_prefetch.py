"""Claims that leave before the runs of the last one begin, where the store is elsewhere."""

import asyncio
import time
from collections.abc import Callable

import pytest

from andon.model.words import State
from andon.worker import slots
from andon.worker.claiming import loop as claims
from andon.worker.context import Context
from andon.worker.worker import Worker

from .kit import Kit, until
from .test_claim_loop import Busy, add, most_in_hand, sleeps

AWAY = 20
"""Turns of the loop that a claim takes: more than quick runs and their reports."""


class Away(Kit):
    """On a store whose work is done elsewhere."""

    async def open(self) -> None:
        await super().open()
        self.engine.claims_ahead = True
        self.engine.turns["claim"] = AWAY


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Kit:
    """Behind HTTP nobody claims ahead. What is over at once is quick, however busy the machine."""
    monkeypatch.setattr(claims, "_QUICK_S", 3600.0)
    return Away()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a slot is not given back for being late."""
    monkeypatch.setattr(slots, "_LONGEST_WAIT_S", 3600.0)


def add_quick(kit: Kit, **settings: int) -> list[int]:
    """A handler that notes how many claims had left when it began."""
    seen: list[int] = []

    async def quick() -> None:
        seen.append(len(kit.engine.called("claim")))

    kit.add(quick, **settings)
    return seen


async def with_three_that_wait(kit: Kit) -> tuple[Worker, Busy, list[str], list[str]]:
    """A worker of three slots that claims ahead because its runs were quick; now three of them are
    not. Returns the tasks that run and those that wait, or did."""
    busy = add(kit, "busy")
    for _ in range(6):
        await kit.submit("quick")
    ids = [await kit.submit("busy") for _ in range(6)]
    worker = await kit.start(concurrency=3)
    await busy.reaches(3)
    await until(lambda: worker._runs.slots.waiting == 3 or worker._runs.slots.given_back_at > 0)
    return worker, busy, ids[:3], ids[3:]


async def test_the_next_claim_leaves_before_the_runs_of_the_last_begin(kit: Kit):
    seen = add_quick(kit)
    ids = [await kit.submit("quick") for _ in range(25)]
    await kit.start(concurrency=5)
    for task_id in ids:
        await kit.end(task_id)
    # Nothing is known of the first; then claims bring twice as many as may run at once.
    assert seen == [1] * 5 + [3] * 10 + [4] * 10


async def test_of_what_comes_with_a_claim_ahead_no_more_run_at_once_than_ever(kit: Kit):
    most = now = 0

    async def turns(n: int) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        for _ in range(n):
            await asyncio.sleep(0)
        now -= 1

    kit.add(turns)
    ids = [await kit.submit("turns", n % 4) for n in range(60)]
    worker = await kit.start(concurrency=5)
    seen = [await kit.end(task_id) for task_id in ids]
    assert {task.state for task in seen} == {State.COMPLETED}
    assert most == 5
    assert max(request.limit for (request,) in kit.engine.called("claim")) == 10
    await until(lambda: not worker._runs.in_hand)
    assert (worker._runs.slots.running, worker._runs.slots.waiting) == (0, 0)


async def test_a_claim_waits_for_the_runs_of_the_last_where_the_store_is_here(kit: Kit):
    kit.engine.claims_ahead = False
    seen = add_quick(kit)
    ids = [await kit.submit("quick") for _ in range(15)]
    await kit.start(concurrency=5)
    for task_id in ids:
        await kit.end(task_id)
    assert seen == [1] * 5 + [2] * 5 + [3] * 5


async def test_nothing_is_claimed_ahead_beside_limited_types(kit: Kit):
    seen = add_quick(kit, max_concurrent=5)
    ids = [await kit.submit("quick") for _ in range(15)]
    await kit.start(concurrency=5)
    for task_id in ids:
        await kit.end(task_id)
    assert seen == [1] * 5 + [2] * 5 + [3] * 5


async def test_nothing_is_claimed_ahead_of_runs_that_take_their_time(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(claims, "_QUICK_S", 0.02)
    seen: list[int] = []

    async def slow() -> None:
        seen.append(len(kit.engine.called("claim")))
        await asyncio.sleep(0.05)

    kit.add(slow)
    ids = [await kit.submit("slow") for _ in range(4)]
    await kit.start(concurrency=1)
    for task_id in ids:
        await kit.end(task_id)
    assert seen == [1, 2, 3, 4]


@pytest.mark.usefixtures("patient")
async def test_handlers_that_keep_the_loop_to_themselves_leave_others_what_was_claimed_ahead(
    kit: Kit,
):
    add_quick(kit)
    began: list[str] = []
    passed = 0.0

    async def heavy(ctx: Context) -> None:
        nonlocal passed
        began.append(ctx.task_id)
        passed += 4000.0

    kit.add(heavy)
    for _ in range(5):
        await kit.submit("quick")
    ids = [await kit.submit("heavy") for _ in range(10)]
    worker = await kit.start(concurrency=5)
    worker._runs.slots._clock = lambda: time.monotonic() + passed
    ended = [await kit.end(task_id) for task_id in ids]
    assert sorted(began) == sorted(ids)  # each once
    # All ten came with one claim: when one had run, four of the nine were given back.
    assert sum(len(task.status.runs) > 1 for task in ended) >= 4
    assert {task.status.tries for task in ended} == {1}


async def test_who_had_to_give_back_claims_nothing_ahead_for_a_while(kit: Kit):
    seen = add_quick(kit)
    worker, busy, running, waiting = await with_three_that_wait(kit)
    await until(lambda: worker._runs.slots.given_back_at > 0)
    busy.go_on.set()
    for task_id in running + waiting:
        await kit.end(task_id)
    await sleeps(worker)
    worker.set_quiet(True)
    seen.clear()
    ids = [await kit.submit("quick") for _ in range(9)]
    before = len(kit.engine.called("claim"))
    worker.set_quiet(False)
    for task_id in ids:
        await kit.end(task_id)
    assert seen == [before + 1] * 3 + [before + 2] * 3 + [before + 3] * 3


@pytest.mark.usefixtures("patient")
async def test_what_was_claimed_ahead_waits_for_slots_and_begins_as_they_are_free(kit: Kit):
    add_quick(kit)
    _, busy, running, waiting = await with_three_that_wait(kit)
    busy.go_on.set()
    for task_id in running + waiting:
        task = await kit.end(task_id)
        assert (task.state, len(task.status.runs)) == (State.COMPLETED, 1)
    assert busy.most == 3


async def test_what_waits_for_long_is_given_back_at_no_cost_of_a_try(kit: Kit):
    add_quick(kit)
    worker, busy, running, waiting = await with_three_that_wait(kit)
    await until(lambda: worker._runs.slots.given_back_at > 0)
    for task_id in waiting:
        task = await kit.until(task_id, lambda task: task.state is State.PENDING)
        assert task.status.tries == 0
    assert busy.now == 3
    busy.go_on.set()
    for task_id in running + waiting:
        task = await kit.end(task_id)
        assert (task.state, task.status.tries) == (State.COMPLETED, 1)
    assert busy.most == 3


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "leave", [Worker.begin_stop, lambda worker: worker.set_quiet(True)], ids=["stopped", "quiet"]
)
async def test_who_claims_no_more_gives_back_what_waits(kit: Kit, leave: Callable[[Worker], None]):
    add_quick(kit)
    worker, busy, running, waiting = await with_three_that_wait(kit)
    leave(worker)
    for task_id in waiting:
        task = await kit.until(task_id, lambda task: task.state is State.PENDING)
        assert task.status.tries == 0
    busy.go_on.set()
    for task_id in running:
        assert (await kit.end(task_id)).state is State.COMPLETED
    assert busy.most == 3


@pytest.mark.usefixtures("patient")
async def test_what_is_cancelled_while_it_waits_never_runs(kit: Kit):
    add_quick(kit)
    worker, busy, running, waiting = await with_three_that_wait(kit)
    await kit.local.cancel(waiting[:1])
    held = worker._runs.in_hand.values()
    await until(lambda: any(run.context.stop_reason == "cancel" for run in held))
    busy.go_on.set()
    states = [(await kit.end(task_id)).state for task_id in running + waiting]
    assert states == [State.COMPLETED] * 3 + [State.CANCELLED] + [State.COMPLETED] * 2
    assert busy.began == 5


async def test_who_claims_ahead_holds_no_more_than_eight_times_its_runs(kit: Kit):
    assert 20 < await most_in_hand(kit, tasks=80) <= 40
