"""Claiming: each task once, in order, stamped with a run and a lease."""

from andon.contract.outcomes import Verdict
from andon.lifecycle.commands import Cancel, Complete, Fail, Release, Reprioritise
from andon.model.task import TaskError
from andon.model.words import Event, Reason, State

from .kit import LEASE_MS, Kit, ids, needs_one_line


async def test_a_claim_stamps_a_run_with_worker_lease_and_fence(kit: Kit) -> None:
    submitted = await kit.submit()
    before = kit.store.now()
    (task,) = await kit.claim(worker="w1")
    run = task.status.runs[-1]
    assert task.state is State.ACTIVE
    assert task.status.revision == submitted.status.revision + 1
    assert (run.number, run.worker, run.id) == (0, "w1", task.status.run)
    assert task.cell is not None
    assert task.cell.run == run.id
    assert run.lease_until is None, "the lease is in the cell while the run is in hand"
    assert before + LEASE_MS <= task.cell.lease_until <= kit.store.now() + LEASE_MS
    assert task.status.fence >= before
    assert task.status.started_at is not None


async def test_a_claimed_task_is_read_as_it_was_handed_out(kit: Kit) -> None:
    task = await kit.active()
    assert await kit.there(task.id) == task


async def test_the_claim_writes_its_event(kit: Kit) -> None:
    task = await kit.active(worker="w1")
    event = (await kit.store.history(task.id)).events[-1]
    assert (event.event, event.source, event.target) == (
        Event.CLAIM,
        State.PENDING,
        State.ACTIVE,
    )
    assert (event.worker, event.run, event.revision) == ("w1", 0, task.status.revision)


async def test_a_task_is_handed_out_once(kit: Kit) -> None:
    await kit.submit()
    assert len(await kit.claim()) == 1
    assert await kit.claim() == []


async def test_a_claim_takes_no_more_than_its_limit(kit: Kit) -> None:
    await kit.submit_many(5)
    assert len(await kit.claim(limit=3)) == 3
    assert len(await kit.claim(limit=3)) == 2


async def test_equals_are_handed_out_first_in_first_out(kit: Kit) -> None:
    needs_one_line(kit)
    tasks = await kit.submit_many(20)
    assert ids(await kit.claim(limit=20)) == ids(tasks)


async def test_higher_priority_goes_first(kit: Kit) -> None:
    needs_one_line(kit)
    for name, priority in (("low", -4), ("normal", 0), ("high", 5)):
        await kit.submit(name, priority=priority)
    assert ids(await kit.claim(limit=3)) == ["high", "normal", "low"]


async def test_a_task_given_a_new_priority_takes_its_new_place(kit: Kit) -> None:
    needs_one_line(kit)
    first, second = await kit.submit_many(2)
    await kit.move(second, Reprioritise(priority=2))
    assert ids(await kit.claim(limit=2)) == [second.id, first.id]


async def test_a_task_given_the_priority_that_it_has_keeps_its_place(kit: Kit) -> None:
    needs_one_line(kit)
    first, second = await kit.submit(), await kit.submit(key="k")
    third = await kit.submit()
    for task in (first, second, third):
        await kit.move(task, Reprioritise(priority=0))
    assert [task.id for task in await kit.claim(limit=5)] == [first.id, second.id, third.id]


async def test_a_task_given_a_new_priority_while_it_runs_takes_that_place_next(kit: Kit) -> None:
    needs_one_line(kit)
    await kit.submit("a")
    [held] = await kit.claim()
    raised = await kit.moved(held, Reprioritise(priority=2))
    assert (raised.state, raised.status.priority, raised.cell) == (State.ACTIVE, 2, held.cell)
    assert await kit.renew(raised) is Verdict.OK
    await kit.submit("b", priority=1)
    await kit.move(raised, Release())
    assert ids(await kit.claim(limit=2)) == ["a", "b"]


async def test_queues_are_asked_in_the_order_given(kit: Kit) -> None:
    await kit.submit("a", queue="slow")
    await kit.submit("b", queue="fast")
    assert ids(await kit.claim(limit=2, queues=("fast", "slow"))) == ["b", "a"]


async def test_queues_not_asked_for_are_left_alone(kit: Kit) -> None:
    await kit.submit(queue="other")
    assert await kit.claim() == []


async def test_a_released_task_keeps_its_place_and_costs_no_try(kit: Kit) -> None:
    needs_one_line(kit)
    first, second = await kit.submit_many(2)
    (claimed,) = await kit.claim()
    assert claimed.id == first.id
    released = await kit.moved(claimed, Release())
    assert released.status.tries == 0
    assert ids(await kit.claim(limit=2)) == [first.id, second.id]


