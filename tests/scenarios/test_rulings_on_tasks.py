"""Rulings on dependencies (docs/rulings.md, R8, R9), queues (docs/rulings.md, R17, R18), reruns
(docs/rulings.md, R20), keeping (docs/rulings.md, R21), submits (docs/rulings.md, R26, R31), unique
keys (docs/rulings.md, R13), policies (docs/rulings.md, R5) and events (docs/rulings.md, R12).
"""

import asyncio
from typing import Any

import pytest
from processes import PATIENCE
from servers import harm

from andon import TaskHandle
from andon.contract.queries import Query
from andon.engine.base import Submission
from andon.lifecycle.commands import Delete
from andon.model.errors import (
    InvalidTransition,
    SubmissionsRefused,
    TaskConflict,
    TaskNotFound,
    UniqueKeyHeld,
)
from andon.model.words import Reason, State

from .apps.native import collect, fail, fence, hold, work
from .holding import held
from .stage import GONE, Scene

APP = "scenarios.apps.native:app"

Handle = TaskHandle[Any]
BEGUN = ("pending", "active")
SOON = 0.05  # seconds

fail_at_once = fail.options(max_retries=0)


async def unserved(scene: Scene, **options: Any) -> Handle:
    """A task that nobody takes."""
    return await work.options(queue=scene.new("unserved"), **options).submit(1)


# --- docs/rulings.md, R8, R9: dependencies ---


async def test_r8_an_unreachable_task_makes_its_dependents_unreachable_at_once(
    scene: Scene,
) -> None:
    parent, gate = await held(scene)
    child = await work.options(depends_on=parent).submit(1)
    grandchild = await work.options(depends_on=child).submit(1)
    await parent.cancel(force=True)
    gate.open()
    await scene.sees(child, "blocked", "unreachable")
    await scene.sees(grandchild, "blocked", "unreachable")
    ended = (await scene.get(parent)).status.finished_at or 0
    assert ((await scene.get(grandchild)).status.finished_at or 0) - ended < 1_500


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "unreachable"])
async def test_r8_all_resolved_takes_any_end(scene: Scene, end: str) -> None:
    parent = await _ended(scene, end)
    child = await work.options(depends_on=parent, requires="all-resolved").submit(1)
    await scene.sees(child, "blocked", *BEGUN, "completed")


@pytest.mark.parametrize("end", ["failed", "cancelled", "unreachable"])
async def test_r8_all_completed_takes_no_other_end(scene: Scene, end: str) -> None:
    parent = await _ended(scene, end)
    child = await work.options(depends_on=parent).submit(1)
    await scene.sees(child, "blocked", "unreachable")
    assert (await scene.get(child)).status.reason is Reason.DEPENDENCY_FAILED


async def _ended(scene: Scene, end: str) -> Handle:
    if end == "completed":
        handle = await work.submit(1)
    elif end == "failed":
        handle = await fail_at_once.submit()
    elif end == "cancelled":
        handle = await unserved(scene)
        await handle.cancel()
    else:
        handle = await work.options(depends_on=await fail_at_once.submit()).submit(1)
    assert (await scene.end(handle)).state.value == end
    return handle


async def test_r8_a_task_that_depends_on_itself_waits_to_be_scheduled(scene: Scene) -> None:
    own = scene.new("task")
    handle = await work.options(id=own, depends_on=own).submit(1)
    await scene.sees(handle, "blocked")
    await handle.schedule()
    await scene.sees(handle, "blocked", *BEGUN, "completed")


async def test_r8_with_wait_a_rerun_that_completes_satisfies_at_once(scene: Scene) -> None:
    parent = await fail_at_once.submit(1)
    await scene.end(parent)
    child = await work.options(depends_on=parent, on_dependency_failure="wait").submit(1)
    await scene.sees(child, "blocked")
    await parent.rerun()
    await scene.sees(child, "blocked", *BEGUN, "completed")
    ended = (await scene.get(parent)).status.finished_at or 0
    assert ((await scene.get(child)).status.submitted_at or 0) - ended < 1_000


async def test_r8_with_wait_it_can_be_scheduled_by_hand(scene: Scene) -> None:
    parent = await fail_at_once.submit()
    child = await work.options(depends_on=parent, on_dependency_failure="wait").submit(1)
    await scene.end(parent)
    await child.schedule()
    await scene.sees(child, "blocked", *BEGUN, "completed")


