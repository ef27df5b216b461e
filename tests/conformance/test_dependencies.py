"""Dependencies: edges that a parent's end finds, or a link that finds the end."""

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.outcomes import ChangeKind
from andon.lifecycle.commands import Cancel, Complete, Delete, Fail, Rerun, Schedule, Unblock
from andon.model.task import Task, TaskError
from andon.model.words import State

from .kit import Kit


async def family(kit: Kit, *, loads: bool = False) -> tuple[Task, Task]:
    """A running parent, and a child that waits for it."""
    parent = await kit.active()
    child = await kit.submit(dependencies=(parent.id,), load_dependencies=loads)
    assert await kit.store.link([Link(child.id, (parent.id,), loads)]) == []
    return parent, child


async def settle(kit: Kit, child: Task, parent: Task, *, satisfied: bool = True) -> int:
    (remaining,) = await kit.store.settle([Settlement(child.id, parent.id, satisfied)])
    return remaining


async def test_a_link_to_a_living_parent_is_an_edge(kit: Kit) -> None:
    parent, child = await family(kit)
    edge = Edge(parent.id, child.id, loads=False, any_end=False, settled=False)
    assert await kit.store.dependents(parent.id) == [edge]


async def test_linking_again_changes_nothing(kit: Kit) -> None:
    parent, child = await family(kit)
    before = await kit.store.dependents(parent.id)
    assert await kit.store.link([Link(child.id, (parent.id,))]) == []
    assert await kit.store.dependents(parent.id) == before


async def test_an_edge_remembers_how_the_child_depends(kit: Kit) -> None:
    parent = await kit.active()
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,), loads=True, any_end=True)])
    (edge,) = await kit.store.dependents(parent.id)
    assert (edge.loads, edge.any_end) == (True, True)


async def test_a_link_reports_a_parent_that_has_ended(kit: Kit) -> None:
    parent = await kit.moved(await kit.active(), Complete())
    child = await kit.submit(dependencies=(parent.id,))
    ended = await kit.store.link([Link(child.id, (parent.id,), any_end=True)])
    assert ended == [Ended(child.id, parent.id, State.COMPLETED, any_end=True)]


async def test_a_link_reports_a_parent_that_does_not_exist(kit: Kit) -> None:
    child = await kit.submit(dependencies=("absent",))
    ended = await kit.store.link([Link(child.id, ("absent",))])
    assert ended == [Ended(child.id, "absent", None, any_end=False)]


async def test_a_link_reports_the_end_of_a_parent_that_was_discarded(kit: Kit) -> None:
    parent = await kit.active(policy={"discard_states": ("completed",)})
    child = await kit.submit(dependencies=(parent.id,))
    await kit.move(parent, Complete())
    (ended,) = await kit.store.link([Link(child.id, (parent.id,))])
    assert ended.state is State.COMPLETED


async def test_a_parent_that_was_discarded_gets_no_edge(kit: Kit) -> None:
    parent = await kit.active(policy={"discard_states": ("failed",), "max_retries": 0})
    child = await kit.submit(dependencies=(parent.id,), load_dependencies=True)
    await kit.move(parent, Fail(error=TaskError(message="no")))
    (ended,) = await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    assert ended.state is State.FAILED
    assert await kit.store.dependents(parent.id) == []


async def test_the_end_of_a_parent_tells_that_it_has_dependents(kit: Kit) -> None:
    parent, _ = await family(kit)
    change = kit.change(parent, Complete())
    assert (await kit.commit(change)).has_dependents
    assert (await kit.commit(change)).has_dependents, "also when it is repeated"


async def test_a_move_that_is_no_end_has_no_dependents_to_tell(kit: Kit) -> None:
    parent = await kit.active(policy={"retry_delay": 60.0})
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    changed = await kit.try_move(parent, Fail(error=TaskError(message="no")))
    assert not changed.has_dependents


async def test_each_satisfied_dependency_counts_once(kit: Kit) -> None:
    parents = [await kit.active() for _ in range(3)]
    child = await kit.submit(dependencies=tuple(p.id for p in parents))
    await kit.store.link([Link(child.id, child.definition.dependencies)])
    remaining = [await settle(kit, child, p) for p in (parents[0], parents[0], parents[1])]
    assert remaining == [2, 2, 1]
    assert await settle(kit, child, parents[2]) == 0


async def test_settlements_of_one_batch_count_one_after_the_other(kit: Kit) -> None:
    parents = [await kit.active() for _ in range(3)]
    child = await kit.submit(dependencies=tuple(p.id for p in parents))
    await kit.store.link([Link(child.id, child.definition.dependencies)])
    settlements = [Settlement(child.id, p.id, satisfied=True) for p in parents]
    assert await kit.store.settle(settlements) == [2, 1, 0]


