"""Hints: what wakes those who wait, so that nobody has to poll."""

import asyncio
from typing import Any

import pytest

from andon.contract.store import Store
from andon.contract.topics import (
    CONFIG_TOPIC,
    EVENTS_TOPIC,
    TIMER_TOPIC,
    Listener,
    control_topic,
    ready_topic,
    run_topic,
    task_topic,
)
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Complete,
    Expire,
    Fail,
    Interrupted,
    Lose,
    Reject,
    Release,
    Reprioritise,
    RequestCancel,
    ShutdownRetry,
    Silence,
    Snooze,
    Stop,
    Terminate,
    UnknownTask,
)
from andon.model.fleet import TypeInfo
from andon.model.task import Task, TaskError
from andon.model.words import TERMINAL

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


async def test_a_pending_task_whose_deadline_is_near_wakes_the_timekeeper(kit: Kit) -> None:
    with kit.store.listen([TIMER_TOPIC]) as listener:
        await kit.submit(deadline=kit.store.now() + 3_000)
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


@pytest.mark.parametrize("instance", ["the same", "another"])
async def test_claim_and_progress_wake_who_watches_runs_and_not_who_waits_for_the_end(
    kit: Kit, instance: str
) -> None:
    store = kit.store if instance == "the same" else await kit.again()
    task, other = await kit.submit(), await kit.submit(queue="other")
    with (
        store.listen([run_topic(task.id)]) as runs,
        store.listen([task_topic(task.id)]) as waits,
        store.listen([task_topic(other.id)]) as last,
    ):
        other = await kit.moved(other, Reprioritise(priority=1))
        assert await hinted(last), "it has begun to listen"
        while not await quiet(waits):
            pass
        await runs.wait(0)
        (claimed,) = await kit.claim()
        assert await hinted(runs)
        await kit.renew(claimed, progress=10)
        assert await hinted(runs)
        await kit.move(other, Reprioritise(priority=2))
        assert await hinted(last), "after all hints that were given before"
        assert await quiet(waits)
        await kit.move(claimed, Complete())
        assert await hinted(waits)


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


NO = TaskError(message="no")
REPORTS: list[Command] = [
    Complete(result=b"1"),
    Fail(error=NO),
    Fail(error=NO, retryable=False),
    Fail(error=NO, delay=60_000),
    Terminate(error=NO),
    Reject(error=NO),
    UnknownTask(),
    Snooze(delay=60_000),
    Release(),
    Stop(),
    ShutdownRetry(),
]
"""What a worker says of its own runs."""

KEPT_OR_NOT: dict[str, dict[str, Any]] = {
    "plain": {},
    "keyed": {"key": "k"},
    "unique": {"unique_key": "u"},
    "discarded": {"policy": {"discard_states": ("completed", "failed", "stalled", "dropped")}},
}


@pytest.mark.parametrize("kept", KEPT_OR_NOT)
async def test_a_worker_is_not_woken_by_its_own_reports(kit: Kit, kept: str) -> None:
    """One that is woken renews all of its leases at once."""
    await kit.configure(max_concurrent_per_key=2)
    other = await kit.again()
    await _listens(kit, other)
    for report in REPORTS:
        task = await kit.active(worker="w1", **KEPT_OR_NOT[kept])
        last = await kit.active(worker="w2")
        with (
            kit.store.listen([control_topic("w1")]) as mine,
            other.listen([control_topic("w1")]) as elsewhere,
        ):
            # Whoever listens, and asks for nothing, may be woken for nothing once.
            await asyncio.gather(kit.store.states([task.id]), other.states([task.id]))
            after = await kit.move(task, report)
            await _all_hints_came(kit, last)
            assert await quiet(mine), report
            assert await quiet(elsewhere), report
        await kit.move(await kit.there(last.id), Interrupted())
        if after is not None and after.state not in TERMINAL:
            await kit.move(after, Cancel())


async def test_a_worker_is_not_woken_by_its_own_end_of_a_cancelled_run(kit: Kit) -> None:
    with kit.store.listen([control_topic("w1")]) as mine:
        task = await kit.moved(await kit.active(worker="w1", key="k"), RequestCancel())
        assert await hinted(mine), "of the request, which others made"
        last = await kit.active(worker="w2")
        await kit.move(task, Interrupted())
        await _all_hints_came(kit, last)
        assert await quiet(mine)


async def _listens(kit: Kit, store: Store) -> None:
    """The store has begun to listen; it may wake everybody then, for what it missed before."""
    task = await kit.active(worker="w0", queue="w0")
    with store.listen([control_topic("w0")]) as listener:
        await kit.move(task, RequestCancel())
        assert await hinted(listener)
        while not await quiet(listener):
            pass


async def _all_hints_came(kit: Kit, last: Task) -> None:
    """Hints come in order: the one that is given here comes after all that were given before."""
    with kit.store.listen([control_topic(last.status.worker)]) as listener:
        await kit.move(last, RequestCancel())
        assert await hinted(listener)


OTHERS: dict[str, Command] = {
    "request-cancel": RequestCancel(),
    "cancel": Cancel(force=True),
    "expire": Expire(),
    "lose": Lose(),
    "silence": Silence(),
}
"""What others do to a run in hand."""


@pytest.mark.parametrize("move", OTHERS)
@pytest.mark.parametrize("kept", KEPT_OR_NOT)
async def test_a_worker_is_woken_by_what_others_do_to_its_run(
    kit: Kit, move: str, kept: str
) -> None:
    task = await kit.active(worker="w1", **KEPT_OR_NOT[kept])
    other = await kit.again()
    with (
        kit.store.listen([control_topic("w1")]) as mine,
        other.listen([control_topic("w1")]) as elsewhere,
    ):
        await kit.move(task, OTHERS[move])
        assert await hinted(mine)
        assert await hinted(elsewhere)


async def test_new_configuration_wakes_who_follows_it(kit: Kit) -> None:
    with kit.store.listen([CONFIG_TOPIC]) as listener:
        await kit.configure(name="q")
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
