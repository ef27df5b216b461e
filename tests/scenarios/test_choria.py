"""Choria asyncjobs, "Tasks lifecycle": each state it lists, and each way between them.

Its page has the diagram as a picture; the arrows are those that its text gives.
"""

import asyncio
from typing import Any

import pytest
from processes import PATIENCE
from servers import harm

from andon import TaskHandle
from andon.model.words import Reason, State

from .apps.choria import collect, email_new, give_up, hold
from .stage import GONE, Arrow, Scene, each, missing

APP = "scenarios.apps.choria:app"

DIAGRAM = (
    "new -> new: a new task",
    "new -> blocked: a new task with dependencies",
    "new -> active: a handler takes it",
    "active -> completed: it succeeded",
    "active -> retry: it failed, and is tried again later",
    "active -> terminated: the handler asked to terminate it",
    "active -> terminated: it has had its tries",
    "new -> expired: it is past its deadline",
    "retry -> expired: it is past its deadline",
    "retry -> active: its retry",
    "blocked -> active: its dependencies are complete",
    "blocked -> unreachable: a dependency failed",
    "completed -> retry: retried by id",
    "terminated -> retry: retried by id",
    "unreachable -> retry: retried by id",
    "new -> unknown: it is corrupt",
    "completed -> gone: completed tasks are discarded",
    "expired -> gone: expired tasks are discarded",
    "terminated -> gone: terminated tasks are discarded",
    "unreachable -> gone: unreachable tasks are discarded",
    "completed -> gone: the retention of the store has passed",
)

Handle = TaskHandle[Any]
SOON = 0.05  # seconds

# Choria's own table begins at a minute.
prompt = email_new.options(backoff="constant", retry_delay=SOON)


async def succeed(scene: Scene) -> Handle:
    return await email_new.submit()


async def fail_once(scene: Scene) -> Handle:
    return await prompt.submit(1)


async def use_up_the_tries(scene: Scene) -> Handle:
    return await prompt.options(max_retries=1).submit(9)


async def terminate(scene: Scene) -> Handle:
    return await give_up.submit()


async def miss_the_deadline(scene: Scene) -> Handle:
    return await email_new.options(queue=scene.new("unserved"), deadline_in=0.1).submit()


async def miss_the_deadline_after_a_failure(scene: Scene) -> Handle:
    return await scene.in_time(
        lambda seconds: email_new.options(deadline_in=seconds).submit(1),
        lambda task: task.state is State.RETRY,
    )


async def depend_on_a_success(scene: Scene) -> Handle:
    gate = scene.gate()
    parent = await hold.submit(gate.path)
    child = await email_new.options(depends_on=parent).submit()
    await gate.begun()
    gate.open()
    return child


async def depend_on_a_failure(scene: Scene) -> Handle:
    return await email_new.options(depends_on=await give_up.submit()).submit()


async def retry_the_completed(scene: Scene) -> Handle:
    handle = await email_new.submit()
    await scene.end(handle)
    await handle.retry()
    return handle


async def retry_the_terminated(scene: Scene) -> Handle:
    handle = await give_up.submit()
    await scene.end(handle)
    await handle.retry()
    return handle


async def retry_the_unreachable(scene: Scene) -> Handle:
    handle = await depend_on_a_failure(scene)
    await scene.end(handle)
    await handle.retry()
    return handle


async def be_corrupt(scene: Scene) -> Handle:
    # Met when its time comes: a claim on a server need not read what it hands out.
    queue = scene.new("queue")
    handle = await email_new.options(queue=queue, delay=3.0).submit()
    await harm.damage(scene.stage.store_url, handle.id)
    scene.worker(queue)
    return handle


async def discard_the_completed(scene: Scene) -> Handle:
    return await email_new.options(discard_states=("completed",)).submit()


async def discard_the_expired(scene: Scene) -> Handle:
    discarded = email_new.options(discard_states=("expired",), deadline_in=0.1)
    return await discarded.options(queue=scene.new("unserved")).submit()


async def discard_the_terminated(scene: Scene) -> Handle:
    return await give_up.options(discard_states=("failed",)).submit()


async def discard_the_unreachable(scene: Scene) -> Handle:
    discarded = email_new.options(discard_states=("unreachable",))
    return await discarded.options(depends_on=await give_up.submit()).submit()


async def outlive_the_retention(scene: Scene) -> Handle:
    return await email_new.options(retention=SOON).submit()


