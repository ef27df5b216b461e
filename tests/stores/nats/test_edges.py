"""What it costs to link tasks, and to tell their ends: as much as what is told, however much there
is beside."""

from collections.abc import Sequence
from typing import Any

import pytest
from conformance.kit import Kit

from andon.contract.edges import Edge, Link, Settlement
from andon.contract.limits import in_batches
from andon.contract.outcomes import ChangeKind
from andon.contract.store import Store
from andon.lifecycle.commands import Complete, Unblock
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.nats import NatsStore, counts
from andon.stores.nats.ended_tasks import EndedTasks
from andon.stores.nats.known_edges import KnownEdge, KnownEdges
from stores.nats.counting import Traffic

LARGE = b'"' + b"x" * 100_000 + b'"'
"""As large as what names thousands of dependencies."""


async def settle(store: Store, child: Task, parents: Sequence[Task]) -> list[int]:
    return await store.settle([Settlement(child.id, parent.id, True) for parent in parents])


async def joined(kit: Kit, count: int, **fields: Any) -> tuple[Task, list[Task]]:
    """A task that waits for so many, and these."""
    parents = await kit.submit_many(count)
    child = await kit.submit(dependencies=tuple(parent.id for parent in parents), **fields)
    assert await kit.store.link([Link(child.id, child.definition.dependencies)]) == []
    return child, parents


async def joined_to_ended(kit: Kit, count: int) -> tuple[Task, list[Task]]:
    """A blocked child and its parents, which have completed without notifying it yet."""
    child, _ = await joined(kit, count)
    parents = await kit.claim(count)
    await kit.store.commit([kit.change(task, Complete()) for task in parents])
    return child, parents


async def counted(store: Store, child: Task) -> int:
    """How many messages count what a child waits for."""
    assert isinstance(store, NatsStore)
    [records] = store._open.records  # pyright: ignore[reportPrivateUsage]
    found = await records.last([records.subjects.of("f", child.id, ">")])
    return sum(1 for msg in found if msg.data)