async def test_a_retried_task_goes_to_the_end_of_the_line(kit: Kit) -> None:
    needs_one_line(kit)
    first = await kit.active(policy={"retry_delay": None})
    await kit.pass_time(2)
    second = await kit.submit()
    await kit.pass_time(2)
    await kit.move(first, Fail(error=TaskError(message="no")))
    assert ids(await kit.claim(limit=2)) == [second.id, first.id]


async def test_the_next_run_has_a_greater_fence_and_another_id(kit: Kit) -> None:
    first = await kit.active(policy={"retry_delay": None})
    await kit.move(first, Fail(error=TaskError(message="no")))
    (second,) = await kit.claim()
    assert second.status.fence > first.status.fence
    assert second.status.run != first.status.run
    assert second.status.runs[-1].number == 1
    assert second.status.retried_at is not None


async def test_a_type_without_room_is_passed_over(kit: Kit) -> None:
    for name in ("big", "big", "small", "big", "small"):
        await kit.submit(name=name)
    claimed = await kit.claim(limit=10, room={"big": 1, "small": 1})
    assert sorted(task.definition.name for task in claimed) == ["big", "small"]
    claimed = await kit.claim(limit=10, room={"big": 0})
    assert [task.definition.name for task in claimed] == ["small"]
    assert len(await kit.claim(limit=10)) == 2


async def test_a_type_that_is_not_in_the_room_is_unlimited(kit: Kit) -> None:
    await kit.submit_many(3, name="free")
    assert len(await kit.claim(limit=10, room={"other": 1})) == 3


async def test_room_does_not_disturb_the_order_of_what_is_passed_over(kit: Kit) -> None:
    needs_one_line(kit)
    tasks = await kit.submit_many(5, name="big")
    assert await kit.claim(limit=5, room={"big": 0}) == []
    assert ids(await kit.claim(limit=5)) == ids(tasks)


async def test_a_task_past_its_deadline_is_not_handed_out_but_made_due(kit: Kit) -> None:
    task = await kit.submit(deadline=kit.store.now() + 15)
    await kit.pass_time(20)
    await kit.take_due(hold_ms=60_000)
    assert await kit.claim() == []
    due = await kit.due(task.id)
    assert due.state is State.PENDING


async def test_a_task_past_its_queue_timeout_is_not_handed_out(kit: Kit) -> None:
    await kit.submit(policy={"queue_timeout": 0.015})
    await kit.pass_time(20)
    assert await kit.claim() == []


async def test_dead_tasks_do_not_hide_the_living_behind_them(kit: Kit) -> None:
    soon = kit.store.now() + 15
    await kit.create(*[kit.record(deadline=soon) for _ in range(20)])
    alive = await kit.submit()
    await kit.pass_time(20)
    assert ids(await kit.claim(limit=1)) == [alive.id]


async def test_a_cancelled_task_is_not_handed_out(kit: Kit) -> None:
    task = await kit.submit()
    await kit.move(task, Cancel())
    assert await kit.claim() == []


async def test_a_completed_task_is_not_handed_out_again(kit: Kit) -> None:
    task = await kit.active()
    await kit.move(task, Complete())
    assert await kit.claim() == []


async def test_a_claim_repeated_with_its_token_gives_the_same_runs(kit: Kit) -> None:
    await kit.submit_many(3)
    first = await kit.claim(limit=2, token="t")
    again = await kit.claim(limit=2, token="t")
    assert {(t.id, t.status.run) for t in again} == {(t.id, t.status.run) for t in first}
    assert len(await kit.claim(limit=2)) == 1


async def test_a_repeated_claim_leaves_out_runs_that_have_ended(kit: Kit) -> None:
    await kit.submit_many(2)
    done, going = await kit.claim(limit=2, token="t")
    await kit.move(done, Complete())
    assert ids(await kit.claim(limit=2, token="t")) == [going.id]


async def test_a_repeated_claim_shows_what_was_renewed_since(kit: Kit) -> None:
    await kit.submit()
    (task,) = await kit.claim(token="t")
    await kit.renew(task, progress=40)
    (again,) = await kit.claim(token="t")
    assert again.cell is not None
    assert again.cell.progress == 40


async def test_a_cancel_request_does_not_end_the_run_for_a_repeated_claim(kit: Kit) -> None:
    from andon.lifecycle.commands import RequestCancel

    await kit.submit()
    (task,) = await kit.claim(token="t")
    await kit.move(task, RequestCancel())
    (again,) = await kit.claim(token="t")
    assert again.status.cancel_requested_at is not None
    assert again.status.run == task.status.run


async def test_runs_keep_the_reason_for_which_they_were_opened(kit: Kit) -> None:
    task = await kit.active(policy={"retry_delay": None})
    retried = await kit.moved(task, Fail(error=TaskError(message="no")))
    assert [run.created_reason for run in retried.status.runs] == [Reason.SUBMITTED, Reason.RETRY]
    assert retried.status.runs[0].resolved_reason is Reason.ERROR