async def test_a_parent_that_ended_before_the_link_is_counted_too(kit: Kit) -> None:
    parent = await kit.moved(await kit.active(), Complete())
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    assert await settle(kit, child, parent) == 0


async def test_a_failed_dependency_is_told_but_not_counted(kit: Kit) -> None:
    parent, child = await family(kit)
    await kit.move(parent, Complete())
    assert await settle(kit, child, parent, satisfied=False) == -1
    (edge,) = await kit.store.dependents(parent.id)
    assert edge.settled


async def test_a_rerun_of_a_failed_dependency_can_still_satisfy(kit: Kit) -> None:
    parent, child = await family(kit)
    ended = await kit.moved(parent, Fail(error=TaskError(message="no"), retryable=False))
    assert await settle(kit, child, parent, satisfied=False) == -1
    await kit.move(ended, Rerun())
    (second,) = await kit.claim()
    assert (await kit.try_move(second, Complete())).has_dependents
    assert await settle(kit, child, parent) == 0


async def test_a_rerun_can_satisfy_a_child_that_came_after_the_failure(kit: Kit) -> None:
    failed = Fail(error=TaskError(message="no"), retryable=False)
    parent = await kit.moved(await kit.active(), failed)
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    assert await settle(kit, child, parent, satisfied=False) == -1
    assert await kit.store.take_unsettled(10) == []
    await kit.move(parent, Rerun())
    (second,) = await kit.claim()
    assert (await kit.try_move(second, Complete())).has_dependents
    (edge,) = await kit.store.dependents(parent.id)
    assert edge.child == child.id
    assert await settle(kit, child, parent) == 0


async def test_what_satisfied_a_child_is_reported_when_it_asks_again(kit: Kit) -> None:
    parent, child = await family(kit)
    ended = await kit.moved(parent, Complete())
    await settle(kit, child, parent)
    await kit.move(ended, Rerun())
    (told,) = await kit.store.link([Link(child.id, (parent.id,))])
    assert told.state is State.COMPLETED
    assert await settle(kit, child, parent) == 0


async def test_what_satisfied_a_child_does_so_for_good(kit: Kit) -> None:
    parent, child = await family(kit)
    ended = await kit.moved(parent, Complete())
    await settle(kit, child, parent)
    await kit.move(ended, Rerun())
    (second,) = await kit.claim()
    await kit.move(second, Fail(error=TaskError(message="no"), retryable=False))
    (told,) = await kit.store.link([Link(child.id, (parent.id,))])
    assert told.state is State.COMPLETED


async def test_a_child_that_waits_no_longer_has_nothing_remaining(kit: Kit) -> None:
    parent, child = await family(kit)
    await kit.move(child, Unblock())
    assert await settle(kit, child, parent) == 0
    assert await kit.store.settle([Settlement("absent", parent.id, satisfied=True)]) == [0]


async def test_dependents_come_in_pages_ordered_by_child(kit: Kit) -> None:
    parent = await kit.active()
    names = [f"c{i:02}" for i in range(25)]
    await kit.create(*[kit.record(name, dependencies=(parent.id,)) for name in reversed(names)])
    await kit.store.link([Link(name, (parent.id,)) for name in reversed(names)])
    found: list[str] = []
    while page := await kit.store.dependents(parent.id, found[-1] if found else "", 10):
        found += [edge.child for edge in page]
        assert len(page) <= 10
    assert found == names


async def test_dependents_of_many_parents_come_in_one_call_each_after_its_own_child(
    kit: Kit,
) -> None:
    parents = [await kit.active() for _ in range(12)]
    for number, parent in enumerate(parents):
        names = [f"c{number:02}-{i}" for i in range(number)]
        if not names:
            continue
        await kit.create(*[kit.record(name, dependencies=(parent.id,)) for name in names])
        await kit.store.link([Link(name, (parent.id,), loads=number == 3) for name in names])
    asked = [(parent.id, f"c{number:02}-1") for number, parent in enumerate(parents)]
    asked += [("absent", ""), (parents[3].id, "")]
    found = await kit.store.dependents_of_each(asked, 4)
    for (parent_id, after), edges in zip(asked, found, strict=True):
        assert edges == await kit.store.dependents(parent_id, after, 4)
    assert [len(edges) for edges in found] == [0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 0, 3]
    assert all(edge.loads for edge in found[-1])
    assert await kit.store.dependents_of_each([], 4) == []


