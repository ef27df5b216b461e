"""Records moved in from another store are what they were there, whatever state they are in."""

import secrets
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import each_alone
from andon.contract.outcomes import ChangeKind, CreateKind, Verdict
from andon.contract.requests import Change, Renewal, Snapshot
from andon.contract.topics import TIMER_TOPIC, ready_topic
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Complete,
    Delete,
    Fail,
    Release,
    RequestCancel,
    Stop,
    UnknownTask,
    Unreach,
)
from andon.model.headers import FLOW_TAG
from andon.model.task import Stamp, Task, TaskError
from andon.model.words import State

from .kit import LEASE_MS, PATIENCE_S, Kit, ids, needs_one_line

ERROR = TaskError(message="no")
FINAL = Fail(error=ERROR, retryable=False)


class Elsewhere:
    """The life of one task in another store."""

    def __init__(self, kit: Kit, task_id: str = "", **fields: Any) -> None:
        self._kit = kit
        self.task = kit.record(task_id, **fields)
        self.moves = list(self.task.status.events)

    def claim(self, *, lease_ms: int = LEASE_MS) -> "Elsewhere":
        """Its claim, by a worker of the other store; a negative lease has run out."""
        now, run = self._kit.store.now(), secrets.token_hex(8)
        fence = next_fence(self.task.status.fence, now)
        stamp = Stamp(run, fence, "elsewhere", "token", now, now + lease_ms)
        self.task = stamped(self.task, stamp)
        self.moves.append(self.task.status.events[-1])
        return self

    def move(self, command: Command, *, write_id: str = "") -> "Elsewhere":
        """Any other of its moves."""
        moved = self._kit.decide(self.task, command, write_id=write_id)
        assert moved.status is not None
        self.moves.append(moved.event)
        self.task = Task(
            definition=self.task.definition,
            status=moved.status,
            cell=self.task.cell if moved.status.state is State.ACTIVE else None,
            result=moved.result if moved.sets_result else self.task.result,
            ref=1,
        )
        return self

    def snapshot(self, **beside: Any) -> Snapshot:
        """As it is now, with what was known beside it."""
        return Snapshot(task=self.task, history=tuple(self.moves), **beside)


async def restore(kit: Kit, *lives: Elsewhere | Snapshot) -> list[bool]:
    snapshots = [life.snapshot() if isinstance(life, Elsewhere) else life for life in lives]
    return await kit.store.restore(snapshots)


def one_of_each_state(kit: Kit) -> list[Elsewhere]:
    """A task in every state, each with its moves."""

    def life(**fields: Any) -> Elsewhere:
        return Elsewhere(kit, **fields)

    later = kit.store.now() + 3_600_000
    return [
        life(dependencies=("absent",)),
        life(run_at=later),
        life(),
        life().claim(),
        life(policy={"retry_delay": 3_600.0}).claim().move(Fail(error=ERROR)),
        life().claim().move(Complete(result=b"[1]")),
        life().claim().move(FINAL),
        life().move(Cancel()),
        life().claim().move(Stop()),
        life(policy={"on_unknown": "drop"}).claim().move(UnknownTask()),
        life(dependencies=("absent",)).move(Unreach(parent="absent", missing=True)),
    ]


async def test_a_task_in_any_state_is_restored_whole(kit: Kit) -> None:
    lives = one_of_each_state(kit)
    assert await restore(kit, *lives) == [True] * len(lives)
    assert await kit.store.get([e.task.id for e in lives]) == [e.task for e in lives]


async def test_restored_tasks_are_found_and_counted_by_their_state(kit: Kit) -> None:
    lives = one_of_each_state(kit)
    await restore(kit, *lives)
    states = [e.task.state for e in lives]
    assert (await kit.stats()).counts == {state.value: 1 for state in states}
    for e in lives:
        assert await kit.find_all(states=(e.task.state,)) == [e.task.id]
    assert await kit.store.states([e.task.id for e in lives]) == states
    assert sorted(await kit.find_all()) == sorted(e.task.id for e in lives)
    assert [queue.name for queue in await kit.store.queues()] == ["default"]


