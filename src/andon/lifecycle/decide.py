"""Decides which target a move takes: one small pure function per event.

Each gets the task and the command and returns an `Outcome`. `apply` checks before that the table
has such a move, and checks the outcome against the table after.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from andon.lifecycle import commands as c
from andon.lifecycle import decide_schedules as schedules
from andon.lifecycle.births import owes
from andon.lifecycle.delays import Random, retry_delay
from andon.lifecycle.joins import why_not_extended
from andon.lifecycle.outcome import Outcome
from andon.lifecycle.parents import waits_for_others
from andon.model.errors import InvalidTransition
from andon.model.policy import Policy
from andon.model.task import Task, TaskError
from andon.model.words import WAITING, Event, Reason, State

UNKNOWN_TASK_DELAY_MS = 5_000
"""How long to wait before an unknown task is offered again if its policy waits for code, or retries
at once: a worker that has the code may be starting, and a hot loop would be useless."""


def cancelled(command: c.Command) -> Outcome:
    """Every report, loss or shutdown after a cancel request, except `complete` (docs/rulings.md,
    R7)."""
    reason = Reason.CANCEL_REQUESTED
    if isinstance(command, c.Interrupted):
        reason = command.reason
    return Outcome(State.CANCELLED, reason, reason, error=getattr(command, "error", None))


def retryable(policy: Policy, error: TaskError) -> bool:
    """Whether the policy retries this error, by its code and type names (docs/rulings.md, R23)."""
    names = {error.code, error.type, error.type.rpartition(".")[2]}
    if names.intersection(policy.no_retry_on):
        return False
    if policy.retry_on:
        return bool(names.intersection(policy.retry_on))
    return policy.retry_unlisted


def has_had_all_runs(task: Task) -> bool:
    """Whether the policy allows the task no further run (docs/rulings.md, R42)."""
    most, runs = task.policy.max_runs, task.status.runs
    return most is not None and bool(runs) and runs[-1].number + 1 >= most


def _again(
    task: Task,
    reason: Reason,
    random: Random,
    now: int,
    *,
    spent: State,
    error: TaskError | None = None,
    delay: int | None = None,
) -> Outcome:
    """Retry while the budget lasts, else end in `spent`."""
    policy = task.policy
    tries = task.status.tries + 1
    if tries > policy.max_retries or has_had_all_runs(task):
        final = Reason.RETRIES_EXHAUSTED if spent is State.FAILED and tries > 1 else reason
        return Outcome(spent, final, reason, counts=True, error=error)
    if delay is None:
        delay = retry_delay(policy, tries, random)
    if delay is None:
        return Outcome(State.PENDING, Reason.RETRY, reason, Reason.RETRY, counts=True, error=error)
    return Outcome(State.RETRY, reason, reason, run_at=now + delay, counts=True, error=error)


def _startable(now: int, run_at: int | None, opened: Reason) -> Outcome:
    if run_at is not None and run_at > now:
        return Outcome(State.SCHEDULED, opened, run_at=run_at)
    return Outcome(State.PENDING, opened, opened=opened)


def _unblock(task: Task, command: c.Unblock, now: int, random: Random) -> Outcome:
    if task.status.added != command.added:
        raise InvalidTransition(
            task.id, command.event, task.state, "It waits for more tasks than when this was asked."
        )
    return _startable(now, task.status.run_at, Reason.DEPENDENCIES_MET)


def _schedule(task: Task, command: c.Schedule, now: int, random: Random) -> Outcome:
    return _startable(now, task.status.run_at, Reason.SCHEDULED_BY_HAND)


def _unreach(task: Task, command: c.Unreach, now: int, random: Random) -> Outcome:
    reason = Reason.DEPENDENCY_MISSING if command.missing else Reason.DEPENDENCY_FAILED
    how = "does not exist" if command.missing else f"ended {command.parent_state}"
    said = f"Dependency {command.parent} {how}."
    d = task.definition
    if d.needs is not None:
        said += f" The task needs {d.needs:,} of {len(d.dependencies):,}, and fewer are left."
    error = TaskError(message=said, code=reason.value)
    return Outcome(State.UNREACHABLE, reason, error=error)


def _due(task: Task, command: c.Due, now: int, random: Random) -> Outcome:
    opened = Reason.RETRY if task.state is State.RETRY else Reason.START_TIME
    return Outcome(State.PENDING, opened, opened=opened)


def _request_cancel(task: Task, command: c.RequestCancel, now: int, random: Random) -> Outcome:
    return Outcome(State.ACTIVE, Reason.CANCEL_REQUESTED)


_COMPLETED = Outcome(State.COMPLETED, Reason.SUCCESS, Reason.SUCCESS, counts=True)


def _complete(task: Task, command: c.Complete, now: int, random: Random) -> Outcome:
    births = command.births
    return msgspec.structs.replace(_COMPLETED, births=births) if births else _COMPLETED


def _fail(task: Task, command: c.Fail, now: int, random: Random) -> Outcome:
    policy, reason, error = task.policy, command.reason, command.error
    again = command.retryable
    if again is None:
        if reason is Reason.INTERNAL_ERROR:
            again = policy.retry_internal_errors
        elif reason is Reason.INTERMITTENT_TASK:
            again = True
        elif reason is Reason.TIMEOUT:
            again = _timeout_retryable(policy, error)
        else:
            again = retryable(policy, error)
    if not again:
        return Outcome(State.FAILED, reason, reason, counts=True, error=error)
    return _again(task, reason, random, now, spent=State.FAILED, error=error, delay=command.delay)


def _timeout_retryable(policy: Policy, error: TaskError) -> bool:
    """A timeout counts as expected (docs/design.md, 3.3), unless the lists say otherwise
    (docs/rulings.md, R23)."""
    names = {error.code, "TIMEOUT", "TimeoutError"}
    if names.intersection(policy.no_retry_on):
        return False
    return not policy.retry_on or bool(names.intersection(policy.retry_on))


def _terminate(task: Task, command: c.Terminate, now: int, random: Random) -> Outcome:
    reason = Reason.TERMINATED
    return Outcome(State.FAILED, reason, reason, counts=True, error=command.error)


def _reject(task: Task, command: c.Reject, now: int, random: Random) -> Outcome:
    return Outcome(State.FAILED, command.reason, command.reason, counts=True, error=command.error)


def _unknown_task(task: Task, command: c.UnknownTask, now: int, random: Random) -> Outcome:
    d = task.definition
    error = TaskError(
        message=f"No handler for task {d.name!r} version {d.version} in this worker.",
        code=Reason.UNKNOWN_TASK.value,
    )
    reason = Reason.UNKNOWN_TASK
    rule = task.policy.on_unknown
    if rule == "wait":
        # Only a worker that did not say for which types it has code could get it.
        run_at = now + UNKNOWN_TASK_DELAY_MS
        return Outcome(State.SCHEDULED, reason, reason, run_at=run_at, error=error)
    if rule == "fail":
        return Outcome(State.FAILED, reason, reason, counts=True, error=error)
    if rule == "drop":
        return Outcome(State.DROPPED, reason, reason, counts=True, error=error)
    again = _again(task, reason, random, now, spent=State.DROPPED, error=error)
    if again.state is State.PENDING:
        return Outcome(
            State.RETRY,
            reason,
            reason,
            run_at=now + UNKNOWN_TASK_DELAY_MS,
            counts=True,
            error=error,
        )
    return again


def _snooze(task: Task, command: c.Snooze, now: int, random: Random) -> Outcome:
    reason = Reason.SNOOZED
    return Outcome(State.SCHEDULED, reason, reason, run_at=now + max(command.delay, 0))


def _release(task: Task, command: c.Release, now: int, random: Random) -> Outcome:
    reason = Reason.RELEASED
    return Outcome(State.PENDING, reason, reason, opened=reason, keeps_place=True)


def _stop(task: Task, command: c.Stop, now: int, random: Random) -> Outcome:
    return Outcome(State.STALLED, Reason.WORKER_SHUTDOWN, Reason.WORKER_SHUTDOWN, counts=True)


def _shutdown_retry(task: Task, command: c.ShutdownRetry, now: int, random: Random) -> Outcome:
    return _again(task, Reason.WORKER_SHUTDOWN, random, now, spent=State.STALLED)


def _lose(task: Task, command: c.Lose, now: int, random: Random) -> Outcome:
    reason = Reason.LEASE_EXPIRED
    error = TaskError(
        message="The worker's lease ran out: it died, hung, or lost its connection.",
        code=reason.value,
    )
    if task.policy.on_lost == "stall":
        return Outcome(State.STALLED, reason, reason, counts=True, error=error)
    return _again(task, reason, random, now, spent=State.STALLED, error=error)


def _silence(task: Task, command: c.Silence, now: int, random: Random) -> Outcome:
    reason = Reason.HEARTBEAT_TIMEOUT
    error = TaskError(
        message=f"No heartbeat for {task.policy.max_heartbeat_interval} s.", code=reason.value
    )
    if task.policy.on_silence == "stall":
        return Outcome(State.STALLED, reason, reason, counts=True, error=error)
    return _again(task, reason, random, now, spent=State.STALLED, error=error)


def _interrupted(task: Task, command: c.Interrupted, now: int, random: Random) -> Outcome:
    return cancelled(command)


def _cancel(task: Task, command: c.Cancel, now: int, random: Random) -> Outcome:
    if command.births or command.superseded_run:
        if task.state not in WAITING:
            raise InvalidTransition(
                task.id, command.event, task.state, "Only a task that waits is superseded."
            )
        why = Reason.SUPERSEDED_RUN if command.superseded_run else Reason.SUPERSEDED
        return Outcome(State.CANCELLED, why, why, births=command.births)
    if task.state is State.ACTIVE and not command.force:
        raise InvalidTransition(
            task.id, command.event, task.state, "Request the cancel, or force it."
        )
    reason = Reason.CANCEL_FORCED if task.state is State.ACTIVE else Reason.CANCEL_REQUESTED
    return Outcome(State.CANCELLED, reason, reason)


def _expire(task: Task, command: c.Expire, now: int, random: Random) -> Outcome:
    if task.state is State.ACTIVE and task.policy.deadline_covers == "start":
        raise InvalidTransition(
            task.id, command.event, task.state, "Its deadline covers the start only."
        )
    return Outcome(State.EXPIRED, command.reason, command.reason)


def _evict(task: Task, command: c.Evict, now: int, random: Random) -> Outcome:
    return Outcome(State.CANCELLED, Reason.QUEUE_FULL, Reason.QUEUE_FULL)


def _run_now(task: Task, command: c.RunNow, now: int, random: Random) -> Outcome:
    if task.state is State.RECURRING:
        return schedules.run_now(task, command, now)
    return Outcome(State.PENDING, Reason.RUN_NOW, opened=Reason.RUN_NOW)


def _reschedule(task: Task, command: c.Reschedule, now: int, random: Random) -> Outcome:
    deadline = task.status.deadline
    if deadline is not None and command.run_at >= deadline:
        raise InvalidTransition(
            task.id, command.event, task.state, "The new start time is not before its deadline."
        )
    state = State.BLOCKED if task.state is State.BLOCKED else State.SCHEDULED
    reason = task.status.reason if state is State.BLOCKED else Reason.RESCHEDULED
    return Outcome(state, reason, Reason.RESCHEDULED, run_at=command.run_at)


def _reprioritise(task: Task, command: c.Reprioritise, now: int, random: Random) -> Outcome:
    return Outcome(task.state, task.status.reason)


def _archive(task: Task, command: c.Archive, now: int, random: Random) -> Outcome:
    return Outcome(State.FAILED, Reason.ARCHIVED_BY_HAND, Reason.ARCHIVED_BY_HAND)


def _edit(task: Task, command: c.Edit, now: int, random: Random) -> Outcome:
    if task.status.started_at is not None:
        raise InvalidTransition(task.id, command.event, task.state, "It has begun before.")
    return Outcome(State.CANCELLED, Reason.EDITED, Reason.EDITED)


def _extend(task: Task, command: c.Extend, now: int, random: Random) -> Outcome:
    why = why_not_extended(task, command.added)
    if why:
        raise InvalidTransition(task.id, command.event, task.state, why)
    return Outcome(State.BLOCKED, task.status.reason)


def _deliver(task: Task, command: c.Deliver, now: int, random: Random) -> Outcome:
    status = task.status
    if not owes(status) or command.revision not in (None, status.revision):
        raise InvalidTransition(task.id, command.event, task.state, "It owes no task.")
    return Outcome(task.state, status.reason, error=command.refused)


def _rerun(task: Task, command: c.Rerun, now: int, random: Random) -> Outcome:
    if task.status.schedule is not None:
        return schedules.rerun(task, command, now)
    if task.state is State.BLOCKED and not command.blocked:
        raise InvalidTransition(
            task.id, command.event, task.state, "It has not run yet: schedule it, or run it now."
        )
    if has_had_all_runs(task):
        raise InvalidTransition(
            task.id,
            command.event,
            task.state,
            f"It has had {task.policy.max_runs} runs, which are all that its policy allows "
            "(`max_runs`). Submit it anew, under another id.",
        )
    deadline = command.deadline or task.status.deadline
    if deadline is not None and deadline <= now:
        raise InvalidTransition(
            task.id, command.event, task.state, "Its deadline has passed; give a new one."
        )
    if deadline is not None and command.run_at is not None and command.run_at >= deadline:
        raise InvalidTransition(
            task.id, command.event, task.state, "The start time is not before the deadline."
        )
    if command.waits and task.state is not State.BLOCKED and waits_for_others(task.definition):
        return Outcome(State.BLOCKED, Reason.RERUN)
    return _startable(now, command.run_at, Reason.RERUN)


def _delete(task: Task, command: c.Delete, now: int, random: Random) -> Outcome:
    return Outcome(None, command.reason)


# Each function is registered under the one command type it takes.
DECIDE: dict[Event, Callable[[Task, Any, int, Random], Outcome]] = {
    Event.UNBLOCK: _unblock,
    Event.SCHEDULE: _schedule,
    Event.UNREACH: _unreach,
    Event.DUE: _due,
    Event.REQUEST_CANCEL: _request_cancel,
    Event.COMPLETE: _complete,
    Event.FAIL: _fail,
    Event.TERMINATE: _terminate,
    Event.REJECT: _reject,
    Event.UNKNOWN_TASK: _unknown_task,
    Event.SNOOZE: _snooze,
    Event.RELEASE: _release,
    Event.STOP: _stop,
    Event.SHUTDOWN_RETRY: _shutdown_retry,
    Event.LOSE: _lose,
    Event.SILENCE: _silence,
    Event.INTERRUPTED: _interrupted,
    Event.CANCEL: _cancel,
    Event.EXPIRE: _expire,
    Event.EVICT: _evict,
    Event.RECUR: schedules.recur,
    Event.PAUSE: schedules.pause,
    Event.RESUME: schedules.resume,
    Event.REVISE: schedules.revise,
    Event.RUN_NOW: _run_now,
    Event.RESCHEDULE: _reschedule,
    Event.REPRIORITISE: _reprioritise,
    Event.ARCHIVE: _archive,
    Event.EDIT: _edit,
    Event.EXTEND: _extend,
    Event.DELIVER: _deliver,
    Event.RERUN: _rerun,
    Event.DELETE: _delete,
}
