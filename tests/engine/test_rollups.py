"""One-minute roll-ups through the engine: who writes, what is counted, and what goes wrong."""

import asyncio
import logging
from random import Random
from typing import Any

import pytest
from servers import on_clock

from andon.contract.store import Store
from andon.engine import rollups
from andon.engine.rollups import Rollups
from andon.lifecycle.commands import Complete, Fail, Release
from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.minutes import MINUTE_MS, Sample
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.minutes import MinuteCounts, MinuteRow
from andon.model.settings import MINUTES_SETTINGS
from andon.model.task import Task, TaskError

from .conftest import Clock, Shop

ERROR = Fail(error=TaskError(message="no"), retryable=False)


@pytest.fixture(autouse=True)
def a_minute_has_begun(clock: Clock) -> None:
    clock.ms = clock.ms // MINUTE_MS * MINUTE_MS + 2_000


async def next_minute(shop: Shop, minutes: int = 1) -> MinuteRow | None:
    shop.clock.ms += minutes * MINUTE_MS
    return await shop.engine.rollups.roll_up()


async def writes(store: Store) -> list[bytes | None]:
    return [await store.setting(name) for name in MINUTES_SETTINGS]


async def test_a_minute_has_what_happened_in_each_queue(shop: Shop) -> None:
    assert await shop.engine.rollups.roll_up() is None
    for number in range(3):
        await shop.submit(f"a{number}")
    await shop.submit("b", queue="other", name="mail")
    await shop.run()
    await shop.run(ERROR)
    (given_back,) = await shop.claim()
    await shop.engine.report(given_back, Release())
    await shop.claim(queues=("other",))
    row = await next_minute(shop)
    assert row is not None
    assert row.whole
    default, other = row.queues["default"], row.queues["other"]
    assert (default.submitted, default.finished, default.failed) == (3, 1, 1)
    assert (default.started, default.pending, default.active) == (2, 1, 0)
    assert (other.submitted, other.started, other.active) == (1, 1, 1)
    assert default.sampled == 2
    assert sum(default.wait) == sum(default.run) == 2
    assert row.types["job"].finished == row.types["job"].failed == 1
    history = await shop.engine.minutes(minutes=3)
    assert [series.name for series in history.series] == ["default", "other"]
    assert len(history.missing) == 2
    (by_type,) = (await shop.engine.minutes(minutes=3, by_type=True)).series
    assert by_type.name == "job"
    (only,) = (await shop.engine.minutes("other", 3)).series
    assert only.points[0].counts == other


async def test_wait_and_run_times_are_those_of_the_runs(shop: Shop) -> None:
    await shop.engine.rollups.roll_up()
    await shop.submit("a")
    shop.clock.ms += 250
    (task,) = await shop.claim()
    shop.clock.ms += 9_000
    await shop.engine.report(task, Complete())
    row = await next_minute(shop)
    assert row is not None
    assert row.queues["default"].wait.index(1) == 3  # up to 300 ms
    assert row.queues["default"].run.index(1) == 6  # up to 10 s


async def test_nothing_is_written_while_nothing_happens_and_no_minute_is_missing(
    shop: Shop, store: Store
) -> None:
    await shop.engine.rollups.roll_up()
    before = await writes(store)
    for _ in range(5):
        assert await next_minute(shop) is None
    assert await writes(store) == before
    assert (await shop.engine.minutes(minutes=5)).missing == ()
    await shop.submit("a")
    row = await next_minute(shop)
    assert row is not None
    assert row.queues["default"].submitted == 1
    history = await shop.engine.minutes(minutes=6)
    assert history.missing == ()
    assert [len(series.points) for series in history.series] == [1]


async def test_another_timekeeper_sees_from_the_counts_that_it_was_quiet(shop: Shop) -> None:
    await shop.engine.rollups.roll_up()
    shop.clock.ms += 7 * MINUTE_MS
    assert (await Rollups(shop.engine.store, Random(1)).history(None, 7)).missing == ()