async def test_settling_some_edges_reads_nothing_of_the_others(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await kit.active()
    children = await kit.submit_many(150, dependencies=(parent.id,))
    assert await kit.store.link([Link(child.id, (parent.id,)) for child in children]) == []
    await kit.moved(parent, Complete())
    traffic = Traffic(monkeypatch)
    told = [Settlement(child.id, parent.id, True) for child in children[:20]]
    assert await kit.store.settle(told) == [0] * 20
    _, read, requests = traffic.taken()
    assert read <= 3 * 20  # an edge and a record of each, and the parent
    assert requests <= 6


async def test_linking_children_together_takes_few_requests(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await kit.active()
    children = await kit.submit_many(100, dependencies=(parent.id,))
    traffic = Traffic(monkeypatch)
    assert await kit.store.link([Link(child.id, (parent.id,)) for child in children]) == []
    assert traffic.taken()[2] <= 6


async def test_linking_a_task_to_many_takes_few_requests(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parents = await kit.submit_many(150)
    child = await kit.submit(dependencies=tuple(parent.id for parent in parents))
    traffic = Traffic(monkeypatch)
    link = Link(child.id, child.definition.dependencies, loads=True)
    assert await kit.store.link([link]) == []
    assert traffic.taken()[2] <= 8
    assert await kit.store.link([link]) == []
    written, _, requests = traffic.taken()
    assert (written, requests <= 8) == (0, True), "all of it is there"


async def test_a_join_is_told_one_more_at_the_same_cost_however_many_were_counted(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, parents = await joined(kit, 200)
    assert await settle(kit.store, child, parents[:1]) == [199]
    traffic = Traffic(monkeypatch)
    assert await settle(kit.store, child, parents[1:2]) == [198]
    early = traffic.taken()
    assert await settle(kit.store, child, parents[2:190]) == [*range(197, 9, -1)]
    traffic.taken()
    assert await settle(kit.store, child, parents[190:191]) == [9]
    assert traffic.taken() == early
    assert await settle(kit.store, child, parents[:100]) == [9] * 100
    written, read, _ = traffic.taken()
    assert written <= 1, "what is counted is not counted again"
    assert read <= 102, "the edges, and what says that all of it is still so"


async def test_of_those_that_tell_a_join_in_turns_the_last_sees_the_end(kit: Kit) -> None:
    child, parents = await joined(kit, 60)
    stores = [kit.store, await kit.again(), await kit.again()]
    left = 60
    for turn in range(0, 60, 5):
        told = parents[turn : turn + 5]
        assert await settle(stores[turn // 5 % 3], child, told) == [*range(left - 1, left - 6, -1)]
        left -= 5
    assert left == 0


async def test_what_was_remembered_of_a_join_that_moved_meanwhile_counts_for_nothing(
    kit: Kit,
) -> None:
    child, parents = await joined(kit, 60)
    assert await settle(kit.store, child, parents[:10]) == [*range(59, 49, -1)]
    other = await kit.again()
    assert await other.commit([kit.change(child, Unblock())])
    assert await settle(kit.store, child, parents[10:12]) == [0, 0], "it waits no longer"
    assert await settle(kit.store, child, parents[:1]) == [0]

    async def none() -> bool:
        return await counted(kit.store, child) == 0

    await kit.until(none)


async def test_a_failure_counts_nothing_that_another_process_has_seen_satisfied(kit: Kit) -> None:
    child, parents = await joined(kit, 60, needs=30)
    assert await settle(kit.store, child, parents[:1]) == [29]
    other = await kit.again()
    assert await settle(other, child, parents[1:2]) == [28]
    # It was rerun meanwhile, and has failed.
    failed = [Settlement(child.id, parents[1].id, False)]
    assert await kit.store.settle(failed) == [30], "it has satisfied for good"
    assert await settle(other, child, parents[2:3]) == [27]


async def test_tasks_that_wait_no_longer_leave_no_counts_behind(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await kit.active()
    children = await kit.submit_many(100, dependencies=(parent.id,))
    join, parents = await joined(kit, 150)
    await kit.store.link([Link(child.id, (parent.id,)) for child in children])
    told = [Settlement(child.id, parent.id, True) for child in children]
    assert await kit.store.settle(told) == [0] * 100
    assert (await settle(kit.store, join, parents))[-1] == 0
    traffic = Traffic(monkeypatch)
    changed = await kit.store.commit([kit.change(task, Unblock()) for task in (*children, join)])
    assert len(changed) == 101

    async def none() -> bool:
        left = [await counted(kit.store, task) for task in (children[0], children[-1], join)]
        return left == [0, 0, 0]

    await kit.until(none)
    written, _, _ = traffic.taken()
    assert written <= 101 + 100 + 10, "a record each, a count each, and what is set for all"


async def test_ends_of_many_tasks_with_dependents_take_few_requests(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, parents = await joined(kit, 100)
    active = await kit.claim(100)
    assert len(active) == len(parents)
    traffic = Traffic(monkeypatch)
    changed = await kit.store.commit([kit.change(task, Complete()) for task in active])
    assert all(one.has_dependents for one in changed)
    assert traffic.taken()[2] <= 10


async def test_pages_of_the_dependents_of_one_task_cost_what_they_hold(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await kit.active()
    children = await kit.submit_many(200, dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,)) for child in children])
    wanted = sorted(child.id for child in children)
    first = await kit.store.dependents(parent.id, "", 20)
    traffic = Traffic(monkeypatch)
    second = await kit.store.dependents(parent.id, first[-1].child, 30)
    assert [edge.child for edge in (*first, *second)] == wanted[:50]
    assert traffic.taken()[1] <= 31, "the page, and the parent's record"


async def test_an_edge_that_is_added_between_two_pages_is_on_the_second(kit: Kit) -> None:
    parent = await kit.active()
    children = await kit.submit_many(40, dependencies=(parent.id,))
    *linked, late = sorted(children, key=lambda child: child.id)
    await kit.store.link([Link(child.id, (parent.id,)) for child in linked])
    first = await kit.store.dependents(parent.id, "", 10)
    await kit.store.unlink([(parent.id, linked[20].id)])
    await (await kit.again()).link([Link(late.id, (parent.id,))])
    rest = await kit.store.dependents(parent.id, first[-1].child, 100)
    wanted = [child.id for child in (*linked[10:20], *linked[21:], late)]
    assert [edge.child for edge in rest] == wanted


async def test_fan_outs_that_were_cut_short_are_looked_through_together(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, active = await joined_to_ended(kit, 60)
    await kit.store.settle([Settlement(child.id, task.id, True) for task in active[:30]])
    traffic = Traffic(monkeypatch)
    found = await kit.store.take_unsettled(100)
    assert sorted(found) == sorted((task.id, State.COMPLETED) for task in active[30:])
    assert traffic.taken()[2] <= 6


async def family(
    kit: Kit, count: int, *, loads: bool = False, needs: int | None = None
) -> tuple[Task, list[Task]]:
    """An active parent and so many children that are linked."""
    parent = await kit.active()
    dependencies = (parent.id, "gone") if needs else (parent.id,)
    children = await kit.submit_many(
        count, dependencies=dependencies, needs=needs, policy={"on_missing_parent": "unreachable"}
    )
    await kit.store.link([Link(child.id, (parent.id,), loads) for child in children])
    return parent, children


async def test_who_tells_an_end_reads_each_edge_once(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, children = await family(kit, 60)
    await kit.moved(parent, Complete())
    traffic = Traffic(monkeypatch)
    [edges] = await kit.store.dependents_of_each([(parent.id, "")], 200)
    assert (len(edges), traffic.taken()[1]) == (60, 60)
    told = [Settlement(child.id, parent.id, False) for child in children]
    assert await kit.store.settle(told) == [-1] * 60
    written, read, requests = traffic.taken()
    assert (written, read, requests) == (60, 0, 1), "no edge, no child, no parent"
    await kit.store.release_edges([(parent.id, child.id) for child in children])
    assert traffic.taken()[:2] == (0, 0), "they were told just now"


async def test_an_edge_that_another_process_has_written_meanwhile_is_read_anew(kit: Kit) -> None:
    parent, children = await family(kit, 3, loads=True)
    await kit.moved(parent, Complete())
    await kit.store.dependents_of_each([(parent.id, "")], 200)
    other = await kit.again()
    await other.release_edges([(parent.id, children[0].id)])
    await other.unlink([(parent.id, children[1].id)])
    told = [Settlement(child.id, parent.id, True) for child in children]
    assert await kit.store.settle(told) == [0, 0, 0]
    edges = {e.child: (e.loads, e.settled) for e in await other.dependents(parent.id)}
    assert edges == {children[0].id: (False, True), children[2].id: (True, True)}


async def test_who_has_written_an_end_knows_whom_to_tell(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, parents = await joined_to_ended(kit, 100)
    traffic = Traffic(monkeypatch)
    asked = [(parent.id, "") for parent in parents]
    pages = await kit.store.dependents_of_each(asked, 20)
    assert [len(page) for page in pages] == [1] * 100
    assert traffic.taken()[2] == 0
    assert await kit.store.dependents_of_each(asked, 20) == pages
    assert traffic.taken()[1] == 100, "known once only"


async def test_an_edge_that_was_added_to_an_end_is_seen(kit: Kit) -> None:
    child, (parent,) = await joined(kit, 1)
    (active,) = await kit.claim()
    await kit.moved(active, Complete())
    late = await kit.submit(dependencies=(parent.id,))
    [end] = await kit.store.link([Link(late.id, (parent.id,))])
    assert end.state is State.COMPLETED
    [page] = await kit.store.dependents_of_each([(parent.id, "")], 20)
    assert {edge.child for edge in page} == {child.id, late.id}


async def test_a_failure_told_to_a_child_that_can_do_without_it_is_counted(kit: Kit) -> None:
    parent, (child,) = await family(kit, 1, needs=1)
    await kit.store.dependents_of_each([(parent.id, "")], 20)
    assert await kit.store.settle([Settlement(child.id, parent.id, False)]) == [0]
    assert await counted(kit.store, child) == 1


async def test_an_edge_of_an_older_release_is_told_by_the_childs_record(kit: Kit) -> None:
    parent, (needy, other) = await family(kit, 2)
    assert isinstance(kit.store, NatsStore)
    [records] = kit.store._open.records  # pyright: ignore[reportPrivateUsage]
    old = encode((False, False, False))  # it says less
    subject = records.subjects.of("e", parent.id, needy.id)
    await records.js.write(records.subjects.stream, [(subject, old, None)])
    told = [Settlement(child.id, parent.id, False) for child in (needy, other)]
    assert await (await kit.again()).settle(told) == [-1, -1]
    assert all(edge.settled for edge in await kit.store.dependents(parent.id))


async def test_many_told_to_one_that_waits_no_longer_read_it_once(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, parents = await joined(kit, 60)
    await kit.moved(child, Unblock())
    assert await settle(kit.store, child, parents[:1]) == [0]
    await kit.store.dependents_of_each([(parent.id, "") for parent in parents[1:]], 20)
    traffic = Traffic(monkeypatch)
    assert await settle(kit.store, child, parents[1:]) == [0] * 59
    assert traffic.taken()[1] == 0 + 59, "whether the parents were to be deleted"
    await kit.store.link([Link(child.id, ())])
    traffic.taken()
    await settle(kit.store, child, parents[1:2])
    assert traffic.taken()[1] >= 1, "it may wait again"


async def test_what_was_counted_of_a_join_of_many_is_not_read_to_be_taken_away(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, parents = await joined(kit, 150)
    assert (await settle(kit.store, join, parents))[-1] == 0
    traffic = Traffic(monkeypatch)
    await kit.store.commit([kit.change(join, Unblock())])
    assert isinstance(kit.store, NatsStore)
    await kit.store._open.finish_background()  # pyright: ignore[reportPrivateUsage]
    assert traffic.taken()[1] <= 1
    assert await counted(kit.store, join) == 0


async def test_a_large_join_that_was_read_is_released_and_ended_without_being_read_again(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    join, parents = await joined(kit, 60, args=LARGE)
    assert (await settle(kit.store, join, parents))[-1] == 0
    join = await kit.there(join.id)
    traffic = Traffic(monkeypatch)
    await kit.commit(kit.change(join, Unblock()))
    assert traffic.taken()[1] == 0
    [claimed] = [task for task in await kit.claim(61) if task.id == join.id]
    traffic.taken()
    await kit.commit(kit.change(claimed, Complete()))
    assert traffic.taken()[1] == 0
    assert await kit.state(join.id) is State.COMPLETED


async def test_a_large_join_that_another_process_has_moved_is_read_again(kit: Kit) -> None:
    join, _ = await joined(kit, 60, args=LARGE)
    join = await kit.there(join.id)
    await (await kit.again()).commit([kit.change(join, Unblock())])
    changed = await kit.commit(kit.change(join, Unblock()))
    assert (changed.kind, changed.current) == (ChangeKind.CONFLICT, await kit.there(join.id))


@pytest.mark.slow
async def test_counts_of_many_are_not_purged_before_the_task_can_be_claimed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "LATER_S", 2.0)
    join, parents = await joined(kit, 150)
    assert (await settle(kit.store, join, parents))[-1] == 0
    await kit.moved(join, Unblock())
    assert join.id in {task.id for task in await kit.claim(151)}
    assert await counted(kit.store, join) > 0, "the server is not to be busy with it now"

    async def none() -> bool:
        return await counted(kit.store, join) == 0

    await kit.until(none)


async def test_a_fan_out_of_thousands_that_was_cut_short_is_found_by_its_first_edges(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, children = await family(kit, 1_100)
    await kit.moved(parent, Complete())
    await kit.store.settle([Settlement(c.id, parent.id, True) for c in children[:200]])
    traffic = Traffic(monkeypatch)
    assert await kit.store.take_unsettled(100) == [(parent.id, State.COMPLETED)]
    assert traffic.taken()[1] <= 200
    for some in in_batches(children[200:], 200):
        await kit.store.settle([Settlement(c.id, parent.id, True) for c in some])
    assert await kit.store.take_unsettled(100) == []


async def test_what_is_known_of_ends_and_edges_is_bounded() -> None:
    ended, known = EndedTasks(), KnownEdges()
    for number in range(12_000):
        edge = KnownEdge(Edge("p", str(number), False, False, False), number)
        known.note(edge)
        ended.note(str(number), None, [edge])
    assert known.get(("p", "0")) is None
    assert known.get(("p", "11999")) is not None
    assert ended.may_be_over("0", 1)
    assert not ended.may_be_over("11999", 1)
    assert len(ended.take_edges("11999", 20)) == 1
    assert len(ended.take_edges("11999", 20)) == 0