async def test_the_counts_of_restored_tasks_follow_their_moves(kit: Kit) -> None:
    running = Elsewhere(kit).claim()
    dead = Elsewhere(kit).claim().move(FINAL)
    await restore(kit, running, dead, Elsewhere(kit))
    await kit.move(await kit.there(running.task.id), FINAL)
    stats = await kit.stats()
    assert (stats.counts, stats.dead_letters) == ({"pending": 1, "failed": 2}, 2)
    await kit.move(await kit.there(dead.task.id), Delete())
    stats = await kit.stats()
    assert (stats.counts, stats.dead_letters) == ({"pending": 1, "failed": 1}, 1)


async def test_restored_dead_letters_are_listed_as_such(kit: Kit) -> None:
    dead = Elsewhere(kit).claim().move(FINAL)
    await restore(kit, dead, Elsewhere(kit).move(Cancel()))
    assert await kit.find_all(dead_letters=True) == [dead.task.id]
    assert (await kit.stats()).dead_letters == 1


async def test_restored_failures_and_flows_are_in_the_lists_by_name(kit: Kit) -> None:
    dead = Elsewhere(kit).claim().move(FINAL)
    flow = Elsewhere(kit, tags=(FLOW_TAG,), group="g")
    await restore(kit, dead, flow, Elsewhere(kit))
    assert await kit.find_all(name="job", states=(State.FAILED,)) == [dead.task.id]
    assert await kit.find_all(tag=FLOW_TAG) == [flow.task.id]
    await kit.move(await kit.there(dead.task.id), Delete())
    assert await kit.find_all(name="job", states=(State.FAILED,)) == []


# --- runs in hand ---


async def test_a_restored_run_goes_on_under_its_old_id(kit: Kit) -> None:
    life = Elsewhere(kit).claim()
    await restore(kit, life)
    assert await kit.renew(life.task, run="another") is Verdict.LOST
    assert await kit.renew(life.task, progress=40, message="on") is Verdict.OK
    task = await kit.there(life.task.id)
    assert task.cell is not None
    assert (task.cell.progress, task.cell.message) == (40, "on")
    assert task.cell.lease_until >= life.task.cell.lease_until  # type: ignore[union-attr]
    ended = await kit.moved(task, Complete(result=b"1"))
    assert (ended.state, ended.result) == (State.COMPLETED, b"1")


async def test_a_restored_run_keeps_its_cell(kit: Kit) -> None:
    life = Elsewhere(kit).claim()
    assert life.task.cell is not None
    life.task.cell = replace(life.task.cell, progress=70, message="nearly", lease_until=2**41)
    await restore(kit, life)
    assert (await kit.there(life.task.id)).cell == life.task.cell


async def test_a_restored_run_renews_from_a_thread_too(kit: Kit) -> None:
    life = Elsewhere(kit).claim()
    await restore(kit, life)
    renewal = Renewal(task=life.task.id, run=life.task.status.run, lease_ms=LEASE_MS)
    assert kit.store.renew_blocking([renewal]) == [Verdict.OK]


async def test_a_restored_run_that_was_asked_to_stop_is_told_so(kit: Kit) -> None:
    life = Elsewhere(kit).claim().move(RequestCancel())
    await restore(kit, life)
    assert await kit.renew(life.task) is Verdict.CANCEL


async def test_a_restored_run_is_found_by_its_worker_until_it_ends(kit: Kit) -> None:
    life = Elsewhere(kit).claim()
    await restore(kit, life)
    assert await kit.find_all(worker="elsewhere") == [life.task.id]
    await kit.move(await kit.there(life.task.id), Complete())
    assert await kit.find_all(worker="elsewhere") == []


async def test_a_restored_run_whose_lease_ran_out_is_due(kit: Kit) -> None:
    lost, held = Elsewhere(kit).claim(lease_ms=-1), Elsewhere(kit).claim()
    await restore(kit, lost, held)
    assert ids(await kit.take_due()) == [lost.task.id]


async def test_a_restored_run_that_is_released_is_claimed_again_with_a_higher_fence(
    kit: Kit,
) -> None:
    life = Elsewhere(kit).claim()
    fence = 2**41
    life.task.status.fence = fence
    await restore(kit, life)
    await kit.move(await kit.there(life.task.id), Release())
    (again,) = await kit.claim()
    assert again.id == life.task.id
    assert again.status.fence > fence


