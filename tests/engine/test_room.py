"""Full queues that discard what is oldest: each submit that waits for a place gets its own."""

import asyncio

import pytest

from andon.model.errors import QueueFull
from andon.model.words import Reason, State

from .conftest import Shop
from .faulty import Faulty


async def evicted(shop: Shop) -> list[str]:
    events = []
    cursor = ""
    while (page := await shop.engine.events(cursor)).events:
        events += page.events
        cursor = page.cursor
    return [event.task for event in events if event.reason is Reason.QUEUE_FULL]


@pytest.mark.parametrize("together", [False, True], ids=["in many calls", "in one call"])
async def test_as_many_go_as_come(shop: Shop, faulty: Faulty, together: bool) -> None:
    await shop.engine.configure_queue("default", {"max_size": 250, "on_full": "discard-old"})
    old = [shop.submission(f"old{n:03}") for n in range(250)]
    assert all(o.error is None for o in await shop.engine.submit(old))
    shop.clock.ms += 1
    new = [shop.submission(f"new{n:03}") for n in range(200)]
    calls = faulty.calls.total()
    if together:
        outcomes = await shop.engine.submit(new)
    else:
        outcomes = [o for [o] in await asyncio.gather(*(shop.engine.submit([s]) for s in new))]
    assert [o.error for o in outcomes] == [None] * 200
    assert faulty.calls.total() - calls < 40, "together, not one after the other"
    assert sorted(await evicted(shop)) == [f"old{n:03}" for n in range(200)]
    assert {await shop.state(s.id) for s in new} == {State.PENDING}


async def test_a_queue_smaller_than_the_crowd_takes_all_of_it_in_turn(shop: Shop) -> None:
    await shop.engine.configure_queue("default", {"max_size": 3, "on_full": "discard-old"})
    new = [shop.submission(f"new{n:03}") for n in range(100)]
    outcomes = await asyncio.gather(*(shop.engine.submit([s]) for s in new))
    assert [o.error for [o] in outcomes] == [None] * 100
    assert len(await evicted(shop)) == 97


async def test_a_limit_that_was_lowered_is_kept_by_the_next_submit(shop: Shop) -> None:
    await shop.engine.configure_queue("default", {"on_full": "discard-old"})
    for n in range(60):
        await shop.submit(f"old{n:03}")
    await shop.engine.configure_queue("default", {"max_size": 10})
    await shop.submit("new")
    assert await shop.state("new") is State.PENDING
    assert len(await evicted(shop)) == 51


async def test_who_waits_for_a_place_is_refused_when_the_queue_discards_no_more(
    shop: Shop, faulty: Faulty
) -> None:
    await shop.engine.configure_queue("default", {"max_size": 2, "on_full": "discard-old"})
    await shop.submit("a")
    await shop.submit("b")
    begun = faulty.calls["commit"]
    with faulty.held("commit"):
        crowd = [asyncio.ensure_future(shop.try_submit(f"n{n}")) for n in range(5)]
        async with asyncio.timeout(30):
            while faulty.calls["commit"] == begun:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        await shop.engine.configure_queue("default", {"on_full": "reject"})
    outcomes = await asyncio.gather(*crowd)
    came = [o.id for o in outcomes if o.error is None]
    assert all(isinstance(o.error, QueueFull) for o in outcomes if o.error is not None)
    assert len(came) <= 2
    assert await evicted(shop) == ["a", "b"][: len(came)], "no more than what was under way"
