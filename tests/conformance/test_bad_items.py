"""One bad item fails alone (docs/rulings.md, R36): whatever stands beside it in a call, or comes to
the store at the same time, is as if it had not been there. It stands first, in the middle and last.

Bad is what no durable store can write: an integer beyond 64 bits, half a surrogate (which any
undecodable file name brings). A store may refuse more than that, as PostgreSQL refuses NUL; a store
in memory writes nothing down, and may hold everything.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from andon.contract.edges import Ended, Link, Settlement
from andon.contract.isolation import AT_FAULT
from andon.contract.outcomes import Changed, ChangeKind, Created, CreateKind, Verdict
from andon.contract.requests import Change, Renewal
from andon.contract.store import Store
from andon.lifecycle.commands import Cancel, Complete, Snooze
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.model.task import Task, TaskError
from andon.model.words import State

from .kit import LEASE_MS, Kit

HALF = "\udc80"  #: half a surrogate: UTF-8 has no bytes for it
NUL = "a\0b"
BEYOND = 2**70
BEYOND_SIGNED = 2**63  #: fits where integers have no sign

PLACES = (0, 2, 4)  #: of five


def _with_order(task: Task, order: int) -> Task:
    return _with_status(task, order=order)


def _with_status(task: Task, **fields: Any) -> Task:
    return Task(definition=task.definition, status=replace(task.status, **fields))


def _with(task: Task, **fields: Any) -> Task:
    return Task(definition=replace(task.definition, **fields), status=task.status)


BAD_RECORDS: dict[str, tuple[bool, Callable[[Task], Task]]] = {
    "order": (True, lambda t: _with_order(t, BEYOND)),
    "order, signed": (False, lambda t: _with_order(t, BEYOND_SIGNED)),
    "start": (True, lambda t: _with_status(t, state=State.SCHEDULED, run_at=BEYOND)),
    "id": (True, lambda t: _with(t, id=f"{t.id}-{HALF}")),
    "name": (True, lambda t: _with(t, name=HALF)),
    "queue": (True, lambda t: _with(t, queue=HALF)),
    "key": (True, lambda t: _with(t, key=HALF)),
    "unique key": (True, lambda t: _with(t, unique_key=HALF)),
    "header": (True, lambda t: _with(t, headers={"file": HALF})),
    "NUL in the id": (False, lambda t: _with(t, id=f"{t.id}-{NUL}")),
    "NUL in the key": (False, lambda t: _with(t, key=NUL)),
    "NUL in the unique key": (False, lambda t: _with(t, unique_key=NUL)),
    "NUL in the group": (False, lambda t: _with(t, group=NUL)),
}
"""What is bad about a record, and whether a store that writes must refuse it."""

BAD_STATUSES: dict[str, tuple[bool, dict[str, Any]]] = {
    "order": (True, {"order": BEYOND}),
    "time": (True, {"run_at": BEYOND}),
    "time, signed": (False, {"run_at": BEYOND_SIGNED}),
    "error": (True, {"last_error": TaskError(message=HALF)}),
    "worker": (True, {"worker": HALF}),
    "NUL in the error": (False, {"last_error": TaskError(message=NUL)}),
}

BAD_RENEWALS: dict[str, tuple[bool, dict[str, Any]]] = {
    "message": (True, {"message": HALF}),
    "progress": (True, {"progress": BEYOND}),
    "lease": (True, {"lease_ms": BEYOND}),
    "lease, signed": (False, {"lease_ms": BEYOND_SIGNED}),
    "NUL in the message": (False, {"message": NUL}),
}


def _must_refuse(kit: Kit, *, bad: bool) -> bool:
    """Whether this store has no other choice: one in memory encodes nothing."""
    return bad and kit.factory.durable


def _put(items: list[Any], place: int, item: Any) -> list[Any]:
    return [*items[:place], item, *items[place:]]


def _told(caplog: pytest.LogCaptureFixture) -> bool:
    return any(record.levelno >= logging.ERROR for record in caplog.records)


# --- create ---


@pytest.mark.parametrize("fault", BAD_RECORDS)
async def test_a_bad_record_is_refused_alone(kit: Kit, fault: str) -> None:
    bad, spoil = BAD_RECORDS[fault]
    for place, kept in itertools.product(PLACES, ("plain", "keyed", "unique")):
        good: list[Task] = []
        for n in range(4):
            if kept == "unique":
                good.append(kit.record(unique_key=f"{place} {n}"))
            else:
                good.append(kit.record(key="k" if kept == "keyed" else None))
        spoiled = spoil(kit.record())
        outcomes: list[Created] = await kit.store.create(_put(list(good), place, spoiled))
        own = outcomes.pop(place)
        assert [created.kind for created in outcomes] == [CreateKind.CREATED] * 4
        assert [await kit.get(task.id) for task in good] == good
        if _must_refuse(kit, bad=bad):
            assert own.kind is CreateKind.INVALID
        if own.kind is CreateKind.INVALID:
            assert own.why
            assert await kit.store.get([spoiled.id]) == [None]
        again: list[Created] = await kit.store.create(good)
        assert {created.kind for created in again} == {CreateKind.EXISTS}


async def test_a_bad_record_leaves_no_trace_in_counts_and_claims(kit: Kit) -> None:
    if not kit.factory.durable:
        pytest.skip("a store in memory holds what others cannot write")
    good = [kit.record() for _ in range(4)]
    before = await kit.store.events_end()
    await kit.store.create([good[0], _with_order(kit.record(), BEYOND), *good[1:]])
    assert (await kit.stats()).counts == {State.PENDING: 4}
    assert {task.id for task in await kit.claim(10)} == {task.id for task in good}
    events = (await kit.read_events(before)).events
    assert {event.task for event in events} == {task.id for task in good}


async def test_bad_records_alone_are_refused(kit: Kit) -> None:
    if not kit.factory.durable:
        pytest.skip("a store in memory holds what others cannot write")
    spoiled = [_with_order(kit.record(), BEYOND) for _ in range(3)]
    outcomes: list[Created] = await kit.store.create(spoiled)
    assert [created.kind for created in outcomes] == [CreateKind.INVALID] * 3


# --- commit ---


def _spoiled(change: Change, fields: dict[str, Any]) -> Change:
    assert change.after is not None
    return replace(change, after=replace(change.after, **fields))


@pytest.mark.parametrize("fault", BAD_STATUSES)
@pytest.mark.parametrize("moves", ["reports", "others"])
async def test_a_bad_change_is_refused_alone(kit: Kit, fault: str, moves: str) -> None:
    bad, fields = BAD_STATUSES[fault]
    for place in PLACES:
        if moves == "reports":
            tasks = [await kit.active() for _ in range(5)]
            changes = [kit.change(task, Complete(result=b"1")) for task in tasks]
            reached = State.COMPLETED
        else:
            tasks = [await kit.submit(key=f"k{place}") for _ in range(5)]
            changes = [kit.change(task, Cancel()) for task in tasks]
            reached = State.CANCELLED
        if fault.startswith("time"):  # a time that is a timer, where the move allows
            waits = await kit.active(queue="waits")
            tasks[place], changes[place] = waits, kit.change(waits, Snooze(delay=60_000))
        changes[place] = _spoiled(changes[place], fields)
        before = await kit.there(tasks[place].id)
        outcomes: list[Changed] = await kit.store.commit(changes)
        own = outcomes.pop(place)
        assert [changed.kind for changed in outcomes] == [ChangeKind.APPLIED] * 4
        states = await kit.store.states([task.id for task in tasks])
        states.pop(place)
        assert states == [reached] * 4
        if _must_refuse(kit, bad=bad):
            assert own.kind is ChangeKind.INVALID
        if own.kind is ChangeKind.INVALID:
            assert own.why
            assert await kit.there(tasks[place].id) == before, "nothing of it was written"
            moved = await kit.try_move(
                before, Complete() if before.state is State.ACTIVE else Cancel()
            )
            assert moved.kind is ChangeKind.APPLIED, "and another change of it may follow"


async def test_a_bad_event_is_refused_alone(kit: Kit) -> None:
    for place in PLACES:
        tasks = [await kit.active() for _ in range(5)]
        changes = [kit.change(task, Complete()) for task in tasks]
        event = replace(changes[place].event, write_id=HALF)
        changes[place] = replace(changes[place], event=event)
        outcomes: list[Changed] = await kit.store.commit(changes)
        own = outcomes.pop(place)
        assert [changed.kind for changed in outcomes] == [ChangeKind.APPLIED] * 4
        if _must_refuse(kit, bad=True):
            assert own.kind is ChangeKind.INVALID
            assert await kit.state(tasks[place].id) is State.ACTIVE


# --- renew ---


async def _blocking(store: Store, renewals: Sequence[Renewal]) -> list[Verdict]:
    return await asyncio.to_thread(store.renew_blocking, renewals)


async def _awaited(store: Store, renewals: Sequence[Renewal]) -> list[Verdict]:
    return await store.renew(renewals)


@pytest.mark.parametrize("fault", BAD_RENEWALS)
@pytest.mark.parametrize("renew", [_awaited, _blocking], ids=["renew", "renew_blocking"])
async def test_a_bad_renewal_is_refused_alone(kit: Kit, fault: str, renew: Any) -> None:
    bad, fields = BAD_RENEWALS[fault]
    for place in PLACES:
        tasks = [await kit.active(lease_ms=1_000) for _ in range(5)]
        renewals = [
            Renewal(task=t.id, run=t.status.run, lease_ms=LEASE_MS, message="on") for t in tasks
        ]
        renewals[place] = replace(renewals[place], **fields)
        verdicts: list[Verdict] = await renew(kit.store, renewals)
        own, spoiled = verdicts.pop(place), tasks.pop(place)
        assert verdicts == [Verdict.OK] * 4
        for task in tasks:
            cell = (await kit.there(task.id)).cell
            assert cell is not None
            assert cell.message == "on"
            assert cell.lease_until > kit.store.now() + LEASE_MS - 15_000
        if _must_refuse(kit, bad=bad):
            assert own is Verdict.INVALID
        if own is Verdict.INVALID:
            assert (await kit.there(spoiled.id)).cell == spoiled.cell, "nothing was changed"
            assert await kit.renew(spoiled) is Verdict.OK, "and it may be renewed better"


async def test_a_renewal_of_a_bad_id_is_answered_alone(kit: Kit) -> None:
    for place in PLACES:
        tasks = [await kit.active() for _ in range(4)]
        renewals = [Renewal(task=t.id, run=t.status.run, lease_ms=LEASE_MS) for t in tasks]
        nobody = Renewal(task=HALF, run=HALF, lease_ms=LEASE_MS)
        verdicts: list[Verdict] = await kit.store.renew(_put(renewals, place, nobody))
        assert verdicts.pop(place) in (Verdict.LOST, Verdict.INVALID)
        assert verdicts == [Verdict.OK] * 4


# --- rearm ---


@pytest.mark.parametrize("fault", ["time", "id"])
async def test_a_bad_timer_is_left_out_alone(
    kit: Kit, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    for place in PLACES:
        soon = kit.store.now() + 5
        tasks = [await kit.submit(run_at=soon) for _ in range(5)]
        taken: set[str] = set()

        async def all_taken(taken: set[str] = taken) -> bool:
            taken |= {task.id for task in await kit.take_due(hold_ms=60_000)}
            return len(taken) == 5

        await kit.until(all_taken)
        timers: list[tuple[str, int | None]] = [(t.id, kit.store.now() + 20) for t in tasks]
        timers[place] = (tasks[place].id, BEYOND) if fault == "time" else (HALF, 5)
        await kit.store.rearm(timers)
        good = {task.id for i, task in enumerate(tasks) if i != place}
        again: set[str] = set()

        async def armed_anew(again: set[str] = again, good: set[str] = good) -> bool:
            again |= {task.id for task in await kit.take_due(hold_ms=60_000)}
            return good <= again

        await kit.until(armed_anew)
        assert again == good
        for task in tasks:
            await kit.move(await kit.there(task.id), Cancel())
    if _must_refuse(kit, bad=fault == "time"):
        assert _told(caplog)


# --- dependencies ---


@pytest.mark.parametrize("fault", ["child", "parent"])
async def test_a_bad_link_is_left_out_alone(kit: Kit, fault: str) -> None:
    for place in PLACES:
        parent = await kit.active()
        ended = await kit.moved(await kit.active(), Complete())
        children = [await kit.submit(dependencies=(parent.id, ended.id)) for _ in range(4)]
        links = [Link(child.id, (parent.id, ended.id)) for child in children]
        other = await kit.submit(dependencies=("absent",))
        bad = Link(HALF, (parent.id,)) if fault == "child" else Link(other.id, (HALF,))
        told: list[Ended] = await kit.store.link(_put(links, place, bad))
        ends = [Ended(c.id, ended.id, State.COMPLETED, any_end=False) for c in children]
        assert sorted((e for e in told if e.parent != HALF), key=_child) == sorted(ends, key=_child)
        for end in told:  # nobody has such an id, so it may be told as one that does not exist
            assert end.parent != HALF or end.state is None
        edges = await kit.store.dependents(parent.id)
        assert {edge.child for edge in edges if edge.child != HALF} == {c.id for c in children}


def _child(ended: Ended) -> str:
    return ended.child


@pytest.mark.parametrize("fault", ["child", "parent"])
async def test_a_bad_settlement_is_left_out_alone(kit: Kit, fault: str) -> None:
    for place in PLACES:
        parent = await kit.active()
        children = [await kit.submit(dependencies=(parent.id, "more")) for _ in range(4)]
        await kit.store.link([Link(child.id, (parent.id,)) for child in children])
        told = [Settlement(child.id, parent.id, satisfied=True) for child in children]
        bad = Settlement(HALF, parent.id, satisfied=True)
        if fault == "parent":
            other = await kit.submit(dependencies=("absent",))
            bad = Settlement(other.id, HALF, satisfied=False)
        remaining: list[int] = await kit.store.settle(_put(told, place, bad))
        own = remaining.pop(place)
        assert remaining == [1] * 4
        if fault == "parent":
            assert own != 0, "a child is not let go by what could not be counted, or fails it"
        assert all(edge.settled for edge in await kit.store.dependents(parent.id))


@pytest.mark.parametrize("bad", [(HALF, "c"), ("p", HALF)], ids=["parent", "child"])
async def test_a_bad_edge_is_left_out_alone(kit: Kit, bad: tuple[str, str]) -> None:
    for place in PLACES:
        parent = await kit.active()
        children = [await kit.submit(dependencies=(parent.id,)) for _ in range(4)]
        await kit.store.link([Link(child.id, (parent.id,)) for child in children])
        await kit.store.release_edges(
            _put([(parent.id, child.id) for child in children], place, bad)
        )
        assert all(edge.settled for edge in await kit.store.dependents(parent.id))
        await kit.store.unlink(_put([(parent.id, child.id) for child in children], place, bad))
        assert await kit.store.dependents(parent.id) == []


# --- reading ---


async def test_an_id_that_nobody_can_have_is_absent_alone(kit: Kit) -> None:
    tasks = await kit.submit_many(4)
    for place in PLACES:
        asked = _put([task.id for task in tasks], place, HALF)
        found: list[Task | None] = await kit.store.get(asked)
        assert found.pop(place) is None
        assert found == tasks
        states: list[State | None] = await kit.store.states(asked)
        assert states.pop(place) is None
        assert states == [State.PENDING] * 4


async def test_an_id_that_nobody_can_have_hides_no_trace_of_a_deleted_task(kit: Kit) -> None:
    policy = {"discard_states": ("completed",)}
    gone = [await kit.active(policy=policy) for _ in range(4)]
    for task in gone:
        await kit.move(task, Complete())
    for place in PLACES:
        asked = _put([task.id for task in gone], place, HALF)
        for read in (kit.store.tombstones, kit.store.discarded):
            found: list[Any] = list(await read(asked))
            assert found.pop(place) is None
            assert None not in found
            assert len(found) == 4


# --- the fleet ---


@pytest.mark.parametrize("fault", ["name", "version", "policy"])
async def test_a_bad_type_is_left_out_alone(
    kit: Kit, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {
        "name": TypeInfo(name=HALF),
        "version": TypeInfo(name="bad", version=BEYOND),
        "policy": TypeInfo(name="bad", policy={"profile": HALF}),
    }[fault]
    for place in PLACES:
        good = [TypeInfo(name=f"t{place}{i}", policy={"timeout": 1.0}) for i in range(4)]
        await kit.store.put_types(_put(list(good), place, bad))
        published = await kit.store.types()
        assert all(info in published for info in good)
        if _must_refuse(kit, bad=True):
            assert bad not in published
    if _must_refuse(kit, bad=True):
        assert _told(caplog)


async def test_bad_callers_are_refused_beside_good_ones(kit: Kit) -> None:
    """Calls of one item have an error for it: one that says that it will not go away."""
    active = await kit.active()
    queue, worker, setting = kit.fresh("q"), kit.fresh("w"), kit.fresh("s")
    renewal = Renewal(task=active.id, run=active.status.run, lease_ms=LEASE_MS, message="on")
    records = [kit.record(), kit.record()]
    bad = [
        kit.store.put_worker(WorkerInfo(id=HALF)),
        kit.store.put_worker(WorkerInfo(id="bad", pid=BEYOND)),
        kit.store.put_setting(HALF, b"1", expect=None),
    ]
    good = [
        kit.store.create(records[:1]),
        kit.store.renew([renewal]),
        kit.store.put_worker(WorkerInfo(id=worker)),
        kit.store.put_setting(setting, b"1", expect=None),
        kit.store.commit([kit.change(await kit.active(), Complete())]),
        kit.store.create(records[1:]),
    ]
    calls = [good[0], bad[0], good[1], good[2], bad[1], good[3], good[4], bad[2], good[5]]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    refused = [ends[1], ends[4], ends[7]]
    assert [end for i, end in enumerate(ends) if i not in (1, 4, 7)] == [
        [Created(CreateKind.CREATED)],
        [Verdict.OK],
        None,
        True,
        [Changed(ChangeKind.APPLIED)],
        [Created(CreateKind.CREATED)],
    ]
    if _must_refuse(kit, bad=True):
        assert all(isinstance(end, AT_FAULT) for end in refused), refused
    await kit.configure(name=queue, weight=2)
    assert worker in {info.id for info in await kit.store.workers()}
    assert await kit.store.setting(setting) == b"1"


async def test_a_bad_configuration_of_a_queue_changes_nothing(kit: Kit) -> None:
    if not kit.factory.durable:
        pytest.skip("a store in memory holds what others cannot write")
    before = await kit.configured(weight=2)
    for bad in (
        replace(before, max_size=BEYOND),
        replace(before, policy={"profile": HALF}),
    ):
        put, _ = await asyncio.gather(
            kit.store.put_queue(bad, expect=before), kit.submit(), return_exceptions=True
        )
        assert isinstance(put, AT_FAULT), put
        assert [c for c in await kit.store.queues() if c.name == before.name] == [before]
    with pytest.raises(AT_FAULT):
        await kit.store.put_queue(QueueConfig(name=HALF), expect=QueueConfig(name=HALF))
    assert await kit.store.put_queue(replace(before, weight=3), expect=before)
