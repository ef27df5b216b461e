"""Requests of workers: claim work, reclaim a run, report how it ended."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.engine.runs import Mark
from andon.lifecycle.commands import (
    Command,
    Complete,
    Fail,
    Interrupted,
    Reject,
    ShutdownRetry,
)
from andon.lifecycle.repeats import is_repeat
from andon.model.errors import AndonError, LeaseLost
from andon.model.task import Run, Task, TaskError
from andon.model.words import Reason, State
from andon.service.protocol import cycle_of
from andon.service.taskcluster.answers import status_of
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.claim_lines import Claim, Got
from andon.service.taskcluster.claims import (
    claim_document,
    claim_of,
    credentials_of,
    handed_out,
    lease_of,
    run_of,
)
from andon.service.taskcluster.document import kept_of
from andon.service.taskcluster.errors import ApiError, conflict
from andon.service.taskcluster.inputs import ClaimWork, Completed, Exceptional
from andon.service.taskcluster.needs import every
from andon.service.taskcluster.one_claim import unheard_of
from andon.service.taskcluster.reading import Found, find
from andon.service.taskcluster.table import route
from andon.service.taskcluster.trust.taskcredentials import may_speak_for
from andon.service.waiting import until_gone

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine

log = logging.getLogger("andon.service")


@route(
    "claimWork",
    "POST",
    "/claim-work/<taskQueueId*>",
    takes=ClaimWork,
    needs=every("queue:claim-work:<taskQueueId>", "queue:worker-id:<workerGroup>/<workerId>"),
)
async def claim_work(asked: Asked, data: ClaimWork) -> dict[str, Any]:
    """Claim up to so many tasks of a queue, as soon as there is one; none after `claim_wait`."""
    asked.require(workerGroup=data.worker_group, workerId=data.worker_id)
    shared, engine, queue = asked.shared, asked.engine, asked.params["taskQueueId"]
    worker = f"{data.worker_group}/{data.worker_id}"
    await shared.seen(worker, queue)
    engine.registry.note(queue, worker)
    if await engine.registry.is_quarantined(queue, worker):
        await shared.lines.claim_nothing(
            gone=lambda: until_gone(asked.receive),
            stopping=asked.service.stopping.wait,
            wait=asked.settings.claim_wait,
        )
        return {"tasks": []}
    claim = claim_of(engine, queue, worker, data.tasks, asked.settings.claim_timeout)
    if asked.settings.one_claim_per_worker:
        return await _claim_one(asked, data, claim, worker)
    got = await shared.lines.claim(
        queue,
        claim,
        gone=lambda: until_gone(asked.receive),
        stopping=asked.service.stopping.wait,
        wait=asked.settings.claim_wait,
    )
    return await _answer_claim(asked, data, got)


async def _claim_one(asked: Asked, data: ClaimWork, claim: Claim, worker: str) -> dict[str, Any]:
    """Claim for a worker that has one claim at a time: first what it got and has not heard of."""
    shared, engine, queue = asked.shared, asked.engine, asked.params["taskQueueId"]
    async with shared.turns.turn(queue, worker) as superseded:

        async def ends() -> None:
            waits = (asked.service.stopping.wait(), superseded.wait(), until_gone(asked.receive))
            futures = [asyncio.ensure_future(wait) for wait in waits]
            try:
                await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for future in futures:
                    future.cancel()

        tasks = await unheard_of(engine, queue, worker, data.tasks, asked.settings.claim_timeout)
        got = Got(tasks, has_waited=True)  # for its turn, at least
        if not tasks:
            # That the worker has gone ends the wait, but not the claim under way: what it brings is
            # given back below, before the worker's next claim looks for it.
            got = await shared.lines.claim(
                queue,
                claim,
                gone=_never,
                stopping=ends,
                wait=asked.settings.claim_wait,
            )
            if got.tasks:
                await _note_now(engine)
        if superseded.is_set():
            return {"tasks": []}
        return await _answer_claim(asked, data, got)


async def _never() -> None:
    await asyncio.Event().wait()


async def _note_now(engine: "LocalEngine") -> None:
    """Note what was claimed before it is handed out, so that every process finds it."""
    try:
        await engine.registry.flush()
    except (AndonError, OSError) as error:
        log.warning("Claims of workers could not be noted; the next ones are: %s", error)


async def _answer_claim(asked: Asked, data: ClaimWork, got: Got) -> dict[str, Any]:
    """Hand out what was claimed, if the caller is still connected and, after a wait, still
    authorized."""
    tasks = got.tasks
    if not tasks:
        return {"tasks": []}
    shared = asked.shared
    try:
        if got.has_waited:
            await asked.still_allowed(workerGroup=data.worker_group, workerId=data.worker_id)
        claims = await handed_out(asked.engine, shared.trust, tasks)
    except BaseException:
        await shared.give_back(tasks)
        raise
    cycle = cycle_of(asked.scope)
    if cycle is not None and cycle.disconnected:
        await shared.give_back(tasks)
        return {"tasks": []}
    for task in tasks:
        shared.claimed.keep((task.id, task.status.runs[-1].number), task)
    return {"tasks": claims}


@route(
    "reclaimTask",
    "POST",
    "/task/<taskId>/runs/<runId>/reclaim",
    needs="queue:reclaim-task:<taskId>/<runId>",
    late=True,
)
async def reclaim_task(asked: Asked, _: None) -> dict[str, Any]:
    """Keep a run for another claim timeout, with new credentials."""
    engine, number = asked.engine, int(asked.params["runId"])
    task, _kept = await find(engine, asked.task_id)
    run = run_of(task, number)
    deadline = task.status.deadline
    if deadline is not None and deadline < engine.now():
        raise conflict(f"The deadline of task {task.id} has passed.")
    _check_held(task, run)
    _require(asked, run)
    lease_ms = round(asked.settings.claim_timeout * 1000)
    [verdict] = await engine.renew([Renewal(task=task.id, run=run.id, lease_ms=lease_ms)])
    if verdict is Verdict.CANCEL:
        # This conflict is how a worker of the face learns of a cancel: its run has stopped with it.
        await engine.report(task, Interrupted())
    if verdict is not Verdict.OK:
        raise conflict(f"Run {number} of task {task.id} does not hold it any more.")
    engine.registry.note(task.definition.queue, run.worker)
    task, _kept = await find(engine, asked.task_id)
    _check_held(task, run_of(task, number))
    asked.shared.claimed.keep((task.id, number), task)
    credentials = await credentials_of(asked.shared.trust, task)
    return claim_document(task, credentials, with_task=False)


def _check_held(task: Task, run: Run) -> None:
    """Raise `ApiError` (409) unless the run holds its task."""
    if task.state is not State.ACTIVE or run is not task.status.runs[-1]:
        raise conflict(
            f"Run {run.number} of task {task.id} does not hold it: it was never claimed, or has "
            "ended."
        )


def _require(asked: Asked, run: Run) -> None:
    """Raise `ApiError` (403) unless the caller may speak for the run."""
    asked.require()
    if not may_speak_for(asked.caller, asked.task_id, run.number, run.worker):
        raise ApiError(
            "InsufficientScopes",
            f"Client {asked.caller.client_id} speaks for another run than run {run.number} of "
            f"task {asked.task_id}, which {run.worker} has claimed.",
        )


_RESOLVE = "queue:resolve-task:<taskId>/<runId>"


@route(
    "reportCompleted",
    "POST",
    "/task/<taskId>/runs/<runId>/completed",
    takes=Completed,
    needs=_RESOLVE,
    late=True,
)
async def report_completed(asked: Asked, data: Completed) -> dict[str, Any]:
    """Say that a run has succeeded. Old workers say here too that it has failed."""
    return await _report(asked, Complete() if data.success else _failed())


@route("reportFailed", "POST", "/task/<taskId>/runs/<runId>/failed", needs=_RESOLVE, late=True)
async def report_failed(asked: Asked, _: None) -> dict[str, Any]:
    """Say that a run has failed by its own fault."""
    return await _report(asked, _failed())


@route(
    "reportException",
    "POST",
    "/task/<taskId>/runs/<runId>/exception",
    takes=Exceptional,
    needs=_RESOLVE,
    late=True,
)
async def report_exception(asked: Asked, data: Exceptional) -> dict[str, Any]:
    """Say that a run could not be carried through, and why."""
    return await _report(asked, _exceptional(data.reason))


def _failed() -> Command:
    error = TaskError(message="The worker reported that the task has failed.", code="TASK_FAILED")
    return Fail(error=error, retryable=False)


def _exceptional(reason: str) -> Command:
    if reason == "worker-shutdown":
        return ShutdownRetry()
    error = TaskError(message=f"The worker reported {reason}.", code=reason)
    match reason:
        case "intermittent-task":
            return Fail(error=error, reason=Reason.INTERMITTENT_TASK)
        case "internal-error":
            return Fail(error=error, reason=Reason.INTERNAL_ERROR)
        case _:
            return Reject(error=error, reason=Reason(reason))


async def _report(asked: Asked, command: Command) -> dict[str, Any]:
    """Resolve a run. What was reported of it before is answered as it was then; anything else is
    refused (docs/rulings.md, R33)."""
    engine, number = asked.engine, int(asked.params["runId"])
    task, kept = await _to_report(asked, number)
    run = run_of(task, number)
    if run.claimed_at is None:
        raise conflict(f"Run {number} of task {task.id} was never claimed.")
    if run.resolved_at is not None and not is_repeat(task.status, run.id, command):
        raise _resolved(task, run)
    _require(asked, run)
    try:
        resolved = await engine.report_run(task.id, run.id, task, command, Mark())
    except LeaseLost:
        task, _kept = await find(engine, asked.task_id)
        raise _resolved(task, run_of(task, number)) from None
    if resolved.task is None:
        resolved_task, kept = await find(engine, asked.task_id)
    else:
        resolved_task = resolved.task
    return {"status": status_of(resolved_task, kept)}


async def _to_report(asked: Asked, number: int) -> Found:
    """The task of a run that is reported: as it was claimed here, if it is reported with the
    credentials of that very claim; else as it stands. A reclaim, which another process may have
    answered, brings others.

    Raises `ApiError` (404).
    """
    task = asked.shared.claimed.take((asked.task_id, number))
    by = asked.caller.run
    if task is not None and by is not None and by.until == lease_of(task) // 1000:
        kept = kept_of(task)
        if kept is not None:
            return Found(task, kept)
    return await find(asked.engine, asked.task_id)


def _resolved(task: Task, run: Run) -> ApiError:
    why = "" if run.resolved_reason is None else f": {run.resolved_reason.value}"
    return conflict(f"Run {run.number} of task {task.id} has ended otherwise{why}.")


ROUTES = [claim_work, reclaim_task, report_completed, report_failed, report_exception]
