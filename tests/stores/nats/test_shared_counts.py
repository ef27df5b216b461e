"""NATS counts the dependencies that are settled in one call by one message, and does not write the
edges through which a large join loads results."""

from collections.abc import Sequence

import pytest
from conformance.kit import Kit

from andon.contract.edges import Link, Settlement
from andon.contract.outcomes import ChangeKind
from andon.lifecycle.commands import Cancel, Complete, Delete, Rerun, Unblock
from andon.model.task import Task
from andon.model.words import State
from andon.stores.nats import NatsStore
from andon.stores.nats.jetstream import JetStream, Write
from andon.stores.nats.record_cache import RecordCache
from stores.nats.counting import Traffic

MANY = 30
"""More than the dependencies of which each tells by itself."""


async def loading(kit: Kit, *, discard: bool = False) -> tuple[Task, list[Task]]:
    """A task that waits for many and loads their results; they have completed without notifying
    it."""
    policy = {"discard_states": ("completed",)} if discard else {}
    parents = await kit.submit_many(MANY, policy=policy)
    ids = tuple(parent.id for parent in parents)
    child = await kit.submit(dependencies=ids, load_dependencies=True)
    assert await kit.store.link([Link(child.id, ids, loads=True)]) == []
    active = await kit.claim(MANY)
    await kit.store.commit([kit.change(task, Complete(result=b"1")) for task in active])
    return child, [await kit.there(parent.id) for parent in parents]


async def tell(kit: Kit, child: Task, parents: Sequence[Task]) -> list[int]:
    told = [Settlement(child.id, parent.id, True) for parent in parents]
    return await kit.store.settle(told)


def records_of(kit: Kit) -> RecordCache:
    assert isinstance(kit.store, NatsStore)
    [records] = kit.store._open.records  # pyright: ignore[reportPrivateUsage]
    return records


async def settled(kit: Kit, parents: Sequence[Task]) -> list[bool]:
    return [edge.settled for p in parents for edge in await kit.store.dependents(p.id)]


async def unsettled(kit: Kit) -> set[str]:
    return {task_id for task_id, _ in await kit.store.take_unsettled(100)}