async def test_minutes_without_a_timekeeper_are_missing_not_zero(shop: Shop) -> None:
    await shop.engine.rollups.roll_up()
    await shop.submit("a")
    await next_minute(shop)
    await shop.submit("b")
    assert await next_minute(shop, minutes=4) is None  # which minute it was nobody knows
    await shop.submit("c")
    row = await next_minute(shop)
    assert row is not None
    assert row.queues["default"].submitted == 1
    history = await shop.engine.minutes(minutes=6)
    assert [(at - history.since) // MINUTE_MS for at in history.missing] == [1, 2, 3, 4]


async def test_of_many_timekeepers_one_writes_the_minute(
    shop: Shop, url: str, clock: Clock, store_kind: str
) -> None:
    others: list[Store] = []
    keepers = [shop.engine.rollups, Rollups(shop.engine.store, Random(2))]
    if store_kind not in ("memory", "memory4"):
        for seed in range(3):
            others.append(on_clock(url, clock))
            await others[-1].open()
            keepers.append(Rollups(others[-1], Random(seed)))
    try:
        await keepers[0].roll_up()
        for minute in range(3):
            await shop.submit(f"a{minute}")
            clock.ms += MINUTE_MS
            rows = await asyncio.gather(*(keeper.roll_up() for keeper in keepers))
            assert sum(row is not None for row in rows) == 1
        history = await shop.engine.minutes(minutes=3)
        (series,) = history.series
        assert [point.counts.submitted for point in series.points] == [1, 1, 1]
    finally:
        for store in others:
            await store.close()


async def test_a_late_look_leaves_the_minute_to_the_next(shop: Shop) -> None:
    await shop.engine.rollups.roll_up()
    await shop.submit("a")
    shop.clock.ms += MINUTE_MS + 30_000
    assert await shop.engine.rollups.roll_up() is None
    assert len((await shop.engine.minutes(minutes=1)).missing) == 1


async def test_an_hour_and_a_day_go_by(shop: Shop, store: Store) -> None:
    shop.clock.ms = shop.clock.ms // DAY_MS * DAY_MS + 23 * 3_600_000 + 50 * MINUTE_MS + 1_000
    await shop.engine.rollups.roll_up()
    for minute in range(25):
        await shop.submit(f"a{minute}")
        assert await next_minute(shop) is not None
    history = await shop.engine.minutes(minutes=25)
    assert history.missing == ()
    (series,) = history.series
    assert [point.counts.submitted for point in series.points] == [1] * 25
    shop.clock.ms += 26 * 3_600_000
    await shop.submit("later")
    await shop.engine.rollups.roll_up()
    assert all(
        point.at > shop.clock.ms - DAY_MS
        for one in (await shop.engine.minutes(minutes=1_440)).series
        for point in one.points
    )
    assert sum(one is not None for one in await writes(store)) <= len(MINUTES_SETTINGS)


async def test_a_busy_minute_is_looked_at_within_bounds(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "MOST_EVENTS", 12)
    monkeypatch.setattr(rollups, "_PAGE", 5)
    monkeypatch.setattr(rollups, "MOST_SAMPLED", 3)
    await shop.engine.rollups.roll_up()
    for number in range(12):
        await shop.submit(f"a{number}")
        await shop.run()
    row = await next_minute(shop)
    assert row is not None
    assert not row.whole
    assert 1 <= row.queues["default"].sampled <= 3
    assert row.queues["default"].finished == 12
    assert not (await shop.engine.minutes(minutes=1)).whole


async def test_after_a_busy_minute_the_sample_is_of_moments_at_random(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "MOST_EVENTS", 5)
    monkeypatch.setattr(rollups, "_PAGE", 5)
    looks = asyncio.Semaphore(0)
    goes_on = asyncio.Event()
    real_sleep = asyncio.sleep

    async def moments(seconds: float) -> None:
        looks.release()
        await goes_on.wait()
        await real_sleep(0)

    async def busy(begin: int) -> None:
        for number in range(begin, begin + 6):
            await shop.submit(f"a{number}")
        for _ in range(6):
            await shop.run()

    await shop.engine.rollups.roll_up()
    await busy(0)
    row = await next_minute(shop)
    assert row is not None
    assert row.queues["default"].sampled == 0  # the first that happened were submits
    for number in range(6, 12):
        await shop.submit(f"a{number}")
    monkeypatch.setattr("andon.engine.rollups.asyncio.sleep", moments)
    keeping = asyncio.ensure_future(shop.engine.rollups.keep())
    await looks.acquire()
    goes_on.set()
    while len(shop.engine.rollups._probes) < 4:
        await real_sleep(0)
    goes_on.clear()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    for _ in range(6):
        await shop.run()
    row = await next_minute(shop)
    assert row is not None
    assert 1 <= row.queues["default"].sampled <= 5
    assert not row.whole


async def test_a_bad_record_in_the_sample_is_left_out_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.engine.rollups.roll_up()
    for number in range(3):
        await shop.submit(f"a{number}")
        await shop.run()
    add = Sample.add

    def fails_for_one(self: Sample, event: Any, task: Task) -> None:
        if task.id == "a1":
            raise ValueError("cannot be read")
        add(self, event, task)

    monkeypatch.setattr(Sample, "add", fails_for_one)
    with caplog.at_level(logging.WARNING):
        row = await next_minute(shop)
    assert row is not None
    assert (row.queues["default"].sampled, row.queues["default"].finished) == (2, 3)
    assert "A run of task a1 is not counted" in caplog.text


async def test_a_discarded_task_is_counted_and_not_sampled(shop: Shop) -> None:
    await shop.engine.rollups.roll_up()
    await shop.submit("a", options={"discard_states": ["completed"]})
    await shop.run()
    row = await next_minute(shop)
    assert row is not None
    assert (row.queues["default"].finished, row.queues["default"].sampled) == (1, 0)


async def test_damaged_minutes_are_written_anew(
    shop: Shop, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    await shop.engine.rollups.roll_up()
    for name in MINUTES_SETTINGS:
        await store.put_setting(name, b"\xc1", expect=await store.setting(name))
    await shop.submit("a")
    with caplog.at_level(logging.WARNING):
        assert await next_minute(shop) is None
        await shop.submit("b")
        row = await next_minute(shop)
    assert row is not None
    assert row.queues["default"].submitted == 1
    assert "is damaged, and is written anew" in caplog.text


async def test_what_fails_a_minute_touches_no_timer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([StoreUnavailable("away"), ValueError("a defect"), KeyError("another")])
    tried = asyncio.Event()

    async def fails() -> None:
        error = next(failures, None)
        if error is None:
            tried.set()
            await asyncio.Event().wait()
        else:
            raise error

    real_sleep = asyncio.sleep

    async def at_once(seconds: float) -> None:
        await real_sleep(0)

    monkeypatch.setattr(shop.engine.rollups, "roll_up", fails)
    monkeypatch.setattr("andon.engine.rollups.asyncio.sleep", at_once)
    await shop.submit("a", delay=5)
    with caplog.at_level(logging.WARNING):
        loop = asyncio.ensure_future(shop.engine.rollups.keep())
        await tried.wait()
        await shop.later(6)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
    assert (await shop.task("a")).state.value == "pending"
    assert "A minute is not rolled up: away" in caplog.text
    assert caplog.text.count("for a reason not foreseen") == 2


@pytest.mark.parametrize("minutes", [0, 1_441])
async def test_a_number_of_minutes_that_is_not_kept_is_refused(shop: Shop, minutes: int) -> None:
    with pytest.raises(ConfigurationError, match="1 to 1440"):
        await shop.engine.minutes(minutes=minutes)


def test_a_count_of_nothing_is_nothing() -> None:
    assert MinuteCounts() == MinuteCounts(0, 0, 0, 0, 0, 0, 0, (), ())
