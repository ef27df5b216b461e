"""Prefetch: the next claim leaves before the tasks of the last one start."""

import asyncio
from collections.abc import Callable

import pytest

from andon.model.words import State
from andon.worker.claiming import loop, policy
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
    monkeypatch.setattr(loop, "QUICK_S", 3600.0)
    return Away()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that wait for a slot are not released for being late."""
    monkeypatch.setattr(policy, "LONGEST_HOLD_S", 3600.0)


leaving = pytest.mark.parametrize(
    "leave", [Worker.begin_stop, lambda worker: worker.set_quiet(True)], ids=["stopped", "quiet"]
)
"""The ways of a worker to claim no more."""


def add_quick(kit: Kit, **settings: int) -> list[int]:
    """A handler that notes how many claims had left when it began."""
    seen: list[int] = []

    async def quick() -> None:
        seen.append(len(kit.engine.called("claim")))

    kit.add(quick, **settings)
    return seen


def has_released(worker: Worker) -> bool:
    """Whether it has released prefetched tasks that got no slot."""
    return worker._claim_loop._known.released_at > 0


async def with_three_that_wait(kit: Kit) -> tuple[Worker, Busy, list[str], list[str]]:
    """A worker of three slots that prefetched because its runs were quick; now three of them are
    not. Returns the tasks that run and those that wait, or did."""
    busy = add(kit, "busy")
    for _ in range(6):
        await kit.submit("quick")
    ids = [await kit.submit("busy") for _ in range(6)]
    worker = await kit.start(concurrency=3)
    await busy.reaches(3)
    await until(lambda: len(worker._claim_loop._claimed) == 3 or has_released(worker))
    return worker, busy, ids[:3], ids[3:]


async def test_a_prefetching_claim_leaves_before_the_runs_of_the_last_begin(kit: Kit):
    seen = add_quick(kit)
    ids = [await kit.submit("quick") for _ in range(25)]
    await kit.start(concurrency=5)
    for task_id in ids:
        await kit.end(task_id)
    # Nothing is known before the first have ended; then a claim of twice the slots is always ahead.
    assert seen == [1] * 5 + [3] * 10 + [4] * 10


async def test_a_worker_that_prefetches_runs_no_more_at_once_than_it_has_slots(kit: Kit):
    most = now = 0

    async def turns(n: int) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        for _ in range(n):
            await asyncio.sleep(0)
        now -= 1

    kit.add(turns)
    ids = [await kit.submit("turns", 1 + n % 4) for n in range(60)]
    worker = await kit.start(concurrency=5)
    seen = [await kit.end(task_id) for task_id in ids]
    assert {task.state for task in seen} == {State.COMPLETED}
    assert most == 5
    assert max(request.limit for (request,) in kit.engine.called("claim")) == 10
    await until(lambda: not worker._runs.in_hand)
    assert (worker._runs.running, len(worker._claim_loop._claimed)) == (0, 0)


async def test_nothing_is_prefetched_where_the_store_does_not_ask_for_it(kit: Kit):
    kit.engine.claims_ahead = False
    seen = add_quick(kit)
    ids = [await kit.submit("quick") for _ in range(15)]
    await kit.start(concurrency=5)
    for task_id in ids:
        await kit.end(task_id)
    assert seen == [1] * 5 + [2] * 5 + [3] * 5


async def test_nothing_is_prefetched_beside_limited_types(kit: Kit):
    seen = add_quick(kit, max_concurrent=5)
    ids = [await kit.submit("quick") for _ in range(15)]
    await kit.start(concurrency=5)
    for task_id in ids:
        await kit.end(task_id)
    assert seen == [1] * 5 + [2] * 5 + [3] * 5


async def test_nothing_is_prefetched_while_runs_take_their_time(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(loop, "QUICK_S", 0.02)
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


async def test_a_worker_that_released_prefetched_tasks_does_not_prefetch_for_a_while(kit: Kit):
    seen = add_quick(kit)
    worker, busy, running, waiting = await with_three_that_wait(kit)
    await until(lambda: has_released(worker))
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
async def test_prefetched_tasks_wait_for_slots_and_start_as_slots_become_free(kit: Kit):
    add_quick(kit)
    _, busy, running, waiting = await with_three_that_wait(kit)
    busy.go_on.set()
    for task_id in running + waiting:
        task = await kit.end(task_id)
        assert (task.state, len(task.status.runs)) == (State.COMPLETED, 1)
    assert busy.most == 3


async def test_prefetched_tasks_that_wait_for_long_are_released_at_no_cost_of_a_try(kit: Kit):
    add_quick(kit)
    worker, busy, running, waiting = await with_three_that_wait(kit)
    await until(lambda: has_released(worker))
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
@leaving
async def test_a_worker_that_claims_no_more_releases_prefetched_tasks(
    kit: Kit, leave: Callable[[Worker], None]
):
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


async def with_three_more_than_run(kit: Kit) -> tuple[Worker, Busy, list[str], list[str]]:
    """A worker of three slots that claimed six tasks of which three run, while its next claim is
    held. Returns the tasks that run and those that do not."""
    held = asyncio.Event()
    busy = Busy()

    async def handler() -> None:
        kit.engine.held["claim"] = held
        await busy()

    kit.add(handler, name="busy")
    add_quick(kit)
    for _ in range(3):
        await kit.submit("quick")
    ids = [await kit.submit("busy") for _ in range(6)]
    worker = await kit.start(concurrency=3)
    await busy.reaches(3)
    assert len(worker._claim_loop._claimed) == 3
    return worker, busy, ids[:3], ids[3:]


async def test_the_second_half_of_a_claim_starts_when_the_first_has_ended(
    kit: Kit,
):
    _, busy, first, second = await with_three_more_than_run(kit)
    busy.go_on.set()
    for task_id in first + second:
        assert (await kit.end(task_id)).state is State.COMPLETED
    assert busy.most == 3
    kit.engine.held["claim"].set()


async def test_the_second_half_of_a_claim_starts_as_slots_become_free_once_the_next_failed(
    kit: Kit,
):
    worker, busy, first, second = await with_three_more_than_run(kit)
    kit.engine.failing["claim"] = 1
    kit.engine.held["claim"].set()
    await until(lambda: worker._claim_loop._asleep == "no-capacity")
    busy.go_on.set()
    for task_id in first + second:
        task = await kit.end(task_id)
        assert (task.state, len(task.status.runs)) == (State.COMPLETED, 1)
    assert busy.most == 3


@leaving
async def test_a_worker_that_leaves_starts_no_second_half_of_a_claim(
    kit: Kit, leave: Callable[[Worker], None]
):
    worker, busy, first, second = await with_three_more_than_run(kit)
    leave(worker)
    busy.go_on.set()
    for task_id in first:
        assert (await kit.end(task_id)).state is State.COMPLETED
    kit.engine.held["claim"].set()
    for task_id in second:
        task = await kit.until(task_id, lambda task: task.state is State.PENDING)
        assert task.status.tries == 0
    assert busy.began == 3


async def test_a_worker_that_prefetches_holds_no_more_than_eight_times_its_slots(kit: Kit):
    assert 20 < await most_in_hand(kit, tasks=120) <= 40
