"""Edges that are settled in the step that writes an end (`SettlesAtOnce`)."""

from collections.abc import Sequence

import msgspec
import pytest

from andon.contract.edges import Link
from andon.contract.optional import SettlesAtOnce
from andon.contract.outcomes import APPLIED, CREATED, HAS_DEPENDENTS, Changed, ChangeKind
from andon.contract.requests import Change
from andon.lifecycle.commands import Cancel, Complete, Fail, Rerun, Schedule, Unblock
from andon.model.task import Task, TaskError
from andon.model.words import Event, State
from andon.stores.sqlite import transaction
from andon.stores.sqlite.settling import MOST_EDGES

from .kit import Kit

DONE = Complete(result=b"1")
NO = Fail(error=TaskError(message="no"), retryable=False)


class Deciding:
    """What the engine decides, and for whom it was asked."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.asked: list[str] = []
        self.declines: set[str] = set()
        self.fails: set[str] = set()
        self.decides_on_older: set[str] = set()

    def __call__(self, child: Task, now: int) -> Change | None:
        self.asked.append(child.id)
        if child.id in self.fails:
            raise RuntimeError("a defect")
        if child.id in self.declines:
            return None
        if child.id in self.decides_on_older:
            child = msgspec.structs.replace(
                child, status=msgspec.structs.replace(child.status, revision=7)
            )
        return self._kit.change(child, Unblock())


@pytest.fixture
def deciding(kit: Kit) -> Deciding:
    assert isinstance(kit.store, SettlesAtOnce)
    deciding = Deciding(kit)
    kit.store.settle_at_once(deciding)
    return deciding


async def waits(kit: Kit, *parents: Task, any_end: bool = False) -> Task:
    """A task that waits for these."""
    ids = tuple(parent.id for parent in parents)
    child = await kit.submit(dependencies=ids)
    await kit.store.link([Link(child.id, ids, any_end=any_end)])
    return child


async def ended(kit: Kit, runs: Sequence[Task]) -> list[Changed]:
    return await kit.store.commit([kit.change(run, DONE) for run in runs])


async def test_the_end_and_the_unblocking_that_follows_are_one_step(
    kit: Kit, deciding: Deciding
) -> None:
    parent = await kit.active()
    child = await waits(kit, parent)
    begin = await kit.store.events_end()
    assert await ended(kit, [parent]) == [APPLIED]
    assert await kit.state(child.id) is State.PENDING
    [edge] = await kit.store.dependents(parent.id)
    assert edge.settled
    assert await kit.store.take_unsettled(10) == []
    events = (await kit.read_events(begin)).events
    assert [(e.task, e.event) for e in events] == [
        (parent.id, Event.COMPLETE),
        (child.id, Event.UNBLOCK),
    ]
    [claimed] = await kit.claim()
    assert claimed.id == child.id


async def test_nobody_is_asked_before_the_last_dependency_has_ended(
    kit: Kit, deciding: Deciding
) -> None:
    parents = [await kit.active() for _ in range(3)]
    child = await waits(kit, *parents)
    for parent in parents[:2]:
        assert await ended(kit, [parent]) == [APPLIED]
    assert deciding.asked == []
    assert await kit.state(child.id) is State.BLOCKED
    await ended(kit, parents[2:])
    assert deciding.asked == [child.id]
    assert await kit.state(child.id) is State.PENDING


async def test_ends_of_one_batch_count_one_after_the_other(kit: Kit, deciding: Deciding) -> None:
    parents = [await kit.active() for _ in range(5)]
    children = [await waits(kit, *parents), *[await waits(kit, parent) for parent in parents]]
    assert await ended(kit, parents) == [APPLIED] * 5
    assert {await kit.state(child.id) for child in children} == {State.PENDING}


@pytest.mark.parametrize("how", ["declines", "fails", "decides_on_older"])
@pytest.mark.parametrize("place", [0, 2, 4])
async def test_a_child_that_cannot_be_unblocked_is_left_and_keeps_no_other_from_it(
    kit: Kit, deciding: Deciding, how: str, place: int
) -> None:
    parents = [await kit.active() for _ in range(5)]
    children = [await waits(kit, parent) for parent in parents]
    beside = await waits(kit, parents[place])
    bad = children[place]
    getattr(deciding, how).add(bad.id)
    outcomes = await ended(kit, parents)
    assert outcomes == [HAS_DEPENDENTS if i == place else APPLIED for i in range(5)]
    others = [beside, *(child for child in children if child is not bad)]
    assert {await kit.state(child.id) for child in others} == {State.PENDING}
    assert await kit.state(bad.id) is State.BLOCKED
    settled = {e.child: e.settled for e in await kit.store.dependents(parents[place].id)}
    assert settled == {bad.id: False, beside.id: True}
    assert await kit.store.take_unsettled(10) == [(parents[place].id, State.COMPLETED)]


@pytest.mark.parametrize("place", [0, 2, 4])
async def test_a_child_that_cannot_be_written_fails_neither_its_parent_nor_others(
    kit: Kit, deciding: Deciding, place: int
) -> None:
    parents = [await kit.active() for _ in range(5)]
    children: list[Task] = []
    for number, parent in enumerate(parents):
        # A deadline that no column holds is in none while the task is blocked.
        deadline = 2**63 if number == place else None
        child = kit.record(dependencies=(parent.id,), deadline=deadline)
        [created] = await kit.create(child)
        assert created == CREATED
        await kit.store.link([Link(child.id, (parent.id,))])
        children.append(child)
    outcomes = await ended(kit, parents)
    assert {one.kind for one in outcomes} == {ChangeKind.APPLIED}
    assert outcomes[place] == HAS_DEPENDENTS
    assert {await kit.state(parent.id) for parent in parents} == {State.COMPLETED}
    for parent, child, outcome in zip(parents, children, outcomes, strict=True):
        is_left = outcome.has_dependents
        assert await kit.state(child.id) is (State.BLOCKED if is_left else State.PENDING)
        [edge] = await kit.store.dependents(parent.id)
        assert edge.settled is not is_left


async def test_many_edges_are_left_to_be_settled_in_pages(kit: Kit, deciding: Deciding) -> None:
    parent = await kit.active()
    children = [await waits(kit, parent) for _ in range(MOST_EDGES + 1)]
    assert await ended(kit, [parent]) == [HAS_DEPENDENTS]
    assert {await kit.state(child.id) for child in children} == {State.BLOCKED}
    assert deciding.asked == []


async def test_no_more_edges_are_settled_in_one_transaction_than_others_may_wait_for(
    kit: Kit, deciding: Deciding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction, "MOST_SETTLED", 3)
    parents = [await kit.active() for _ in range(5)]
    children = [await waits(kit, parent) for parent in parents]
    assert await ended(kit, parents) == [APPLIED] * 3 + [HAS_DEPENDENTS] * 2
    blocked = [await kit.state(child.id) is State.BLOCKED for child in children]
    assert blocked == [False] * 3 + [True] * 2


@pytest.mark.parametrize("any_end", [False, True])
async def test_an_end_that_fails_dependents_is_left(
    kit: Kit, deciding: Deciding, any_end: bool
) -> None:
    parent = await kit.active()
    child = await waits(kit, parent, any_end=any_end)
    assert (await kit.try_move(parent, NO)) == HAS_DEPENDENTS
    assert await kit.state(child.id) is State.BLOCKED
    assert deciding.asked == []


async def test_a_dependency_counts_once_however_often_it_completes(
    kit: Kit, deciding: Deciding
) -> None:
    first, second = await kit.active(), await kit.active()
    child = await waits(kit, first, second)
    await ended(kit, [first])
    await kit.moved(await kit.there(first.id), Rerun())
    [again] = await kit.claim()
    await ended(kit, [again])
    assert await kit.state(child.id) is State.BLOCKED
    await ended(kit, [second])
    assert await kit.state(child.id) is State.PENDING


async def test_a_child_that_is_blocked_no_more_is_left_as_it_is(
    kit: Kit, deciding: Deciding
) -> None:
    parent = await kit.active()
    released, over = await waits(kit, parent), await waits(kit, parent)
    await kit.moved(released, Schedule())
    await kit.moved(over, Cancel())
    before = [await kit.there(one.id) for one in (released, over)]
    assert await ended(kit, [parent]) == [APPLIED]
    assert [await kit.there(one.id) for one in (released, over)] == before
    assert deciding.asked == []


async def test_a_child_of_an_end_that_was_refused_goes_on_waiting(
    kit: Kit, deciding: Deciding
) -> None:
    stale, fine = await kit.active(), await kit.active()
    children = [await waits(kit, stale), await waits(kit, fine)]
    late = kit.change(stale, DONE)
    await kit.moved(stale, Cancel(force=True))
    [refused, applied] = await kit.store.commit([late, kit.change(fine, DONE)])
    assert (refused.kind, applied) == (ChangeKind.CONFLICT, APPLIED)
    assert [await kit.state(one.id) for one in children] == [State.BLOCKED, State.PENDING]


async def test_a_parent_is_kept_from_being_discarded_by_its_results_reader(
    kit: Kit, deciding: Deciding
) -> None:
    parent = await kit.active(policy={"discard_states": ("completed",)})
    child = await kit.submit(dependencies=(parent.id,), load_dependencies=True)
    await kit.store.link([Link(child.id, (parent.id,), loads=True)])
    await ended(kit, [parent])
    assert await kit.state(child.id) is State.PENDING
    assert (await kit.there(parent.id)).state is State.COMPLETED