ARROWS = (
    Arrow("new -> new: a new task", succeed, "new", "active", "completed"),
    Arrow(
        "new -> blocked: a new task with dependencies",
        depend_on_a_success,
        *("blocked", "active", "completed"),
    ),
    Arrow("new -> active: a handler takes it", succeed, "new", "active", "completed"),
    Arrow("active -> completed: it succeeded", succeed, "new", "active", "completed"),
    Arrow(
        "active -> retry: it failed, and is tried again later",
        fail_once,
        *("new", "active", "retry", "active", "completed"),
    ),
    Arrow(
        "active -> terminated: the handler asked to terminate it",
        terminate,
        *("new", "active", "terminated"),
    ),
    Arrow(
        "active -> terminated: it has had its tries",
        use_up_the_tries,
        *("new", "active", "retry", "active", "terminated"),
    ),
    Arrow("new -> expired: it is past its deadline", miss_the_deadline, "new", "expired"),
    Arrow(
        "retry -> expired: it is past its deadline",
        miss_the_deadline_after_a_failure,
        *("new", "active", "retry", "expired"),
    ),
    Arrow(
        "retry -> active: its retry",
        fail_once,
        *("new", "active", "retry", "active", "completed"),
    ),
    Arrow(
        "blocked -> active: its dependencies are complete",
        depend_on_a_success,
        *("blocked", "active", "completed"),
    ),
    Arrow(
        "blocked -> unreachable: a dependency failed",
        depend_on_a_failure,
        *("blocked", "unreachable"),
    ),
    Arrow(
        "completed -> retry: retried by id",
        retry_the_completed,
        *("new", "active", "completed", "retry", "active", "completed"),
    ),
    Arrow(
        "terminated -> retry: retried by id",
        retry_the_terminated,
        *("new", "active", "terminated", "retry", "active", "completed"),
    ),
    Arrow(
        "unreachable -> retry: retried by id",
        retry_the_unreachable,
        *("blocked", "unreachable", "retry", "active", "completed"),
    ),
    Arrow("new -> unknown: it is corrupt", be_corrupt, "new", "unknown"),
    Arrow(
        "completed -> gone: completed tasks are discarded",
        discard_the_completed,
        *("new", "active", "completed", GONE),
    ),
    Arrow(
        "expired -> gone: expired tasks are discarded",
        discard_the_expired,
        *("new", "expired", GONE),
    ),
    Arrow(
        "terminated -> gone: terminated tasks are discarded",
        discard_the_terminated,
        *("new", "active", "terminated", GONE),
    ),
    Arrow(
        "unreachable -> gone: unreachable tasks are discarded",
        discard_the_unreachable,
        *("blocked", "unreachable", GONE),
    ),
    Arrow(
        "completed -> gone: the retention of the store has passed",
        outlive_the_retention,
        *("new", "active", "completed", GONE),
    ),
)


def test_the_table_has_every_arrow_of_the_page() -> None:
    assert missing(DIAGRAM, ARROWS) == []


@pytest.mark.parametrize(**each(ARROWS))
async def test_a_worker_takes_the_arrow(scene: Scene, arrow: Arrow) -> None:
    assert arrow.is_taken
    await scene.sees(await arrow.provoke(scene), *arrow.names)


# --- what the page says of each property ---


@pytest.mark.parametrize(
    ("kind", "handler"),
    [
        ("email:new", "email:new"),
        ("email:bounce", "email"),
        ("email", "email"),
        ("emailer", "anything"),
        ("invoice:new", "anything"),
    ],
)
async def test_the_type_selects_the_handler_that_matches_best(
    scene: Scene, kind: str, handler: str
) -> None:
    handle = await scene.stage.app.submit(kind)
    assert await handle.result(PATIENCE) == handler


async def test_the_deadline_is_about_the_start_only(scene: Scene) -> None:
    gate = scene.gate()
    handle = await scene.in_time(
        lambda seconds: hold.options(deadline_in=seconds).submit(gate.path),
        lambda task: task.state is State.ACTIVE,
    )
    await gate.begun()
    deadline = (await scene.get(handle)).status.deadline or 0
    await asyncio.sleep((deadline - scene.engine.now()) / 1000 + 0.1)
    gate.open()
    await scene.sees(handle, "new", "active", "completed")
    assert ((await scene.get(handle)).status.finished_at or 0) > deadline


async def test_a_task_past_its_deadline_is_never_handled(scene: Scene) -> None:
    handle = await miss_the_deadline(scene)
    record = await scene.get(handle)
    await asyncio.sleep(((record.status.deadline or 0) - scene.engine.now()) / 1000 + 0.1)
    late = scene.worker(record.definition.queue)
    await scene.sees(handle, "new", "expired")
    await scene.says(late, "running")
    assert (await scene.record(handle))["Tries"] == 0


async def test_tries_are_ten_by_default(scene: Scene) -> None:
    handle = await prompt.submit(99)
    await scene.sees(handle, "new", *["active", "retry"] * 9, "active", "terminated")
    record = await scene.record(handle)
    assert (record["Tries"], record["MaxTries"]) == (10, 10)


