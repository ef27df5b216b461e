"""The daily history through the engine, on a clock that passes midnight."""

import pytest

from andon.lifecycle.commands import Fail
from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import KEPT_DAYS
from andon.model.errors import ConfigurationError
from andon.model.fleet import DayCounts
from andon.model.task import TaskError

from .conftest import Shop

ERROR = Fail(error=TaskError(message="no"))


def row(day: str, submitted: int, processed: int, failed: int) -> DayCounts:
    return DayCounts(day=day, submitted=submitted, processed=processed, failed=failed)


async def days_of(shop: Shop, days: int = 3, queue: str = "default") -> tuple[DayCounts, ...]:
    [found] = await shop.engine.queue_history(queue, days)
    assert found.queue == queue
    return found.days


async def test_a_task_counts_on_the_day_of_each_of_its_moves(shop: Shop) -> None:
    shop.clock.ms = 20_834 * DAY_MS - 1_000  # a second before midnight
    await shop.submit(options={"retry_delay": 2.0, "backoff": "constant"})
    await shop.run(ERROR)
    assert await days_of(shop, 1) == (row("2027-01-15", 1, 1, 1),)
    await shop.later(3)
    await shop.run()
    assert await days_of(shop) == (
        row("2027-01-16", 0, 1, 0),
        row("2027-01-15", 1, 1, 1),
        row("2027-01-14", 0, 0, 0),
    )


async def test_a_lost_lease_and_a_deadline_that_ends_a_run_are_failures(shop: Shop) -> None:
    await shop.submit(options={"max_retries": 0})
    await shop.claim()
    await shop.submit(options={"max_retries": 0}, deadline=shop.clock.ms + 90_000)
    await shop.later(31)
    await shop.claim(lease_ms=600_000)
    await shop.later(100)
    (today,) = await days_of(shop, 1)
    assert (today.submitted, today.processed, today.failed) == (2, 2, 2)


async def test_ninety_days_are_kept_and_older_ones_are_forgotten(shop: Shop) -> None:
    await shop.submit()
    await shop.run()
    await shop.later(DAY_MS / 1000 * (KEPT_DAYS - 1))
    await shop.engine.timekeeper.housekeep()
    (*_, first) = await days_of(shop, KEPT_DAYS)
    assert (first.submitted, first.processed) == (1, 1)
    await shop.later(DAY_MS / 1000)
    await shop.engine.timekeeper.housekeep()
    assert sum(day.submitted for day in await days_of(shop, KEPT_DAYS)) == 0
    since = shop.engine.now() // DAY_MS - KEPT_DAYS
    assert await shop.engine.store.tallies(None, since) == []


async def test_every_queue_has_its_row_also_if_nothing_happened(shop: Shop) -> None:
    await shop.submit(queue="mail")
    await shop.engine.configure_queue("idle", {"paused": True})
    found = {one.queue: one.days for one in await shop.engine.queue_history(days=2)}
    assert {queue: [day.submitted for day in days] for queue, days in found.items()} == {
        "idle": [0, 0],
        "mail": [1, 0],
    }
    assert [day.submitted for day in await days_of(shop, 2, "nobody")] == [0, 0]


@pytest.mark.parametrize("days", [0, -1, KEPT_DAYS + 1])
async def test_a_number_of_days_that_there_is_no_history_of_is_refused(
    shop: Shop, days: int
) -> None:
    with pytest.raises(ConfigurationError, match=f"1 to {KEPT_DAYS} days"):
        await shop.engine.queue_history("default", days)