# --- history and events ---


async def test_restored_moves_are_the_history_and_later_moves_follow(kit: Kit) -> None:
    life = Elsewhere(kit, policy={"retry_delay": None}).claim().move(Fail(error=ERROR)).claim()
    await restore(kit, life)
    history = await kit.store.history(life.task.id)
    assert [replace(e, task="") for e in history.events] == [
        replace(e, task="") for e in life.moves
    ]
    await kit.move(await kit.there(life.task.id), Complete())
    history = await kit.store.history(life.task.id)
    assert [e.revision for e in history.events] == [1, 2, 3, 4, 5]
    assert history.dropped == 0


async def test_moves_that_the_other_store_had_dropped_stay_counted(kit: Kit) -> None:
    life = Elsewhere(kit, policy={"retry_delay": None}).claim().move(Fail(error=ERROR)).claim()
    await restore(kit, Snapshot(task=life.task, history=tuple(life.moves[2:]), dropped=2))
    history = await kit.store.history(life.task.id)
    assert ([e.revision for e in history.events], history.dropped) == ([3, 4], 2)
    await kit.move(await kit.there(life.task.id), Complete())
    history = await kit.store.history(life.task.id)
    assert ([e.revision for e in history.events], history.dropped) == ([3, 4, 5], 2)


async def test_a_task_without_any_kept_move_is_restored_too(kit: Kit) -> None:
    life = Elsewhere(kit).claim()
    await restore(kit, Snapshot(task=life.task, history=(), dropped=2))
    ended = await kit.moved(await kit.there(life.task.id), Complete())
    history = await kit.store.history(life.task.id)
    assert ([e.revision for e in history.events], history.dropped) == ([3], 2)
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


async def test_restored_moves_join_the_event_log_in_order_and_once(kit: Kit) -> None:
    cursor = await kit.store.events_end()
    lives = [Elsewhere(kit).claim().move(Complete()) for _ in range(3)]
    await restore(kit, *lives)
    page = await kit.read_events(cursor)
    for e in lives:
        told = [event for event in page.events if event.task == e.task.id]
        assert [replace(event, task="") for event in told] == [
            replace(event, task="") for event in e.moves
        ]
    assert (len(page.events), page.gap) == (9, False)


async def test_a_report_made_to_the_other_store_is_recognised_when_it_is_repeated(
    kit: Kit,
) -> None:
    life = Elsewhere(kit).claim()
    held = life.task
    life.move(Complete(result=b"1"), write_id="report")
    await restore(kit, life)
    event, status = life.moves[-1], life.task.status
    before = Task(definition=held.definition, status=held.status, cell=held.cell)
    repeat = Change(before=before, after=status, event=event, result=b"1", sets_result=True)
    assert (await kit.commit(repeat)).kind is ChangeKind.APPLIED
    assert len((await kit.store.history(life.task.id)).events) == 3


# --- what may be claimed ---


async def test_the_ready_order_is_kept_however_they_are_restored(kit: Kit) -> None:
    needs_one_line(kit)
    now = kit.store.now()
    wanted: list[Elsewhere] = []
    for priority in (5, 0, -5):
        for order in (now - 30, now - 20, now - 10):
            life = Elsewhere(kit, priority=priority)
            life.task.status.order = order
            wanted.append(life)
    await restore(kit, *wanted[1::2], *wanted[::-2])
    assert ids(await kit.claim(9)) == [e.task.id for e in wanted]


async def test_those_alike_are_claimed_in_the_order_of_restoring(kit: Kit) -> None:
    needs_one_line(kit)
    lives = [Elsewhere(kit) for _ in range(5)]
    for e in lives:
        e.task.status.order = 1_000
    await restore(kit, *lives)
    assert ids(await kit.claim(5)) == [e.task.id for e in lives]


async def test_since_when_the_oldest_waits_is_known(kit: Kit) -> None:
    life = Elsewhere(kit)
    await kit.pass_time(3)
    await restore(kit, Elsewhere(kit), life)
    assert (await kit.stats()).oldest_pending_at == life.task.status.submitted_at