async def test_the_results_of_dependencies_are_loaded(scene: Scene) -> None:
    parents = [await email_new.submit() for _ in range(2)]
    handle = await collect.options(depends_on=parents, load_dependencies=True).submit()
    assert await handle.result(PATIENCE) == {parent.id: "email:new" for parent in parents}


async def test_without_loading_them_the_handler_has_no_results(scene: Scene) -> None:
    handle = await collect.options(depends_on=await email_new.submit()).submit()
    assert await handle.result(PATIENCE) == {}


async def test_every_dependency_must_be_complete(scene: Scene) -> None:
    first, second = scene.gate(), scene.gate()
    parents = [await hold.submit(gate.path) for gate in (first, second)]
    handle = await email_new.options(depends_on=parents).submit()
    first.open()
    await scene.end(parents[0])
    await scene.sees(handle, "blocked")
    second.open()
    await scene.sees(handle, "blocked", "active", "completed")


async def test_an_unblocked_task_still_shows_as_blocked_until_it_is_handled(scene: Scene) -> None:
    queue = scene.new("unserved")
    handle = await email_new.options(queue=queue, depends_on=await email_new.submit()).submit()
    await scene.reaches(handle, State.PENDING)
    assert await scene.state(handle) == "blocked"
    scene.worker(queue)
    await scene.sees(handle, "blocked", "active", "completed")


async def test_a_task_whose_dependency_does_not_exist_is_unreachable(scene: Scene) -> None:
    handle = await email_new.options(depends_on="nobody").submit()
    ended = await scene.end(handle)
    assert (ended.state, ended.status.reason) == (State.UNREACHABLE, Reason.DEPENDENCY_MISSING)


# --- what the page says of the outcomes ---


async def test_a_success_sets_the_result_and_its_time(scene: Scene) -> None:
    handle = await succeed(scene)
    await scene.end(handle)
    record = await scene.record(handle)
    assert (record["State"], record["Result"]["Payload"]) == ("completed", "email:new")
    assert record["Result"]["Completed"] >= record["LastTriedAt"] >= record["CreatedAt"]
    assert record["Queue"] == "default"


async def test_tries_and_the_last_error_are_counted_along(scene: Scene) -> None:
    handle = await email_new.submit(1)
    await scene.reaches(handle, State.RETRY)
    record = await scene.record(handle)
    assert (record["State"], record["Tries"]) == ("retry", 1)
    assert record["LastErr"] == "no mail server"
    await handle.retry()
    await scene.end(handle)
    assert (await scene.record(handle))["Tries"] == 2


async def test_a_task_that_was_never_handled_was_never_tried(scene: Scene) -> None:
    handle = await email_new.options(queue=scene.new("unserved")).submit()
    record = await scene.record(handle)
    assert (record["State"], record["LastTriedAt"], record["Tries"]) == ("new", None, 0)


async def test_retries_follow_the_ten_minute_table(scene: Scene) -> None:
    handle = await email_new.submit(1)
    task = await scene.reaches(handle, State.RETRY)
    delay = ((task.status.run_at or 0) - task.status.events[-1].at) / 1000
    assert 0.9 * 70.8 <= delay <= 1.9 * 70.8
    await handle.cancel()


# --- what the page says of retrying by id, and of discarding ---


async def test_a_retry_by_id_clears_the_result(scene: Scene) -> None:
    queue = scene.new("queue")
    worker = scene.worker(queue)
    handle = await email_new.options(queue=queue).submit()
    await scene.end(handle)
    worker.terminate()
    await worker.exited()
    await handle.retry()
    record = await scene.record(handle)
    assert (record["State"], record["Result"]) == ("retry", None)


async def test_a_retry_by_id_replaces_the_work_item_that_waits(scene: Scene) -> None:
    handle = await email_new.submit(1)
    await scene.reaches(handle, State.RETRY)
    await handle.retry()
    await scene.sees(handle, "new", "active", "retry", "active", "completed")
    assert len((await scene.get(handle)).status.runs) == 2


async def test_without_configuration_tasks_are_kept_for_ever(scene: Scene) -> None:
    task = await scene.end(await succeed(scene))
    assert all(task.policy.retention.of(s) is None for s in ("completed", "failed", "expired"))
    assert task.status.expires_at is None


async def test_watchers_see_the_end_before_the_task_is_discarded(scene: Scene) -> None:
    handle = await discard_the_completed(scene)
    await scene.sees(handle, "new", "active", "completed", GONE)
    assert await scene.moves(handle) == ["submit", "claim", "complete", "delete"]


async def test_states_that_are_not_to_be_discarded_are_kept(scene: Scene) -> None:
    handle = await give_up.options(discard_states=("completed", "expired")).submit()
    await scene.sees(handle, "new", "active", "terminated")
    assert (await scene.record(handle))["State"] == "terminated"