async def test_an_end_that_was_not_told_is_found_until_it_was(kit: Kit) -> None:
    parent, child = await family(kit)
    assert await kit.store.take_unsettled(10) == []
    await kit.move(parent, Complete())
    assert await kit.store.take_unsettled(10) == [(parent.id, State.COMPLETED)]
    await settle(kit, child, parent)
    assert await kit.store.take_unsettled(10) == []


async def test_a_rerun_parent_has_no_end_to_tell(kit: Kit) -> None:
    parent, _ = await family(kit)
    ended = await kit.moved(parent, Complete())
    await kit.move(ended, Rerun())
    assert await kit.store.take_unsettled(10) == []


async def test_an_edge_outlives_the_wait_of_its_child_and_goes_with_its_record(kit: Kit) -> None:
    parent = await kit.active()
    stays, goes = [await kit.submit(dependencies=(parent.id,)) for _ in range(2)]
    await kit.store.link([Link(child.id, (parent.id,)) for child in (stays, goes)])
    await kit.move(stays, Schedule())
    cancelled = await kit.moved(goes, Cancel())
    told = await kit.store.dependents(parent.id)
    assert sorted(edge.child for edge in told) == sorted([stays.id, goes.id])
    await kit.move(cancelled, Delete())
    assert [edge.child for edge in await kit.store.dependents(parent.id)] == [stays.id]


async def test_an_edge_goes_with_a_child_that_is_discarded_at_its_end(kit: Kit) -> None:
    parent = await kit.active()
    child = await kit.submit(dependencies=(parent.id,), policy={"discard_states": ("cancelled",)})
    await kit.store.link([Link(child.id, (parent.id,))])
    await kit.move(child, Cancel())
    assert await kit.get(child.id) is None
    assert await kit.store.dependents(parent.id) == []


async def test_a_link_to_a_parent_that_has_completed_is_an_edge_to_be_read(kit: Kit) -> None:
    parent = await kit.moved(await kit.active(), Complete())
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    assert await settle(kit, child, parent) == 0
    edge = Edge(parent.id, child.id, loads=False, any_end=False, settled=True)
    assert await kit.store.dependents(parent.id) == [edge]
    assert await kit.store.take_unsettled(10) == []
    assert (await kit.try_move(parent, Delete())).kind is ChangeKind.APPLIED


async def test_an_edge_that_is_let_go_is_there_and_holds_nothing_up(kit: Kit) -> None:
    parent, child = await family(kit, loads=True)
    await kit.store.release_edges(
        [(parent.id, child.id), (parent.id, "absent"), ("absent", child.id)]
    )
    edge = Edge(parent.id, child.id, loads=False, any_end=False, settled=True)
    assert await kit.store.dependents(parent.id) == [edge]
    ended = await kit.moved(parent, Complete(result=b"1"))
    assert await kit.store.take_unsettled(10) == []
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


async def test_a_child_that_waits_anew_keeps_the_result_again(kit: Kit) -> None:
    parent, child = await family(kit, loads=True)
    await kit.store.release_edges([(parent.id, child.id)])
    assert await kit.store.link([Link(child.id, (parent.id,), loads=True)]) == []
    (edge,) = await kit.store.dependents(parent.id)
    assert (edge.loads, edge.settled) == (True, False)
    ended = await kit.moved(parent, Complete(result=b"1"))
    await settle(kit, child, parent)
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.CONFLICT
    await kit.store.release_edges([(parent.id, child.id)])
    (told,) = await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    assert told.state is State.COMPLETED
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.CONFLICT


async def test_a_deletion_put_off_is_due_again_when_the_result_is_released(kit: Kit) -> None:
    parent = await kit.active(policy={"discard_states": ("completed",)})
    child = await kit.submit(dependencies=(parent.id,), load_dependencies=True)
    await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    await kit.move(parent, Complete())
    await settle(kit, child, parent)
    await kit.due(parent.id, hold_ms=3_600_000)
    await kit.store.rearm([(parent.id, kit.store.now() + 3_600_000)])
    await kit.store.release_edges([(parent.id, child.id)])
    await kit.due(parent.id)


async def test_an_unlinked_edge_is_forgotten_settled_or_not(kit: Kit) -> None:
    parent, child = await family(kit)
    await kit.store.unlink([(parent.id, child.id), (parent.id, "absent")])
    assert await kit.store.dependents(parent.id) == []
    assert not (await kit.try_move(parent, Complete())).has_dependents


# --- what dependents need is not deleted ---