async def test_a_restored_task_past_its_deadline_is_not_handed_out_but_due(kit: Kit) -> None:
    life = Elsewhere(kit)
    life.task.status.deadline = kit.store.now() - 1
    await restore(kit, life)
    assert await kit.claim() == []
    assert ids(await kit.take_due()) == [life.task.id]


async def test_whoever_waits_for_work_is_woken_by_a_restored_task(kit: Kit) -> None:
    with kit.store.listen([ready_topic("default")]) as listener:
        await restore(kit, Elsewhere(kit))
        assert await listener.wait(PATIENCE_S)


async def test_restored_runs_count_against_the_limit_of_their_queue(kit: Kit) -> None:
    await kit.configure(max_concurrent=2)
    running = Elsewhere(kit).claim()
    await restore(kit, running, Elsewhere(kit), Elsewhere(kit))
    assert len(await kit.claim(3)) == 1
    await kit.move(await kit.there(running.task.id), Complete())
    assert len(await kit.claim(3)) == 1


async def test_restored_runs_count_against_the_limit_of_their_key(kit: Kit) -> None:
    await kit.configure(max_concurrent_per_key=2)
    waiting = [Elsewhere(kit, key="k") for _ in range(3)]
    running = [Elsewhere(kit, key="k").claim() for _ in range(2)]
    await restore(kit, waiting[0], running[0], *waiting[1:], running[1])
    assert (await kit.stats()).parked == 3
    assert await kit.claim(3) == []
    await kit.move(await kit.there(running[0].task.id), Complete())
    assert len(await kit.claim(3)) == 1
    assert (await kit.stats()).parked == 2


async def test_a_full_queue_refuses_no_restored_task(kit: Kit) -> None:
    await kit.configure(max_size=1)
    assert await restore(kit, *[Elsewhere(kit) for _ in range(3)]) == [True] * 3
    (refused,) = await kit.create(kit.record())
    assert refused.kind is CreateKind.FULL


# --- unique keys ---


async def test_a_restored_task_holds_its_unique_key_until_it_lets_go(kit: Kit) -> None:
    life = Elsewhere(kit, unique_key="u").claim()
    await restore(kit, life)
    (refused,) = await kit.create(kit.record(unique_key="u"))
    assert (refused.kind, refused.holder) == (CreateKind.KEY_HELD, life.task.id)
    await kit.move(await kit.there(life.task.id), Complete())
    await kit.submit(unique_key="u")


async def test_a_restored_task_that_has_ended_holds_no_key(kit: Kit) -> None:
    await restore(kit, Elsewhere(kit, unique_key="u").move(Cancel()))
    await kit.submit(unique_key="u")


async def test_a_unique_key_stays_with_the_task_that_holds_it_here(kit: Kit) -> None:
    here = await kit.submit(unique_key="u")
    life = Elsewhere(kit, unique_key="u")
    assert await restore(kit, life) == [True]
    (refused,) = await kit.create(kit.record(unique_key="u"))
    assert refused.holder == here.id
    await kit.move(await kit.there(life.task.id), Cancel())
    (refused,) = await kit.create(kit.record(unique_key="u"))
    assert refused.holder == here.id


# --- timers ---


async def test_timers_that_passed_on_the_way_are_due(kit: Kit) -> None:
    later = kit.store.now() + 3_600_000
    passed = [
        Elsewhere(kit, run_at=later),
        Elsewhere(kit, policy={"retry_delay": 3_600.0}).claim().move(Fail(error=ERROR)),
    ]
    for e in passed:
        e.task.status.run_at = kit.store.now() - 1
    gone = Elsewhere(kit).move(Cancel())
    gone.task.status.finished_at = 1
    ahead = Elsewhere(kit, run_at=later)
    await restore(kit, *passed, gone, ahead)
    assert sorted(ids(await kit.take_due())) == sorted(e.task.id for e in [*passed, gone])


async def test_a_timekeeper_is_woken_by_a_restored_timer(kit: Kit) -> None:
    life = Elsewhere(kit, run_at=kit.store.now() + 3_600_000)
    life.task.status.run_at = kit.store.now() - 1
    with kit.store.listen([TIMER_TOPIC]) as listener:
        await restore(kit, life)
        assert await listener.wait(PATIENCE_S)


