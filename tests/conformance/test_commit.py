"""Committing: each change stands or falls alone, on what it was decided on."""

from andon.contract.outcomes import ChangeKind
from andon.lifecycle.commands import (
    Cancel,
    Complete,
    Delete,
    Deliver,
    Fail,
    Lose,
    RequestCancel,
    Rerun,
    Snooze,
    Unblock,
)
from andon.model.task import TaskError
from andon.model.words import Event, State

from .kit import Kit


async def test_a_move_is_read_as_it_was_decided(kit: Kit) -> None:
    task = await kit.active()
    change = kit.change(task, Complete(result=b'{"x":1}'))
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    read = await kit.there(task.id)
    assert read.status == change.after
    assert read.definition == task.definition
    assert (read.result, read.cell) == (b'{"x":1}', None)


async def test_of_two_moves_decided_on_one_revision_the_second_is_refused(kit: Kit) -> None:
    task = await kit.active()
    first, second = kit.change(task, Complete()), kit.change(task, Snooze(delay=0))
    assert (await kit.commit(first)).kind is ChangeKind.APPLIED
    refused = await kit.commit(second)
    assert refused.kind is ChangeKind.CONFLICT
    assert refused.current == await kit.there(task.id)
    assert await kit.state(task.id) is State.COMPLETED


async def test_a_refused_change_leaves_no_event(kit: Kit) -> None:
    task = await kit.active()
    stale = kit.change(task, Snooze(delay=0))
    await kit.move(task, Complete())
    end = await kit.store.events_end()
    await kit.commit(stale)
    assert (await kit.read_events(end)).events == ()
    assert len((await kit.store.history(task.id)).events) == 3


async def test_changes_of_a_batch_stand_alone(kit: Kit) -> None:
    one, two, three = await kit.active(), await kit.active(), await kit.active()
    stale = kit.change(two, Complete())
    await kit.move(two, RequestCancel())
    outcomes = await kit.store.commit(
        [kit.change(one, Complete()), stale, kit.change(three, Complete())]
    )
    assert [o.kind for o in outcomes] == [
        ChangeKind.APPLIED,
        ChangeKind.CONFLICT,
        ChangeKind.APPLIED,
    ]


async def test_changes_of_all_kinds_in_one_batch_are_each_as_if_alone(kit: Kit) -> None:
    start = kit.store.now() + 3_600_000
    ends, fails, snoozes, asked, stale = [await kit.active() for _ in range(5)]
    bears = await kit.active()
    births = (kit.record("borne").definition,)
    owes = await kit.moved(bears, Complete(births=births))
    parent = await kit.active()
    again = await kit.moved(await kit.active(), Complete(result=b"2"))
    scheduled, pending = await kit.submit(run_at=start), await kit.submit()
    blocked = await kit.submit(dependencies=(parent.id,))
    late = kit.change(stale, Complete())
    await kit.move(stale, RequestCancel())
    batch = [
        kit.change(ends, Complete(result=b"1")),
        kit.change(owes, Deliver(revision=owes.status.revision)),
        kit.change(fails, Fail(error=TaskError(message="no"), retryable=False)),
        kit.change(scheduled, Cancel()),
        late,
        kit.change(snoozes, Snooze(delay=60)),
        kit.change(pending, Cancel()),
        kit.change(asked, RequestCancel()),
        kit.change(blocked, Unblock()),
        kit.change(again, Rerun()),
    ]
    outcomes = await kit.store.commit(batch)
    assert [o.kind for o in outcomes if o.kind is not ChangeKind.APPLIED] == [ChangeKind.CONFLICT]
    assert outcomes[4].kind is ChangeKind.CONFLICT
    for change in batch:
        if change is not late:
            assert (await kit.there(change.before.id)).status == change.after
            moves = (await kit.store.history(change.before.id)).events
            assert [e.write_id for e in moves].count(change.event.write_id) == 1
            assert moves[-1].write_id == change.event.write_id
    assert (await kit.there(ends.id)).result == b"1"
    assert (await kit.there(again.id)).result is None
    counts = {name: n for name, n in (await kit.stats()).counts.items() if n}
    assert counts == {
        "active": 3,
        "cancelled": 2,
        "completed": 2,
        "failed": 1,
        "pending": 2,
        "scheduled": 1,
    }
    assert (await kit.stats()).dead_letters == 1


async def test_a_change_to_a_task_that_is_not_there_is_answered_gone(kit: Kit) -> None:
    task = kit.record()
    assert (await kit.try_move(task, Cancel())).kind is ChangeKind.GONE


