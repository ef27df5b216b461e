"""What is left of a deleted task within the submit window: its state, by which report its last run
was resolved (docs/rulings.md, R31, R33), and of one that was discarded at its end, where its result
is (docs/rulings.md, R37)."""

from andon.lifecycle.commands import Cancel, Complete, Delete, Fail, Rerun
from andon.lifecycle.repeats import fingerprint
from andon.model.task import TaskError, Tombstone
from andon.model.words import State

from .kit import Kit

ERROR = TaskError(message="x")


async def test_a_task_that_lives_or_never_was_has_no_tombstone(kit: Kit) -> None:
    ended = await kit.active()
    await kit.move(ended, Complete())
    pending = await kit.submit()
    assert await kit.store.tombstones([pending.id, "absent", ended.id]) == [None] * 3


async def test_nothing_is_asked_and_nothing_told(kit: Kit) -> None:
    assert await kit.store.tombstones([]) == []


async def test_a_discarded_task_leaves_the_report_that_ended_it(kit: Kit) -> None:
    task = await kit.active(policy={"discard_states": ("completed",)})
    command = Complete(result=b"[1]")
    assert await kit.move(task, command) is None
    left = Tombstone(State.COMPLETED, task.status.run, fingerprint(command))
    assert await kit.store.tombstones([task.id]) == [left]


async def test_a_task_deleted_by_hand_leaves_the_report_that_ended_it(kit: Kit) -> None:
    task = await kit.active(policy={"max_retries": 0})
    command = Fail(error=ERROR)
    ended = await kit.moved(task, command)
    assert await kit.move(ended, Delete()) is None
    left = Tombstone(State.FAILED, task.status.run, fingerprint(command))
    assert await kit.store.tombstones(["absent", task.id]) == [None, left]


async def test_the_last_run_counts(kit: Kit) -> None:
    task = await kit.active(policy={"retry_delay": None})
    await kit.move(task, Fail(error=ERROR))
    (second,) = await kit.claim()
    ended = await kit.moved(second, Complete())
    await kit.move(ended, Delete())
    left = Tombstone(State.COMPLETED, second.status.run, fingerprint(Complete()))
    assert await kit.store.tombstones([task.id]) == [left]


async def test_what_never_ran_leaves_its_state_only(kit: Kit) -> None:
    pending = await kit.submit()
    cancelled = await kit.moved(pending, Cancel())
    await kit.move(cancelled, Delete())
    assert await kit.store.tombstones([pending.id]) == [Tombstone(State.CANCELLED)]


async def test_what_was_rerun_and_cancelled_has_no_report(kit: Kit) -> None:
    task = await kit.active()
    ended = await kit.moved(task, Complete())
    again = await kit.moved(ended, Rerun())
    cancelled = await kit.moved(again, Cancel())
    await kit.move(cancelled, Delete())
    assert await kit.store.tombstones([task.id]) == [Tombstone(State.CANCELLED)]


async def test_many_are_asked_for_at_once(kit: Kit) -> None:
    gone = [await kit.active(policy={"discard_states": ("completed",)}) for _ in range(5)]
    for task in gone:
        await kit.move(task, Complete())
    lives = await kit.submit()
    ids = [gone[0].id, lives.id, *(task.id for task in gone[1:]), "absent"]
    left = await kit.store.tombstones(ids)
    runs = [None if one is None else one.run for one in left]
    assert runs == [gone[0].status.run, None, *(t.status.run for t in gone[1:]), None]


async def test_another_process_is_told_the_same(kit: Kit) -> None:
    task = await kit.active(policy={"discard_states": ("completed",)})
    await kit.move(task, Complete())
    other = await kit.again()
    assert await other.tombstones([task.id]) == await kit.store.tombstones([task.id])


DISCARDS = {"discard_states": ("completed", "failed"), "max_retries": 0}


async def test_what_was_discarded_tells_its_end_and_its_result(kit: Kit) -> None:
    task = await kit.active(policy=DISCARDS)
    assert await kit.store.discarded([task.id]) == [None], "it lives"
    await kit.move(task, Complete(result=b"[1]"))
    [found] = await kit.store.discarded([task.id])
    assert found is not None
    end, deletion = found
    assert (end.task, end.target, deletion.task) == (task.id, State.COMPLETED, task.id)
    assert (deletion.source, deletion.target, deletion.result) == (State.COMPLETED, None, b"[1]")


async def test_what_was_discarded_tells_its_error(kit: Kit) -> None:
    task = await kit.active(policy=DISCARDS)
    await kit.move(task, Fail(error=ERROR))
    [found] = await kit.store.discarded([task.id])
    assert found is not None
    assert (found[0].target, found[0].error) == (State.FAILED, ERROR)


async def test_many_discarded_in_one_call_are_told_apart(kit: Kit) -> None:
    before = await kit.active(policy=DISCARDS)
    await kit.move(before, Complete(result=b"before"))
    tasks = [await kit.active(policy=DISCARDS) for _ in range(6)]
    kept = await kit.active()
    changes = [kit.change(task, Complete(result=task.id.encode())) for task in [*tasks, kept]]
    await kit.store.commit(changes)
    other = await kit.again()
    ids = ["absent", *(task.id for task in tasks), kept.id, before.id]
    found = await other.discarded(ids)
    results = [None if one is None else one[1].result for one in found]
    assert results == [None, *(task.id.encode() for task in tasks), None, b"before"]
    assert await other.discarded([]) == []


async def test_what_was_deleted_after_its_end_was_not_discarded(kit: Kit) -> None:
    task = await kit.active()
    ended = await kit.moved(task, Complete(result=b"[1]"))
    await kit.move(ended, Delete())
    assert await kit.store.discarded([task.id]) == [None]


async def test_the_place_of_a_result_is_found_also_in_a_log_that_was_trimmed(kit: Kit) -> None:
    store = await kit.replace(max_events=64)
    tasks = [await kit.active(policy=DISCARDS) for _ in range(30)]
    for n, task in enumerate(tasks):
        await kit.move(task, Complete(result=b"%d" % n))
    await store.trim(1_000)
    [found] = await store.discarded([tasks[-1].id])
    assert found is not None
    assert found[1].result == b"29"