async def test_r8_running_a_blocked_task_now_frees_it_of_its_parents(scene: Scene) -> None:
    parent, gate = await held(scene)
    child = await work.options(depends_on=parent).submit(1)
    await child.retry()
    await scene.sees(child, "blocked", *BEGUN, "completed")
    [edge] = await scene.store.dependents(parent.id)  # stays to be read (docs/rulings.md, R42)
    assert edge.child == child.id
    await parent.cancel()
    await scene.end(parent)
    gate.open()
    await scene.sees(child, "blocked", *BEGUN, "completed")


async def test_r8_a_rerun_does_not_revive_the_unreachable(scene: Scene) -> None:
    parent = await fail_at_once.submit(1)
    child = await work.options(depends_on=parent).submit(1)
    await scene.sees(child, "blocked", "unreachable")
    await parent.rerun()
    await scene.end(parent)
    await scene.end(await work.submit(1))
    await scene.sees(child, "blocked", "unreachable")


async def test_r8_a_circle_in_one_bulk_submit_is_refused(scene: Scene) -> None:
    one, two = scene.new("task"), scene.new("task")
    drafts = [
        work.options(id=one, depends_on=two).draft(1),
        work.options(id=two, depends_on=one).draft(1),
        work.options(queue=scene.new("unserved")).draft(3),
    ]
    with pytest.raises(SubmissionsRefused) as refused:
        await scene.stage.app.submit_many(drafts)
    assert set(refused.value.errors) == {one, two}
    assert refused.value.accepted == (drafts[2].id,)
    assert await scene.engine.get([one, two]) == [None, None]


async def test_r8_a_child_of_a_refused_parent_is_refused(scene: Scene) -> None:
    parent = work.options(id=scene.new("task"), deadline_in=1.0, delay=5.0).draft(1)
    child = work.options(depends_on=parent).draft(1)
    with pytest.raises(SubmissionsRefused) as refused:
        await scene.stage.app.submit_many([child, parent])
    assert set(refused.value.errors) == {parent.id, child.id}


async def test_r8_a_graph_in_one_bulk_submit_runs_parents_first(scene: Scene) -> None:
    parents = [work.draft(n) for n in range(3)]
    child = collect.options(depends_on=parents, load_dependencies=True).draft()
    *_, handle = await scene.stage.app.submit_many([child, *parents])
    results = await scene.stage.app.handle(child.id).result(PATIENCE)
    assert results == {parent.id: ["completed", n] for n, parent in enumerate(parents)}
    assert handle.id == parents[-1].id


async def test_r9_a_parent_is_kept_until_who_loads_its_result_has_ended(scene: Scene) -> None:
    gate = scene.gate()
    parent = await hold.options(retention=0.0).submit(gate.path)
    child = collect.options(depends_on=parent, load_dependencies=True)
    handle = await child.options(queue=scene.new("queue")).submit()
    await gate.begun()
    gate.open()
    await scene.sees(parent, *BEGUN, "completed")
    scene.worker((await scene.get(handle)).definition.queue)
    assert await handle.result(PATIENCE) == {parent.id: ["completed", 0]}
    await scene.sees(parent, *BEGUN, "completed", GONE)


async def test_r9_a_parent_deleted_by_force_is_loaded_as_deleted(scene: Scene) -> None:
    queue = scene.new("queue")
    parent = await work.submit(1)
    loading = collect.options(queue=queue, depends_on=parent, load_dependencies=True)
    handle = await loading.submit()
    await scene.reaches(handle, State.PENDING)
    [refused] = await scene.engine.act([parent.id], Delete())
    assert isinstance(refused.error, InvalidTransition)
    await scene.engine.act([parent.id], Delete(), force=True)
    scene.worker(queue)
    assert await handle.result(PATIENCE) == {parent.id: ["deleted", None]}


async def test_r8_an_unblocked_task_still_waits_for_its_start_time(scene: Scene) -> None:
    parent = await _ended(scene, "completed")
    child = await scene.in_time(
        lambda seconds: work.options(depends_on=parent, delay=seconds).submit(1),
        lambda task: task.state is State.SCHEDULED,
    )
    await scene.sees(child, "blocked", "scheduled", *BEGUN, "completed")


# --- docs/rulings.md, R17, R18: queues ---


async def test_r17_the_queue_timeout_counts_while_the_queue_is_paused(scene: Scene) -> None:
    worker = scene.worker()
    await scene.engine.configure_queue(worker.queue, {"paused": True})
    handle = await work.options(queue=worker.queue, queue_timeout=0.2).submit(1)
    await scene.sees(handle, "pending", "expired")
    assert (await scene.get(handle)).status.reason is Reason.QUEUE_TIMEOUT


async def test_r17_it_counts_from_each_entry_into_pending(scene: Scene) -> None:
    def waits_for_longer(seconds: float) -> Any:
        options = fail.options(queue_timeout=seconds, retry_delay=seconds * 1.5, max_retries=1)
        return options.submit(1)

    handle = await scene.in_time(waits_for_longer, lambda task: task.state is State.COMPLETED)
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "completed")