async def test_those_that_a_join_is_told_together_are_one_message(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, parents = await loading(kit)
    await kit.store.dependents_of_each([(parent.id, "") for parent in parents], 20)
    traffic = Traffic(monkeypatch)
    assert await tell(kit, child, parents[:20]) == [*range(MANY - 1, MANY - 21, -1)]
    assert traffic.taken()[0] == 1
    assert await settled(kit, parents) == [True] * 20 + [False] * 10
    assert await tell(kit, child, parents[:20]) == [10] * 20, "they are counted once"
    assert (await tell(kit, child, parents[20:]))[-1] == 0
    assert await settled(kit, parents) == [True] * MANY


async def test_another_process_knows_what_is_counted(kit: Kit) -> None:
    child, parents = await loading(kit)
    await tell(kit, child, parents[:20])
    other = await kit.again()
    [found] = await other.dependents(parents[0].id)
    assert found.settled
    told = [Settlement(child.id, parent.id, True) for parent in parents[15:]]
    assert await other.settle(told) == [10] * 5 + [*range(9, -1, -1)]
    assert await tell(kit, child, parents[:1]) == [0]


async def test_ends_that_are_counted_need_no_mark_any_more(kit: Kit) -> None:
    child, parents = await loading(kit)
    assert await unsettled(kit) == {parent.id for parent in parents}
    await tell(kit, child, parents[:20])
    assert await unsettled(kit) == {parent.id for parent in parents[20:]}
    await tell(kit, child, parents[20:])
    assert await unsettled(kit) == set()
    records = records_of(kit)
    marks = await records.read_all([records.subjects.of("x", ">")])
    assert [msg for msg in marks if msg.data] == []


async def test_a_count_that_was_not_written_leaves_the_ends_to_be_told_anew(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, parents = await loading(kit)

    async def broken(*_: object, **__: object) -> list[int]:
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(JetStream, "write", broken)
        with pytest.raises(ConnectionResetError):
            await tell(kit, child, parents[:20])
    assert await unsettled(kit) == {parent.id for parent in parents}
    assert (await tell(kit, child, parents))[-1] == 0


async def test_a_child_that_waits_no_longer_needs_to_be_told_nothing(kit: Kit) -> None:
    child, parents = await loading(kit)
    await tell(kit, child, parents[:20])
    await (await kit.again()).commit([kit.change(child, Unblock())])
    assert await tell(kit, child, parents[15:25]) == [0] * 10
    assert await unsettled(kit) == set()
    assert await settled(kit, parents) == [True] * MANY


async def test_a_result_is_kept_until_the_join_has_ended(kit: Kit) -> None:
    child, parents = await loading(kit)
    await tell(kit, child, parents)
    assert (await kit.try_move(parents[0], Delete())).kind is ChangeKind.CONFLICT
    await kit.move(await kit.there(child.id), Cancel())
    assert (await kit.try_move(parents[0], Delete())).kind is ChangeKind.APPLIED


async def test_a_deletion_put_off_for_a_join_is_due_again_when_it_lets_go(kit: Kit) -> None:
    child, parents = await loading(kit, discard=True)
    await tell(kit, child, parents)
    await kit.due(parents[0].id, hold_ms=3_600_000)
    await kit.store.rearm([(parents[0].id, kit.store.now() + 3_600_000)])
    await kit.store.release_edges([(parents[0].id, child.id)])
    await kit.due(parents[0].id)


async def test_what_a_join_lets_go_before_it_ends_is_not_read(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = await kit.submit_many(MANY)
    ids = tuple(parent.id for parent in parents)
    child = await kit.submit(dependencies=ids, load_dependencies=True)
    await kit.store.link([Link(child.id, ids, loads=True)])
    await kit.move(await kit.there(child.id), Cancel())
    traffic = Traffic(monkeypatch)
    await kit.store.release_edges([(parent, child.id) for parent in ids])
    written, read, _ = traffic.taken()
    assert (written, read) == (MANY, MANY), "the edges, and none of their parents' records"


async def test_a_dependency_that_is_run_again_has_satisfied_for_good(kit: Kit) -> None:
    child, parents = await loading(kit)
    await tell(kit, child, parents[:20])
    again = await kit.moved(parents[0], Rerun())
    [end] = await kit.store.link([Link(child.id, (again.id,), loads=True)])
    assert end.state is State.COMPLETED
    [active] = await kit.claim()
    assert active.id == again.id
    await kit.moved(active, Complete(result=b"2"))
    assert again.id not in await unsettled(kit)
    assert (await tell(kit, child, [again, *parents[20:]]))[-1] == 0


async def test_what_is_no_count_is_left_out(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    child, parents = await loading(kit)
    records = records_of(kit)
    foreign: list[Write] = [
        (records.subjects.of("f", child.id, "g", "foreign"), b"\xc1", None),
        (records.subjects.of("f", child.id, "g", "other", "foreign"), b"\x91\xa1x", None),
        (records.subjects.of("f", child.id, "foreign"), b"\x91\xa1x", None),
    ]
    await records.js.write(records.subjects.stream, foreign)
    assert (await tell(kit, child, parents[:20]))[-1] == MANY - 20
    assert "A count of dependencies" in caplog.text
    assert (await tell(kit, child, parents[20:]))[-1] == 0


async def test_counts_of_an_older_release_are_counted(kit: Kit) -> None:
    child, parents = await loading(kit)
    records = records_of(kit)
    single = [(records.subjects.of("f", child.id, p.id), b"1", None) for p in parents[:5]]
    await records.js.write(records.subjects.stream, single)
    assert await tell(kit, child, parents[3:7]) == [25, 25, 24, 23]
    assert (await tell(kit, child, parents))[-1] == 0


async def test_failures_are_counted_by_themselves_beside_what_satisfies(kit: Kit) -> None:
    parents = await kit.submit_many(MANY)
    ids = tuple(parent.id for parent in parents)
    child = await kit.submit(dependencies=ids, needs=20)
    assert await kit.store.link([Link(child.id, ids)]) == []
    failing = [Settlement(child.id, parent.id, False) for parent in parents[:4]]
    assert await kit.store.settle(failing) == [9, 8, 7, 6]
    # two of them were run again, and have completed
    later = [Settlement(child.id, parent.id, True) for parent in parents[2:12]]
    assert await (await kit.again()).settle(later) == [*range(19, 9, -1)]
    more = [Settlement(child.id, parent.id, False) for parent in (parents[2], *parents[12:14])]
    assert await kit.store.settle(more) == [8, 7, 6]
