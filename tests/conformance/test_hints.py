"""Hints: what wakes those who wait, so that nobody has to poll."""

import asyncio

from andon.lifecycle.commands import Cancel, Complete, Lose, Release, RequestCancel
from andon.model.fleet import QueueConfig, TypeInfo
from andon.stores.base import (
    CONFIG_TOPIC,
    EVENTS_TOPIC,
    TIMER_TOPIC,
    Listener,
    control_topic,
    ready_topic,
    task_topic,
)

from .kit import PATIENCE_S, Kit

READY = ready_topic("default")


async def hinted(listener: Listener) -> bool:
    """Whether a hint comes before patience ends."""
    return await listener.wait(PATIENCE_S)


async def quiet(listener: Listener) -> bool:
    return not await listener.wait(0.03)


async def test_a_task_to_claim_wakes_who_waits(kit: Kit) -> None:
    with kit.store.listen([READY]) as listener:
        waiting = asyncio.ensure_future(hinted(listener))
        await asyncio.sleep(0)
        await kit.submit()
        assert await waiting


async def test_a_hint_between_check_and_wait_is_not_lost(kit: Kit) -> None:
    with kit.store.listen([READY]) as listener:
        await kit.submit()
        assert await hinted(listener)


async def test_hints_that_were_taken_do_not_come_again(kit: Kit) -> None:
    with kit.store.listen([READY]) as listener:
        await kit.submit_many(3)
        assert await hinted(listener)
        assert await quiet(listener)


async def test_other_topics_do_not_wake(kit: Kit) -> None:
    with kit.store.listen([ready_topic("other"), task_topic("other")]) as listener:
        await kit.submit()
        assert await quiet(listener)


async def test_a_wait_ends_at_its_timeout(kit: Kit) -> None:
    with kit.store.listen([READY]) as listener:
        assert await kit.claim() == []  # subscribe, then look, then wait
        assert await listener.wait(0) is False
        assert await listener.wait(0.01) is False


async def test_a_released_task_wakes_who_waits(kit: Kit) -> None:
    task = await kit.active()
    with kit.store.listen([READY]) as listener:
        await kit.move(task, Release())
        assert await hinted(listener)


async def test_room_made_by_an_end_wakes_who_waits(kit: Kit) -> None:
    await kit.configure(max_concurrent=1)
    task = await kit.active()
    await kit.submit()
    with kit.store.listen([READY]) as listener:
        await kit.move(task, Complete())
        assert await hinted(listener)


async def test_a_parked_task_let_through_wakes_who_waits(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=1)
    task = await kit.active(key="k")
    await kit.submit(key="k")
    with kit.store.listen([READY]) as listener:
        await kit.move(task, Complete())
        assert await hinted(listener)


async def test_a_resumed_queue_wakes_who_waits(kit: Kit) -> None:
    await kit.configure(paused=True)
    await kit.submit()
    with kit.store.listen([READY]) as listener:
        await kit.configure(paused=False)
        assert await hinted(listener)


async def test_a_filled_bucket_wakes_who_waits(kit: Kit) -> None:
    await kit.configure(rate_limit=20, rate_burst=1)
    await kit.submit_many(2)
    with kit.store.listen([READY]) as listener:
        assert len(await kit.claim(limit=5)) == 1
        while True:  # woken for nothing is allowed; not woken is not
            assert await listener.wait(PATIENCE_S)
            if await kit.claim(limit=5):
                break


async def test_a_timer_that_is_near_wakes_the_timekeeper(kit: Kit) -> None:
    with kit.store.listen([TIMER_TOPIC]) as listener:
        await kit.submit(run_at=kit.store.now() + 50)
        assert await hinted(listener)


async def test_a_move_wakes_who_waits_for_the_task_and_for_events(kit: Kit) -> None:
    task = await kit.submit()
    with (
        kit.store.listen([task_topic(task.id)]) as one,
        kit.store.listen([EVENTS_TOPIC]) as every,
    ):
        await kit.move(task, Cancel())
        assert await hinted(one)
        assert await hinted(every)


async def test_progress_wakes_who_watches_the_task(kit: Kit) -> None:
    task = await kit.active()
    with kit.store.listen([task_topic(task.id)]) as listener:
        await kit.renew(task, progress=10)
        assert await hinted(listener)


async def test_a_worker_is_woken_when_its_run_is_to_stop(kit: Kit) -> None:
    task = await kit.active(worker="w1")
    with (
        kit.store.listen([control_topic("w1")]) as mine,
        kit.store.listen([control_topic("w2")]) as others,
    ):
        await kit.move(task, RequestCancel())
        assert await hinted(mine)
        assert await quiet(others)


async def test_a_worker_is_woken_when_its_run_was_taken_away(kit: Kit) -> None:
    task = await kit.active(worker="w1", lease_ms=5)
    assert task.cell is not None
    with kit.store.listen([control_topic("w1")]) as listener:
        await kit.try_move(task, Lose(), seen_lease=task.cell.lease_until)
        assert await hinted(listener)


async def test_new_configuration_wakes_who_follows_it(kit: Kit) -> None:
    with kit.store.listen([CONFIG_TOPIC]) as listener:
        await kit.store.put_queue(QueueConfig(name="q"))
        assert await hinted(listener)
        await kit.store.put_types([TypeInfo(name="t")])
        assert await hinted(listener)


async def test_a_queue_used_for_the_first_time_is_news(kit: Kit) -> None:
    with kit.store.listen([CONFIG_TOPIC]) as listener:
        await kit.submit(queue="never-seen")
        assert await hinted(listener)


async def test_one_listener_follows_several_topics(kit: Kit) -> None:
    with kit.store.listen([ready_topic("a"), ready_topic("b")]) as listener:
        await kit.submit(queue="a")
        assert await hinted(listener)
        await kit.submit(queue="b")
        assert await hinted(listener)


async def test_another_instance_on_the_same_data_is_woken_too(kit: Kit) -> None:
    other = await kit.again()
    with other.listen([READY]) as listener:
        await kit.submit()
        assert await hinted(listener)
