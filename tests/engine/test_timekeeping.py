"""Timers: each fires once, on whoever looks, and never against a renewal."""

import asyncio
from typing import Any

import pytest

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.engine import timekeeper
from andon.lifecycle.commands import Complete, Fail
from andon.model.errors import ConfigurationError, LeaseLost
from andon.model.fleet import QueueConfig
from andon.model.task import TaskError
from andon.model.words import Reason, State

from .conftest import Shop


async def test_a_retry_waits_for_its_delay(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": 10, "backoff": "constant"})
    await shop.run(Fail(error=TaskError(message="x")))
    assert await shop.state("a") is State.RETRY
    await shop.later(9.9)
    assert await shop.state("a") is State.RETRY
    await shop.later(0.1)
    assert await shop.state("a") is State.PENDING


async def test_a_lost_run_is_retried_and_its_report_refused(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": None})
    (first,) = await shop.claim()
    await shop.later(30)
    (second,) = await shop.claim()
    assert second.status.fence > first.status.fence
    with pytest.raises(LeaseLost):
        await shop.engine.report(first, Complete(result=b"late"))
    assert await shop.engine.report(second, Complete(result=b"good")) is State.COMPLETED
    assert (await shop.task("a")).result == b"good"


async def test_a_renewal_in_time_keeps_the_run(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    shop.clock.ms += 29_000
    renewal = Renewal(task="a", run=task.status.run, lease_ms=30_000)
    assert await shop.engine.renew([renewal]) == [Verdict.OK]
    await shop.later(29)
    assert await shop.state("a") is State.ACTIVE
    assert await shop.engine.report(task, Complete()) is State.COMPLETED


async def test_a_run_past_its_lease_may_still_report_until_it_is_collected(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    shop.clock.ms += 90_000
    assert await shop.engine.report(task, Complete()) is State.COMPLETED


async def test_a_repeated_report_is_answered_like_the_first(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    assert await shop.engine.report(task, Complete(result=b"1")) is State.COMPLETED
    assert await shop.engine.report(task, Complete(result=b"1")) is State.COMPLETED
    with pytest.raises(LeaseLost):
        await shop.engine.report(task, Fail(error=TaskError(message="x")))


async def test_silence_is_a_stall_of_its_own(shop: Shop) -> None:
    await shop.submit("a", options={"max_heartbeat_interval": 60})
    (task,) = await shop.claim()
    for _ in range(2):
        shop.clock.ms += 25_000
        await shop.engine.renew([Renewal(task="a", run=task.status.run, lease_ms=30_000)])
    await shop.later(10)
    stalled = await shop.task("a")
    assert (stalled.state, stalled.status.reason) == (State.STALLED, Reason.HEARTBEAT_TIMEOUT)


async def test_a_deadline_expires_whatever_waits(shop: Shop) -> None:
    await shop.submit("pending", deadline_in=10.0)
    await shop.submit("blocked", dependencies=("pending",), deadline_in=5.0)
    await shop.submit("scheduled", delay=8.0, deadline_in=9.0)
    await shop.later(9)
    assert await shop.state("blocked") is State.EXPIRED
    assert await shop.state("scheduled") is State.EXPIRED
    await shop.later(1)
    assert await shop.state("pending") is State.EXPIRED


async def test_a_task_past_its_deadline_is_never_claimed(shop: Shop) -> None:
    await shop.submit("a", deadline_in=10.0)
    shop.clock.ms += 10_000
    assert await shop.claim() == []
    await shop.fire()
    assert await shop.state("a") is State.EXPIRED


async def test_a_queue_timeout_counts_also_while_paused(shop: Shop) -> None:
    await shop.engine.configure_queue("default", {"paused": True})
    await shop.submit("a", options={"queue_timeout": 60})
    await shop.later(60)
    task = await shop.task("a")
    assert (task.state, task.status.reason) == (State.EXPIRED, Reason.QUEUE_TIMEOUT)


async def test_a_run_that_its_worker_does_not_time_out_is_timed_out_here(shop: Shop) -> None:
    await shop.submit("a", options={"timeout": 5, "retry_delay": None})
    (task,) = await shop.claim()
    renewal = Renewal(task="a", run=task.status.run, lease_ms=300_000, heartbeat=True)
    await shop.engine.renew([renewal])
    await shop.later(35)
    timed_out = await shop.task("a")
    assert timed_out.state is State.PENDING
    assert timed_out.status.last_error is not None
    assert timed_out.status.last_error.code == "TIMEOUT"


async def test_retention_deletes_with_an_event(shop: Shop) -> None:
    await shop.submit("a", options={"retention": {"completed": 60}})
    await shop.run()
    await shop.later(59)
    assert await shop.state("a") is State.COMPLETED
    await shop.later(1)
    assert await shop.state("a") is None
    page = await shop.engine.events("")
    assert [e.reason for e in page.events if e.task == "a"][-1] is Reason.RETENTION


async def test_two_timekeepers_fire_a_timer_once(shop: Shop) -> None:
    import asyncio

    for _ in range(50):
        await shop.submit(delay=1.0)
    shop.clock.ms += 1_000
    keeper = shop.engine.timekeeper
    await asyncio.gather(keeper.run_once(), keeper.run_once(), keeper.run_once())
    events = (await shop.engine.events("")).events
    assert sum(e.event == "due" for e in events) == 50


class TestDeadLetters:
    @pytest.fixture
    def shop_options(self) -> dict[str, object]:
        return {"dead_letter_limit": 3}

    async def test_beyond_their_bound_the_oldest_go_with_an_event(self, shop: Shop) -> None:
        for i in range(5):
            await shop.submit(f"d{i}")
            await shop.run(Fail(error=TaskError(message="x"), retryable=False))
            shop.clock.ms += 1
        await shop.engine.timekeeper.housekeep()
        assert [await shop.state(f"d{i}") for i in range(5)] == [None] * 2 + [State.FAILED] * 3
        events = (await shop.engine.events("")).events
        assert sum(e.reason is Reason.DEAD_LETTER_BOUND for e in events) == 2


class FailsOnce:
    """What a store does, but for the first time: then it raises. Counts its calls."""

    def __init__(self, real: Any, error: Exception) -> None:
        self._real = real
        self._error: Exception | None = error
        self.calls = 0

    async def __call__(self, *args: Any) -> Any:
        self.calls += 1
        error, self._error = self._error, None
        if error is not None:
            raise error
        return await self._real(*args)

    async def called(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.calls < times:  # noqa: ASYNC110 - a loop that ended says nothing
                await asyncio.sleep(0.01)


PATIENCE_S = 60.0

REFUSED = ConfigurationError("the user may not do this")
"""What a store raises while the rights of its user, or a password, are being changed."""

UNFORESEEN = RuntimeError("a defect")


@pytest.mark.parametrize("error", [REFUSED, UNFORESEEN])
async def test_timers_go_on_after_whatever_a_round_met(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    taking = FailsOnce(shop.engine.store.take_due, error)
    looking = FailsOnce(shop.engine.store.take_unsettled, error)
    monkeypatch.setattr(shop.engine.store, "take_due", taking)
    monkeypatch.setattr(shop.engine.store, "take_unsettled", looking)
    monkeypatch.setattr(timekeeper, "HOUSEKEEPING_S", 0.1)
    await shop.submit("a", delay=10)
    shop.clock.ms += 10_000
    shop.engine.keep_time()
    await taking.called(2)
    await looking.called(2)
    await until(shop, "a", State.PENDING)


async def until(shop: Shop, task_id: str, state: State) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await shop.state(task_id) is not state:  # noqa: ASYNC110 - of a timer nobody tells
            await asyncio.sleep(0.01)


async def test_configuration_is_followed_after_whatever_a_look_at_it_met(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = FailsOnce(shop.engine.store.types, REFUSED)
    monkeypatch.setattr(shop.engine.store, "types", reading)
    config = QueueConfig(name="q")
    for times in (1, 2):
        assert await shop.engine.store.put_queue(config, expect=config)
        await reading.called(times)