async def test_a_restored_blocked_task_asks_about_its_dependencies_soon(kit: Kit) -> None:
    life = Elsewhere(kit, dependencies=("absent",))
    life.task.status.created_at -= 3_600_000
    await restore(kit, life)
    assert ids(await kit.take_due()) == [life.task.id]


# --- dependencies ---


def edge(parent: Elsewhere, child: Elsewhere, **fields: bool) -> Edge:
    fields = {"loads": False, "any_end": False, "settled": False, **fields}
    return Edge(parent.task.id, child.task.id, **fields)


async def told(kit: Kit, child: Elsewhere, parent: str) -> int:
    (remaining,) = await kit.store.settle([Settlement(child.task.id, parent, satisfied=True)])
    return remaining


async def test_edges_are_restored_with_the_parent(kit: Kit) -> None:
    parent = Elsewhere(kit).claim()
    children = [Elsewhere(kit, name, dependencies=(parent.task.id,)) for name in ("a", "b", "c")]
    edges = (
        edge(parent, children[0]),
        edge(parent, children[1], loads=True, settled=True),
        edge(parent, children[2], any_end=True),
    )
    assert await restore(kit, parent.snapshot(edges=edges), *children) == [True] * 4
    assert await kit.store.dependents(parent.task.id) == list(edges)
    changed = await kit.try_move(await kit.there(parent.task.id), Complete())
    assert changed.has_dependents
    assert await told(kit, children[0], parent.task.id) == 0


async def test_a_dependency_counted_off_and_deleted_elsewhere_stays_counted_off(
    kit: Kit,
) -> None:
    parent = Elsewhere(kit).claim()
    child = Elsewhere(kit, dependencies=("deleted", parent.task.id))
    await restore(
        kit,
        parent.snapshot(edges=(edge(parent, child),)),
        child.snapshot(satisfied=("deleted",)),
    )
    asked = Link(child.task.id, ("deleted", parent.task.id))
    assert await kit.store.link([asked]) == [
        Ended(child.task.id, "deleted", State.COMPLETED, any_end=False)
    ]
    assert await told(kit, child, "deleted") == 1
    await kit.move(await kit.there(parent.task.id), Complete())
    assert await told(kit, child, parent.task.id) == 0


async def test_all_dependencies_may_have_been_counted_off(kit: Kit) -> None:
    child = Elsewhere(kit, dependencies=("deleted",))
    await restore(kit, child.snapshot(satisfied=("deleted",)))
    assert await told(kit, child, "deleted") == 0


async def test_an_end_that_was_not_told_elsewhere_is_found_here(kit: Kit) -> None:
    parent = Elsewhere(kit).claim().move(Complete(result=b"1"))
    child = Elsewhere(kit, dependencies=(parent.task.id,))
    await restore(kit, parent.snapshot(edges=(edge(parent, child),)), child)
    assert await kit.store.take_unsettled(10) == [(parent.task.id, State.COMPLETED)]
    ended = await kit.there(parent.task.id)
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.CONFLICT
    assert await told(kit, child, parent.task.id) == 0
    assert await kit.store.take_unsettled(10) == []
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


async def test_a_restored_parent_is_kept_for_a_child_that_loads_its_result(kit: Kit) -> None:
    parent = Elsewhere(kit).claim().move(Complete(result=b"1"))
    child = Elsewhere(kit, dependencies=(parent.task.id,), load_dependencies=True)
    edges = (edge(parent, child, loads=True, settled=True),)
    await restore(kit, parent.snapshot(edges=edges), child.snapshot(satisfied=(parent.task.id,)))
    assert await kit.store.take_unsettled(10) == []
    ended = await kit.there(parent.task.id)
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.CONFLICT
    await kit.move(await kit.there(child.task.id), Cancel())
    assert (await kit.try_move(ended, Delete())).kind is ChangeKind.APPLIED


# --- ids that are taken, and repeats ---


async def everything(kit: Kit, task_ids: Sequence[str]) -> list[object]:
    """All that a store tells of these tasks."""
    return [
        await kit.store.get(task_ids),
        [await kit.store.history(task_id) for task_id in task_ids],
        [await kit.store.dependents(task_id) for task_id in task_ids],
        await kit.store.stats(),
        await kit.store.take_unsettled(100),
        (await kit.read_events("")).events,
    ]