async def test_a_renewal_does_not_disturb_a_report(kit: Kit) -> None:
    task = await kit.active()
    report = kit.change(task, Complete())
    await kit.renew(task, progress=80)
    assert (await kit.commit(report)).kind is ChangeKind.APPLIED


async def test_a_renewal_that_comes_in_between_wins_over_the_timer(kit: Kit) -> None:
    task = await kit.active(lease_ms=5)
    await kit.pass_time(10)
    assert task.cell is not None
    lost = kit.change(task, Lose(), seen_lease=task.cell.lease_until)
    await kit.renew(task)
    refused = await kit.commit(lost)
    assert refused.kind is ChangeKind.CONFLICT
    assert refused.current is not None
    assert refused.current.cell is not None
    assert refused.current.cell.lease_until > task.cell.lease_until
    assert await kit.state(task.id) is State.ACTIVE


async def test_a_lease_that_is_still_as_seen_is_collected(kit: Kit) -> None:
    task = await kit.active(lease_ms=5)
    await kit.renew(task, lease_ms=6)
    seen = await kit.there(task.id)
    assert seen.cell is not None
    changed = await kit.try_move(seen, Lose(), seen_lease=seen.cell.lease_until)
    assert changed.kind is ChangeKind.APPLIED


async def test_a_cancel_request_keeps_the_run_and_what_it_renewed(kit: Kit) -> None:
    task = await kit.active()
    request = kit.change(task, RequestCancel())
    await kit.renew(task, progress=30)
    assert (await kit.commit(request)).kind is ChangeKind.APPLIED
    asked = await kit.there(task.id)
    assert (asked.state, asked.status.run) == (State.ACTIVE, task.status.run)
    assert asked.cell is not None
    assert asked.cell.progress == 30


async def test_the_result_stays_until_a_rerun_clears_it(kit: Kit) -> None:
    task = await kit.active()
    done = await kit.moved(task, Complete(result=b"1"))
    assert done.result == b"1"
    again = await kit.moved(done, Rerun())
    assert (again.state, again.result) == (State.PENDING, None)
    (claimed,) = await kit.claim()
    assert claimed.status.fence > task.status.fence


async def test_a_large_result_is_kept_whole(kit: Kit) -> None:
    result = b'"' + b"x" * 200_000 + b'"'
    done = await kit.moved(
        await kit.active(args=b'"' + b"y" * 200_000 + b'"'), Complete(result=result)
    )
    assert done.result == result
    assert len(done.definition.args) == 200_002


# --- lost replies ---


async def test_a_repeated_write_is_answered_like_the_first(kit: Kit) -> None:
    task = await kit.active()
    change = kit.change(task, Complete())
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    end = await kit.store.events_end()
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    assert (await kit.read_events(end)).events == ()


async def test_a_repeated_write_is_known_also_after_the_task_moved_on(kit: Kit) -> None:
    task = await kit.active(policy={"retry_delay": None})
    change = kit.change(task, Fail(error=TaskError(message="no")))
    await kit.commit(change)
    (second,) = await kit.claim()
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    assert await kit.there(task.id) == second


async def test_the_same_move_under_another_write_id_is_a_conflict(kit: Kit) -> None:
    task = await kit.active()
    await kit.move(task, Complete())
    assert (await kit.try_move(task, Complete())).kind is ChangeKind.CONFLICT


async def test_a_repeated_report_of_a_discarded_task_is_answered_like_the_first(kit: Kit) -> None:
    task = await kit.active(policy={"discard_states": ("completed",)})
    change = kit.change(task, Complete())
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    assert (await kit.commit(change)).kind is ChangeKind.APPLIED
    assert (await kit.try_move(task, Complete())).kind is ChangeKind.GONE


async def test_a_repeated_deletion_is_answered_like_the_first(kit: Kit) -> None:
    ended = await kit.moved(await kit.submit(), Cancel())
    delete = kit.change(ended, Delete())
    assert (await kit.commit(delete)).kind is ChangeKind.APPLIED
    assert (await kit.commit(delete)).kind is ChangeKind.APPLIED
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.GONE


# --- ends that are discarded ---


async def test_a_discarded_end_leaves_both_its_events_and_the_result(kit: Kit) -> None:
    task = await kit.active(policy={"discard_states": ("completed",)})
    end = await kit.store.events_end()
    await kit.move(task, Complete(result=b"7"))
    events = (await kit.read_events(end)).events
    assert [e.event for e in events] == [Event.COMPLETE, Event.DELETE]
    assert [e.revision for e in events] == [3, 4]
    assert events[1].result == b"7"
    assert await kit.get(task.id) is None