async def test_r18_the_task_discarded_from_a_full_queue_says_so(scene: Scene) -> None:
    queue = scene.new("unserved")
    await scene.engine.configure_queue(queue, {"max_size": 1, "on_full": "discard-old"})
    old, new = [await work.options(queue=queue).submit(n) for n in range(2)]
    await scene.sees(old, "pending", "cancelled")
    assert (await scene.get(old)).status.reason is Reason.QUEUE_FULL
    assert await scene.moves(old) == ["submit", "evict"]
    await scene.sees(new, "pending")


# --- docs/rulings.md, R20: rerun ---


async def test_r20_a_rerun_clears_what_the_last_life_left_but_its_error(scene: Scene) -> None:
    queue = scene.new("queue")
    worker = scene.worker(queue)
    handle = await fail.options(queue=queue, max_retries=1).submit(9)
    await scene.end(handle)
    worker.terminate()
    await worker.exited()
    await handle.rerun()
    status = (await scene.get(handle)).status
    assert (status.finished_at, status.progress, status.tries) == (None, 0, 0)
    assert status.last_error is not None
    scene.worker(queue)
    again = (*BEGUN, "retry", *BEGUN, "failed")
    await scene.sees(handle, *again, *again)


async def test_r20_keep_budget_gives_one_more_run(scene: Scene) -> None:
    handle = await fail.options(max_retries=1).submit(9)
    await scene.end(handle)
    await handle.rerun(keep_budget=True)
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "failed", *BEGUN, "failed")


async def test_r20_a_rerun_may_be_for_later(scene: Scene) -> None:
    handle = await work.submit(1)
    await scene.end(handle)
    await handle.rerun(run_at=scene.engine.now() + 2_000)
    await scene.sees(handle, *BEGUN, "completed", "scheduled", *BEGUN, "completed")


async def test_r20_after_the_deadline_a_rerun_needs_a_new_one(scene: Scene) -> None:
    handle = await unserved(scene, deadline_in=0.1)
    await scene.sees(handle, "pending", "expired")
    with pytest.raises(InvalidTransition):
        await handle.rerun()
    await handle.rerun(deadline=scene.engine.now() + 60_000)
    await scene.sees(handle, "pending", "expired", "pending")


async def test_r20_a_rerun_does_not_ask_about_dependencies_again(scene: Scene) -> None:
    parent = await fail_at_once.submit()
    child = await work.options(depends_on=parent).submit(1)
    await scene.sees(child, "blocked", "unreachable")
    await child.rerun()
    await scene.sees(child, "blocked", "unreachable", *BEGUN, "completed")


async def test_r20_retry_means_what_the_state_asks_for(scene: Scene) -> None:
    waiting = await fail.options(retry_delay=3600.0).submit(1)
    await scene.reaches(waiting, State.RETRY)
    assert await waiting.retry() is State.PENDING
    await scene.sees(waiting, *BEGUN, "retry", *BEGUN, "completed")
    assert await waiting.retry() is State.PENDING
    pending = await unserved(scene)
    assert await pending.retry() is State.PENDING
    await scene.sees(pending, "pending")
    running, gate = await held(scene)
    with pytest.raises(InvalidTransition):
        await running.retry()
    gate.open()
    await scene.end(running)


async def test_r13_a_rerun_takes_its_unique_key_again_or_is_refused(scene: Scene) -> None:
    key = scene.new("key")
    first = await work.options(unique_key=key).submit(1)
    await scene.end(first)
    holder = await unserved(scene, unique_key=key)
    with pytest.raises(UniqueKeyHeld):
        await first.rerun()
    await holder.cancel()
    await first.rerun()
    await scene.sees(first, *BEGUN, "completed", *BEGUN, "completed")


# --- docs/rulings.md, R21: keeping ---


async def test_r21_each_end_is_kept_for_its_own_time(scene: Scene) -> None:
    kept: dict[str, float | None] = {"completed": SOON, "failed": 3600.0}
    completed = await work.options(retention=kept, dead_letter="none").submit(1)
    failed = await fail_at_once.options(retention=kept, dead_letter="none").submit()
    await scene.sees(completed, *BEGUN, "completed", GONE)
    await scene.sees(failed, *BEGUN, "failed")


async def test_r21_a_discarded_task_goes_after_its_event(scene: Scene) -> None:
    handle = await work.options(discard_states=("completed",)).submit(1)
    await scene.sees(handle, *BEGUN, "completed", GONE)
    assert (await scene.events(handle))[-1].reason is Reason.DISCARDED