async def test_restoring_again_changes_nothing(kit: Kit) -> None:
    lives = one_of_each_state(kit)
    parent = lives[3]
    snapshots = [e.snapshot() for e in lives]
    snapshots[3] = parent.snapshot(edges=(edge(parent, lives[0]),))
    await restore(kit, *snapshots)
    task_ids = [e.task.id for e in lives]
    before = await everything(kit, task_ids)
    assert await restore(kit, *snapshots) == [False] * len(lives)
    assert await everything(kit, task_ids) == before


async def test_restoring_again_takes_back_nothing_that_happened_since(kit: Kit) -> None:
    parents = [Elsewhere(kit).claim() for _ in range(2)]
    child = Elsewhere(kit, dependencies=tuple(p.task.id for p in parents))
    snapshots = [p.snapshot(edges=(edge(p, child),)) for p in parents]
    snapshots.append(child.snapshot())
    await restore(kit, *snapshots)
    ended = await kit.moved(await kit.there(parents[0].task.id), Complete())
    assert await told(kit, child, ended.id) == 1
    assert await restore(kit, *snapshots) == [False] * 3
    assert await kit.there(ended.id) == ended
    assert await told(kit, child, ended.id) == 1
    assert await told(kit, child, parents[1].task.id) == 0


async def test_only_those_whose_id_is_free_are_restored(kit: Kit) -> None:
    here = await kit.submit("taken")
    other, free = Elsewhere(kit, "taken", queue="other", unique_key="u").claim(), Elsewhere(kit)
    assert await restore(kit, other, free, free) == [False, True, False]
    assert await kit.there("taken") == here
    assert len((await kit.store.history("taken")).events) == 1
    await kit.submit(unique_key="u")
    assert (await kit.stats()).counts == {"pending": 3}


async def test_an_id_is_taken_also_by_what_is_left_of_a_deleted_task(kit: Kit) -> None:
    life = Elsewhere(kit, policy={"discard_states": ("completed",)})
    assert await restore(kit, life) == [True]
    (task,) = await kit.claim()
    await kit.move(task, Complete())
    assert await restore(kit, life) == [False], "or it would run twice"
    assert await kit.get(life.task.id) is None


@pytest.mark.parametrize("place", [0, 2, 4], ids=["first", "middle", "last"])
@pytest.mark.parametrize("bad", ["id", "key", "message"])
async def test_a_snapshot_that_cannot_be_written_keeps_no_other_from_being_restored(
    kit: Kit, place: int, bad: str
) -> None:
    lives = [Elsewhere(kit) for _ in range(4)]
    spoilt = Elsewhere(kit).snapshot()
    half = "\udc80"  # UTF-8 has no bytes for it
    task = spoilt.task
    if bad == "message":
        error = TaskError(message=half)
        task = Task(definition=task.definition, status=replace(task.status, last_error=error))
    else:
        fields = {"id": f"{task.id}-{half}"} if bad == "id" else {"key": half}
        task = Task(definition=replace(task.definition, **fields), status=task.status)
    snapshots = [life.snapshot() for life in lives]
    snapshots.insert(place, replace(spoilt, task=task))
    refused: list[str] = []

    def note(snapshot: Snapshot, why: str) -> bool:
        assert snapshot.task is task, why
        refused.append(snapshot.task.id)
        return False

    await each_alone(kit.store.restore, snapshots, note)
    if kit.factory.durable:  # one in memory encodes nothing
        assert refused == [task.id]
        assert sorted(await kit.find_all()) == sorted(life.task.id for life in lives)
    for life in lives:
        assert await kit.get(life.task.id) == life.task


async def test_a_child_that_needs_some_of_its_dependencies_is_restored_as_such(kit: Kit) -> None:
    parents = [Elsewhere(kit).claim() for _ in range(3)]
    ids = tuple(parent.task.id for parent in parents)
    child = Elsewhere(kit, dependencies=ids, needs=2)
    await restore(kit, *parents, child.snapshot(satisfied=ids[:1]))
    (left,) = await kit.store.settle([Settlement(child.task.id, ids[1], satisfied=False)])
    assert left == 0, "no other may fail it"
    assert await told(kit, child, ids[2]) == 0