async def test_a_task_is_not_deleted_while_an_edge_is_unsettled(kit: Kit) -> None:
    parent, child = await family(kit)
    ended = await kit.moved(parent, Complete(result=b"1"))
    refused = await kit.try_move(ended, Delete())
    assert (refused.kind, refused.current) == (ChangeKind.CONFLICT, ended)
    await settle(kit, child, parent)
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


async def test_a_task_is_not_deleted_while_a_living_child_loads_its_result(kit: Kit) -> None:
    parent, child = await family(kit, loads=True)
    ended = await kit.moved(parent, Complete(result=b"1"))
    await settle(kit, child, parent)
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.CONFLICT
    await kit.move(child, Cancel())
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


async def test_a_parent_that_ended_before_the_link_is_kept_for_a_child_that_loads(
    kit: Kit,
) -> None:
    parent = await kit.moved(await kit.active(), Complete(result=b"1"))
    child = await kit.submit(dependencies=(parent.id,), load_dependencies=True)
    await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    await settle(kit, child, parent)
    assert (await kit.try_move(parent, Delete())).kind is ChangeKind.CONFLICT


async def test_a_deletion_by_force_asks_nobody(kit: Kit) -> None:
    parent, _ = await family(kit)
    ended = await kit.moved(parent, Complete())
    assert (await kit.try_move(ended, Delete(), force=True)).kind is ChangeKind.APPLIED
    assert await kit.get(parent.id) is None
    assert await kit.store.dependents(parent.id) == []
    assert await kit.store.take_unsettled(10) == []


async def test_a_discarded_end_waits_until_its_dependents_were_told(kit: Kit) -> None:
    parent = await kit.active(policy={"discard_states": ("completed",)})
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    changed = await kit.try_move(parent, Complete(result=b"1"))
    assert changed.has_dependents
    assert (await kit.there(parent.id)).result == b"1"
    await settle(kit, child, parent)
    due = await kit.due(parent.id, hold_ms=1)
    assert (await kit.try_move(due, Delete())).kind is ChangeKind.APPLIED


async def test_a_deletion_put_off_for_dependents_is_due_again_when_they_are_released(
    kit: Kit,
) -> None:
    parent = await kit.active(policy={"discard_states": ("completed",)})
    child = await kit.submit(dependencies=(parent.id,))
    await kit.store.link([Link(child.id, (parent.id,))])
    await kit.move(parent, Complete())
    await kit.due(parent.id, hold_ms=3_600_000)
    await kit.store.rearm([(parent.id, kit.store.now() + 3_600_000)])
    await settle(kit, child, parent)
    await kit.due(parent.id)


async def test_states_are_known_of_records_and_of_the_lately_deleted(kit: Kit) -> None:
    gone = await kit.active(policy={"discard_states": ("completed",)})
    await kit.move(gone, Complete())
    live = await kit.submit()
    states = await kit.store.states([live.id, gone.id, "absent"])
    assert states == [State.PENDING, State.COMPLETED, None]


async def test_a_child_that_is_not_blocked_gets_no_edges(kit: Kit) -> None:
    parent = await kit.submit()
    child = await kit.submit()
    assert await kit.store.link([Link(child.id, (parent.id, "absent"))]) == []
    assert await kit.store.dependents(parent.id) == []


async def test_what_satisfies_a_child_that_needs_some_and_what_fails_it_count_once_each(
    kit: Kit,
) -> None:
    a, b, c, d = [await kit.active() for _ in range(4)]
    child = await kit.submit(dependencies=(a.id, b.id, c.id, d.id), needs=2)
    await kit.store.link([Link(child.id, child.definition.dependencies)])
    for _ in range(2):
        assert await settle(kit, child, a) == 1, "one more is needed"
        assert await settle(kit, child, b, satisfied=False) == 1, "one more may fail"
    assert await settle(kit, child, a, satisfied=False) == 1, "it has satisfied for good"
    assert await settle(kit, child, c, satisfied=False) == 0
    assert await settle(kit, child, d, satisfied=False) == -1
    assert await settle(kit, child, c) == 0, "it was rerun"
    assert await settle(kit, child, d, satisfied=False) == 0
    assert await settle(kit, child, b) == -1, "more than it needs"
    ended = await kit.store.link([Link(child.id, (a.id, d.id))])
    assert [(end.parent, end.state) for end in ended] == [(a.id, State.COMPLETED)]
    await kit.move(child, Unblock())
    assert await settle(kit, child, d) == 0
    assert await settle(kit, child, d, satisfied=False) == -1
    gone = await kit.submit(dependencies=(a.id, b.id), needs=1)
    assert await settle(kit, gone, a, satisfied=False) == 0, "each child has counts of its own"
