"""Marks of ends on NATS: one for ends that are written together, as long as it is needed."""

from collections.abc import Sequence

import pytest
from conformance.kit import Kit

from andon.contract.edges import Link, Settlement
from andon.contract.outcomes import ChangeKind
from andon.lifecycle.commands import Complete, Fail
from andon.model.task import Task, TaskError
from andon.model.words import State
from andon.stores.nats import NatsStore, end_marks
from andon.stores.nats.jetstream import subject_of
from andon.stores.nats.record_cache import RecordCache
from stores.nats.counting import Traffic


async def family(kit: Kit, count: int) -> tuple[Task, list[Task]]:
    """A task that waits for so many, and these, active."""
    parents = await kit.submit_many(count)
    child = await kit.submit(dependencies=tuple(parent.id for parent in parents))
    assert await kit.store.link([Link(child.id, child.definition.dependencies)]) == []
    return child, await kit.claim(count)


async def end(kit: Kit, tasks: Sequence[Task]) -> list[ChangeKind]:
    return [one.kind for one in await kit.store.commit([kit.change(t, Complete()) for t in tasks])]


async def tell(kit: Kit, child: Task, parents: Sequence[Task]) -> None:
    await kit.store.settle([Settlement(child.id, parent.id, True) for parent in parents])


def records_of(kit: Kit) -> RecordCache:
    assert isinstance(kit.store, NatsStore)
    [records] = kit.store._open.records  # pyright: ignore[reportPrivateUsage]
    return records


async def marks(kit: Kit) -> list[str]:
    """The subjects of the marks, without what stands before."""
    records = records_of(kit)
    found = await records.read_all([records.subjects.of("x", ">")])
    root = records.subjects.of("x", "")
    return [subject_of(msg).removeprefix(root) for msg in found if msg.data]


async def unsettled(kit: Kit) -> set[str]:
    found = await kit.store.take_unsettled(100)
    assert all(state is State.COMPLETED for _, state in found)
    return {task_id for task_id, _ in found}


async def test_ends_that_are_written_together_share_one_mark(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, parents = await family(kit, 60)
    traffic = Traffic(monkeypatch)
    assert set(await end(kit, parents)) == {ChangeKind.APPLIED}
    assert traffic.taken()[0] <= 60 + 2, "the records, their mark, and the timer of all"
    assert len(await marks(kit)) == 1
    assert await unsettled(kit) == {task.id for task in parents}


async def test_a_mark_names_only_those_whose_dependents_do_not_know_yet(kit: Kit) -> None:
    child, parents = await family(kit, 6)
    await end(kit, parents)
    await tell(kit, child, parents[:4])
    for _ in range(2):
        assert await unsettled(kit) == {task.id for task in parents[4:]}
        assert len(await marks(kit)) == 1
    await tell(kit, child, parents[4:])
    assert await unsettled(kit) == set()
    assert await marks(kit) == []


@pytest.mark.parametrize("bad", [0, 2, 4])
async def test_an_end_that_was_not_written_keeps_its_mark_and_delays_no_other(
    kit: Kit, bad: int
) -> None:
    child, parents = await family(kit, 5)
    # Another process has moved this one meanwhile: its end is refused.
    other = await kit.again()
    retried = kit.change(parents[bad], Fail(error=TaskError(message="no"), retryable=True))
    assert (await other.commit([retried]))[0].kind is ChangeKind.APPLIED
    kinds = await end(kit, parents)
    assert kinds.pop(bad) is ChangeKind.CONFLICT
    assert set(kinds) == {ChangeKind.APPLIED}
    others = [task for task in parents if task is not parents[bad]]
    assert await unsettled(kit) == {task.id for task in others}
    await tell(kit, child, others)
    assert await unsettled(kit) == set()
    assert len(await marks(kit)) == 1


async def test_tasks_that_have_not_ended_stand_before_no_other_mark(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process marked three ends and died before it wrote them; the tasks go on for days."""
    _, parents = await family(kit, 5)
    records = records_of(kit)
    early = end_marks.end_marks(records.subjects, [task.id for task in parents[:3]])
    await records.js.write(records.subjects.stream, early)
    await end(kit, parents[3:])
    assert await kit.store.take_unsettled(3) == []
    assert len(await marks(kit)) == 2, "their ends may be about to be written"
    monkeypatch.setattr(end_marks, "OBSOLETE_MS", 0)
    assert await kit.store.take_unsettled(3) == []
    found = await kit.store.take_unsettled(3)
    assert {task_id for task_id, _ in found} == {task.id for task in parents[3:]}
    assert len(await marks(kit)) == 1


@pytest.mark.parametrize("late", [False, True])
async def test_what_is_no_mark_is_deleted_and_delays_none(kit: Kit, late: bool) -> None:
    _, parents = await family(kit, 3)
    records = records_of(kit)
    junk = [(records.subjects.of("x", "g", f"junk{n}"), body, None) for n, body in enumerate(JUNK)]
    if late:
        await end(kit, parents)
    await records.js.write(records.subjects.stream, junk)
    if not late:
        await end(kit, parents)
    for _ in range(2):
        assert await unsettled(kit) == {task.id for task in parents}
        assert len(await marks(kit)) == 1


JUNK = (b"\xff", b"1", b"\x91\x01")
"""No MessagePack, no list, and a list of no names."""


async def test_marks_of_an_older_release_are_found(kit: Kit) -> None:
    """It wrote one for each end."""
    child, parents = await family(kit, 3)
    await end(kit, parents[:1])
    records = records_of(kit)
    subjects = records.subjects
    await end(kit, parents[1:])
    [shared] = [mark for mark in await marks(kit) if mark.startswith("g.")]
    await records.purge(subjects.of("x", shared))
    old = [(subjects.of("x", task.id), b"1", None) for task in parents[1:]]
    await records.js.write(subjects.stream, old)
    assert await unsettled(kit) == {task.id for task in parents}
    await tell(kit, child, parents)
    assert await unsettled(kit) == set()
    assert await marks(kit) == []


async def test_marks_beyond_the_first_page_are_found(kit: Kit) -> None:
    _, parents = await family(kit, 60)
    for task in parents:
        await end(kit, [task])
    assert len(await marks(kit)) == 60
    assert await unsettled(kit) == {task.id for task in parents}
    assert len(await kit.store.take_unsettled(55)) == 55