async def test_r21_a_dead_letter_goes_when_its_time_is_over(scene: Scene) -> None:
    worker = scene.worker()
    letter = fail_at_once.options(queue=worker.queue, dead_letter_retention=0.3)
    handle = await letter.submit()
    await scene.sees(handle, *BEGUN, "failed")
    await scene.sees(handle, *BEGUN, "failed", GONE)
    assert not (await scene.engine.find(Query(dead_letters=True, queue=worker.queue))).tasks


async def test_r21_expires_never_removes_a_live_task(scene: Scene) -> None:
    gate = scene.gate()
    handle = await hold.options(expires_at=scene.engine.now() + 200).submit(gate.path)
    await gate.begun()
    expires = (await scene.get(handle)).status.expires_at or 0
    await asyncio.sleep(max(expires - scene.engine.now(), 0) / 1000 + 0.1)
    await scene.sees(handle, *BEGUN)
    gate.open()
    await scene.sees(handle, *BEGUN, "completed", GONE)


# --- docs/rulings.md, R26, R31: submits repeated, ids used again ---


async def test_r26_a_repeated_submit_is_the_same_task(scene: Scene) -> None:
    draft = work.options(delay=0.2).draft(1)
    first, second = await draft.submit(), await draft.submit()
    assert (first.created, second.created) == (True, False)
    await scene.sees(first, "scheduled", *BEGUN, "completed")
    third = await draft.submit()
    assert third.created is False
    await scene.sees(first, "scheduled", *BEGUN, "completed")


async def test_r26_another_definition_under_the_same_id_is_a_conflict(scene: Scene) -> None:
    handle = await unserved(scene)
    before = await scene.get(handle)
    with pytest.raises(TaskConflict):
        await work.options(id=handle.id, queue=before.definition.queue).submit(2)
    assert await scene.get(handle) == before


async def test_r31_a_submit_repeated_after_the_deletion_runs_nothing_again(scene: Scene) -> None:
    draft = work.options(retention=0.0).draft(1)
    handle = await draft.submit()
    await scene.sees(handle, *BEGUN, "completed", GONE)
    assert (await draft.submit()).created is False
    with pytest.raises(TaskNotFound):
        await handle.get()
    await scene.sees(handle, *BEGUN, "completed", GONE)


async def test_r31_an_id_used_again_is_a_new_task_with_a_greater_fence(scene: Scene) -> None:
    draft = fence.draft()
    first = await (await draft.submit()).result(PATIENCE)
    await scene.stage.app.handle(draft.id).delete()
    await harm.forget_deletions(scene.stage.store_url)
    again = await draft.submit()
    assert again.created
    assert await again.result(PATIENCE) > first


# --- docs/rulings.md, R5, R12, R28 ---


async def test_r5_who_submits_without_the_code_gets_the_types_own_policy(scene: Scene) -> None:
    worker = scene.worker()
    await scene.says(worker, "running")
    task_id = scene.new("task")
    await scene.engine.submit([Submission(id=task_id, name="fail", args=b"{}")])
    task = await scene.reaches(task_id, State.RETRY)
    assert (task.policy.retry_delay, task.policy.backoff) == (0.05, "constant")
    await scene.engine.cancel([task_id])


async def test_r12_every_revision_is_told_once_and_in_order(scene: Scene) -> None:
    handle = await fail.options(max_retries=2).submit(2)
    await scene.sees(handle, *BEGUN, "retry", *BEGUN, "retry", *BEGUN, "completed")
    revisions = [event.revision for event in await scene.events(handle)]
    assert revisions == list(range(1, len(revisions) + 1))


async def test_r12_events_outlive_the_record(scene: Scene) -> None:
    handle = await work.options(retention=0.0).submit(1)
    await scene.sees(handle, *BEGUN, "completed", GONE)
    assert await scene.engine.get([handle.id]) == [None]
    assert await scene.moves(handle) == ["submit", "claim", "complete", "delete"]


async def test_r28_a_record_that_does_not_decode_is_set_aside_and_others_go_on(
    scene: Scene,
) -> None:
    queue = scene.new("queue")
    # Met when its time comes: a claim on a server need not read what it hands out.
    later = work.options(queue=queue, delay=3.0)
    broken, whole = [await later.submit(n) for n in range(2)]
    await harm.damage(scene.stage.store_url, broken.id)
    scene.worker(queue)
    await scene.sees(whole, "scheduled", *BEGUN, "completed")
    await scene.sees(broken, "scheduled", "unknown")
    await scene.engine.act([broken.id], Delete())
    await scene.sees(broken, "scheduled", "unknown", GONE)
