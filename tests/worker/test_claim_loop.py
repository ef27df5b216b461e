"""Claims: only with room, by weight, and never lost with a lost reply."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from andon.model.errors import PayloadTooLarge
from andon.model.fleet import QueueConfig
from andon.model.words import Reason, State
from andon.worker.claiming import policy
from andon.worker.claiming.queues import QueueOrder
from andon.worker.context import Context
from andon.worker.worker import Worker

from .kit import WAIT, Kit, result_of, until


class Busy:
    """A handler that counts itself, and goes on when told."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.began = 0
        self.go_on = asyncio.Event()
        self.changed = asyncio.Event()

    async def __call__(self) -> None:
        self.now += 1
        self.began += 1
        self.most = max(self.most, self.now)
        self.changed.set()
        await self.go_on.wait()
        self.now -= 1

    async def reaches(self, count: int) -> None:
        async with asyncio.timeout(WAIT):
            while self.now != count:
                self.changed.clear()
                await self.changed.wait()


def add(kit: Kit, name: str, **settings: Any) -> Busy:
    busy = Busy()

    async def handler() -> None:
        await busy()

    kit.add(handler, name=name, **settings)
    return busy


async def test_no_more_runs_than_there_is_room_for(kit: Kit):
    busy = add(kit, "busy")
    await kit.start(concurrency=3)
    ids = [await kit.submit("busy") for _ in range(7)]
    await busy.reaches(3)
    busy.go_on.set()
    for task_id in ids:
        assert (await kit.end(task_id)).state is State.COMPLETED
    assert busy.most == 3
    assert all(request.limit <= 3 for (request,) in kit.engine.called("claim"))


async def test_a_limited_type_is_never_exceeded_and_starves_no_other(kit: Kit):
    narrow = add(kit, "narrow", max_concurrent=1)
    wide = add(kit, "wide")
    await kit.start(concurrency=4)
    first = [await kit.submit("narrow") for _ in range(3)]
    second = [await kit.submit("wide") for _ in range(3)]
    await wide.reaches(3)
    await narrow.reaches(1)
    narrow.go_on.set()
    wide.go_on.set()
    for task_id in first + second:
        assert (await kit.end(task_id)).state is State.COMPLETED
    assert narrow.most == 1


async def test_a_limit_for_every_type_counts_each_by_itself(kit: Kit):
    one, other = add(kit, "one"), add(kit, "other", max_concurrent=2)
    await kit.start(per_type=1)
    for _ in range(4):
        await kit.submit("one")
        await kit.submit("other")
    await one.reaches(1)
    await other.reaches(2)
    one.go_on.set()
    other.go_on.set()


async def test_a_pattern_limits_all_its_names_and_hands_back_what_came_too_much(kit: Kit):
    busy = add(kit, "mail:*", max_concurrent=1)
    worker = await kit.start()
    ids = [await kit.submit(f"mail:{n}") for n in range(4)]
    await busy.reaches(1)
    busy.go_on.set()
    for task_id in ids:
        task = await kit.end(task_id)
        assert (task.state, task.status.tries) == (State.COMPLETED, 1)
    assert busy.most == 1
    await worker.stop()


async def test_a_claim_whose_reply_was_lost_is_repeated_and_the_task_runs_once(kit: Kit):
    runs: list[int] = []

    async def once(ctx: Context) -> int:
        runs.append(ctx.run)
        return 1

    kit.add(once)
    task_id = await kit.submit("once")
    kit.engine.losing["claim"] = 2
    await kit.start()
    task = await kit.end(task_id)
    assert (result_of(task), runs, len(task.status.runs)) == (1, [0], 1)
    tokens = [request.token for (request,) in kit.engine.called("claim")]
    assert tokens[0] == tokens[1] == tokens[2] != tokens[3]


async def test_a_report_whose_reply_was_lost_is_repeated(kit: Kit):
    async def once() -> int:
        return 1

    kit.add(once)
    kit.engine.losing["report"] = 1
    # a renewal would find the run resolved, and spare the worker the repeat
    kit.engine.failing["renew_blocking"] = 1_000
    worker = await kit.start()
    task = await kit.run("once")
    await worker._runs.wait_empty()
    assert (result_of(task), len(task.status.runs)) == (1, 1)
    assert len(kit.engine.called("report")) == 2


async def test_a_result_that_the_engine_finds_too_large_is_invalid(kit: Kit):
    async def large() -> str:
        return "x" * 100

    kit.add(large)
    kit.engine.raising["report"] = [PayloadTooLarge("result", 102, 50)]
    await kit.start()
    assert (await kit.run("large")).status.reason is Reason.RESULT_INVALID


