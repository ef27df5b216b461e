"""Timers: handed out once when due, held back, armed anew; early perhaps, never lost."""

import pytest

from andon.lifecycle.commands import Cancel, Complete, Fail, Lose, Reschedule, RunNow, Snooze
from andon.lifecycle.timers import next_timer, on_timer
from andon.model.task import TaskError
from andon.model.words import State

from .kit import Kit, ids


async def test_nothing_is_due_before_its_time(kit: Kit) -> None:
    run_at = kit.store.now() + 60_000
    task = await kit.submit(run_at=run_at)
    due = await kit.store.take_due(kit.store.partition_of(task.id), 10, 1_000)
    assert due.tasks == ()
    assert due.next_at == run_at
    assert abs(due.now - kit.store.now()) < 5_000


async def test_without_timers_there_is_no_next(kit: Kit) -> None:
    await kit.submit()
    assert (await kit.store.take_due(0, 10, 1_000)).next_at is None


async def test_a_start_time_comes_due(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 10)
    due = await kit.due(task.id)
    assert due == await kit.there(task.id)


async def test_a_taken_timer_is_kept_from_other_takers(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await kit.due(task.id, hold_ms=60_000)
    assert await kit.take_due() == []


async def test_a_taken_timer_comes_again_when_its_taker_does_nothing(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await kit.due(task.id, hold_ms=20)
    await kit.due(task.id)


async def test_no_more_than_the_limit_is_taken(kit: Kit) -> None:
    soon = kit.store.now() + 5
    tasks = [kit.record(run_at=soon) for _ in range(5)]
    await kit.create(*tasks)
    await kit.pass_time(10 + kit.store.slack_ms)
    first = await kit.store.take_due(0, 3, 60_000)
    second = await kit.store.take_due(0, 3, 60_000)
    if kit.store.partitions == 1:
        assert (len(first.tasks), len(second.tasks)) == (3, 2)
    assert not set(ids(first.tasks)) & set(ids(second.tasks))


async def test_a_move_replaces_the_timer(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await kit.move(task, RunNow())
    await kit.pass_time(10 + kit.store.slack_ms)
    assert await kit.take_due() == []


async def test_a_new_start_time_replaces_the_old(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 60_000)
    await kit.move(task, Reschedule(run_at=kit.store.now() + 10))
    await kit.due(task.id)


async def test_a_lease_that_is_not_renewed_comes_due(kit: Kit) -> None:
    task = await kit.active(lease_ms=10)

    async def lost() -> bool:
        due = [t for t in await kit.take_due(hold_ms=1) if t.id == task.id]
        return any(isinstance(on_timer(t, kit.store.now()), Lose) for t in due)

    await kit.until(lost)


async def test_a_renewed_lease_is_not_lost_and_comes_due_in_its_turn(kit: Kit) -> None:
    task = await kit.active(lease_ms=30)
    await kit.renew(task, lease_ms=60)
    renewed = await kit.there(task.id)
    assert renewed.cell is not None

    async def lost() -> bool:
        for due in await kit.take_due(hold_ms=60_000):
            command = on_timer(due, kit.store.now())
            if command is None:
                await kit.store.rearm([(due.id, next_timer(due))])
            else:
                return isinstance(command, Lose)
        return False

    await kit.until(lost)
    assert kit.store.now() >= renewed.cell.lease_until


@pytest.mark.parametrize("limit", ["timeout", "max_heartbeat_interval"])
async def test_limits_of_a_run_come_due_before_its_lease(kit: Kit, limit: str) -> None:
    policy = {limit: 0.01, "lease": 0.02}
    task = await kit.active(policy=policy, lease_ms=60_000)
    assert next_timer(task) is not None

    async def fired() -> object:
        for due in await kit.take_due(hold_ms=1):
            return on_timer(due, kit.store.now())
        return None

    await kit.until(fired)


async def test_the_deadline_of_a_run_comes_due(kit: Kit) -> None:
    await kit.active()  # what a store sends for the first time takes longest
    for ahead_ms in (500, 4_000):  # a busy machine may need longer to claim it
        task = await kit.submit(deadline=kit.store.now() + ahead_ms)
        if ids(await kit.claim()) == [task.id]:
            break
    assert (await kit.there(task.id)).state is State.ACTIVE
    await kit.due(task.id)


async def test_a_retry_comes_due(kit: Kit) -> None:
    task = await kit.active(policy={"retry_delay": 0.005, "backoff": "constant"})
    await kit.move(task, Fail(error=TaskError(message="no")))
    await kit.due(task.id)


async def test_a_snoozed_task_comes_due(kit: Kit) -> None:
    task = await kit.active()
    await kit.move(task, Snooze(delay=5))
    await kit.due(task.id)


async def test_the_end_of_retention_comes_due(kit: Kit) -> None:
    from andon.model.policy import Retention

    task = await kit.active(policy={"retention": Retention(completed=0.01)})
    await kit.move(task, Complete())
    await kit.due(task.id)


async def test_a_task_kept_for_ever_has_no_timer(kit: Kit) -> None:
    from andon.model.policy import Retention

    task = await kit.submit(policy={"retention": Retention(cancelled=None)})
    await kit.move(task, Cancel())
    assert (await kit.store.take_due(0, 10, 1_000)).next_at is None


async def test_a_timer_is_armed_anew_for_a_later_time(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await kit.due(task.id, hold_ms=60_000)
    later = kit.store.now() + 30
    await kit.store.rearm([(task.id, later)])
    await kit.due(task.id)
    assert kit.store.now() >= later


async def test_a_timer_may_be_taken_away(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await kit.due(task.id)
    await kit.store.rearm([(task.id, None)])
    assert (await kit.store.take_due(0, 10, 1_000)).next_at is None


async def test_a_task_that_moved_keeps_the_timer_of_its_move(kit: Kit) -> None:
    task = await kit.submit(run_at=kit.store.now() + 5)
    await kit.due(task.id, hold_ms=60_000)
    await kit.move(task, Reschedule(run_at=kit.store.now() + 20))
    await kit.store.rearm([(task.id, kit.store.now() + 60_000), ("absent", 1)])
    await kit.due(task.id)