async def test_a_report_that_keeps_failing_is_left_to_its_lease(
    kit: Kit, caplog: pytest.LogCaptureFixture
):
    async def fine() -> None: ...

    kit.add(fine)
    kit.engine.raising["report"] = [RuntimeError("a bug")] * 10
    worker = await kit.start()
    task_id = await kit.submit("fine")
    await until(lambda: len(kit.engine.called("report")) == 10)
    await worker.stop()
    assert (await kit.get(task_id)).state is State.ACTIVE
    assert "could not be reported" in caplog.text


async def test_a_store_that_is_away_is_waited_for(kit: Kit):
    async def fine() -> int:
        return 1

    kit.add(fine)
    for name in ("claim", "report", "publish_types", "put_worker"):
        kit.engine.failing[name] = 2
    await kit.start()
    assert result_of(await kit.run("fine")) == 1


@pytest.fixture
def only_hints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that sleeps is woken by a hint or not at all while the test lasts."""
    monkeypatch.setattr(policy, "_poll_pause", lambda *_: 3_600.0)


async def sleeps(worker: Worker) -> None:
    """Wait until the worker has asked for tasks and waits for a hint."""
    await until(lambda: worker._claim_loop._asleep == "no-work")


@pytest.mark.usefixtures("only_hints")
async def test_nothing_is_asked_while_nothing_happens(kit: Kit):
    await sleeps(await kit.start())
    await asyncio.sleep(0.3)  # long enough for many a claim, were there a poll
    # the first hint may say no more than that listening has begun
    assert len(kit.engine.called("claim")) <= 2


@pytest.mark.usefixtures("only_hints")
async def test_a_hint_wakes_a_sleeping_worker(kit: Kit):
    async def fine() -> int:
        return 1

    kit.add(fine)
    await sleeps(await kit.start())
    assert result_of(await kit.run("fine")) == 1


async def test_without_queues_named_every_queue_is_served_new_ones_too(kit: Kit):
    async def fine() -> int:
        return 1

    kit.add(fine)
    await kit.start(queues=())
    await kit.local.configure_queue("late", {})
    assert result_of(await kit.run("fine", queue="late")) == 1


async def test_a_quiet_worker_claims_nothing_until_it_resumes(kit: Kit):
    busy = add(kit, "busy")
    worker = await kit.start()
    await sleeps(worker)  # a claim under way might bring what is submitted meanwhile
    worker.set_quiet(True)
    task_id = await kit.submit("busy")
    await asyncio.sleep(0.1)
    assert busy.now == 0
    worker.set_quiet(False)
    busy.go_on.set()
    assert (await kit.end(task_id)).state is State.COMPLETED


async def most_in_hand(kit: Kit, *, tasks: int) -> int:
    """How many runs a worker of five slots holds when no report is taken and it claims no more."""

    async def fine() -> None: ...

    kit.add(fine)
    held = kit.engine.held["report"] = asyncio.Event()
    worker = await kit.start(concurrency=5)
    ids = [await kit.submit("fine") for _ in range(tasks)]
    loop, runs = worker._claim_loop, worker._runs
    await until(lambda: loop._asleep == "no-capacity" and not (loop._wake.is_set() or runs.running))
    most = len(worker._runs.in_hand)
    held.set()
    for task_id in ids:
        await kit.end(task_id)
    return most


async def test_a_worker_claims_while_it_reports_but_holds_no_more_than_twice_its_runs(kit: Kit):
    assert 5 < await most_in_hand(kit, tasks=40) <= 10


async def test_a_rate_limited_queue_is_asked_at_its_rate(kit: Kit):
    async def fine() -> None: ...

    kit.add(fine)
    await kit.local.configure_queue("slow", {"rate_limit": 20.0, "rate_burst": 1})
    await kit.start(queues=("slow",))
    ids = [await kit.submit("fine", queue="slow") for _ in range(6)]
    async with asyncio.timeout(10):  # by the slow poll it would take twice as long
        for task_id in ids:
            await kit.end(task_id)


def test_heavier_queues_come_first_as_often_as_their_weight_says():
    order = QueueOrder(("a", "b", "c"), strict=False, rng=random.Random(1))
    order.refresh([QueueConfig(name="a", weight=3), QueueConfig(name="b", weight=1)])
    firsts = Counter(order.next()[0] for _ in range(5000))
    assert 2700 < firsts["a"] < 3300
    assert 800 < firsts["b"] < 1200
    assert 800 < firsts["c"] < 1200


def test_strict_order_is_the_order_named():
    order = QueueOrder(("b", "a"), strict=True, rng=random.Random(1))
    order.refresh([QueueConfig(name="a", weight=9)])
    assert order.next() == ("b", "a")


@pytest.mark.usefixtures("only_hints")
async def test_the_queue_of_a_type_is_served_before_anything_was_submitted_to_it(kit: Kit):
    async def fine() -> int:
        return 1

    kit.add(fine, queue="own")
    await kit.start(queues=())
    assert result_of(await kit.run("fine", queue="own")) == 1
