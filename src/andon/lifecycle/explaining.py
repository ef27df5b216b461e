"""Explains in a sentence why a failed task was not retried, and when a schedule fires. Pure; reads
the record only."""

from collections.abc import Callable

from andon.model.policy import Policy
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State

_PLAIN = {
    Reason.TERMINATED: "The handler gave the task up.",
    Reason.MALFORMED_PAYLOAD: "Its arguments do not fit the handler, and would not the next time.",
    Reason.RESULT_INVALID: "Its result cannot be kept, and the handler would only make it again.",
    Reason.SIGNATURE_REFUSED: "It is not signed, as it stands, with a key that its worker trusts.",
    Reason.VALIDATION_ERROR: "The submission can never work.",
    Reason.UNKNOWN_TASK: "No worker that got it had code for it, and its policy says not to wait.",
    Reason.ARCHIVED_BY_HAND: "It was archived by hand.",
    Reason.WORKER_SHUTDOWN: "Its worker was stopped, and its policy says on_shutdown=stop.",
}


def not_retried(task: Task) -> str:
    """Why the task is not tried again; empty unless it failed."""
    status, policy = task.status, task.policy
    if status.state not in (State.FAILED, State.STALLED, State.DROPPED) or status.reason is None:
        return ""
    if status.tries > policy.max_retries:
        return _spent(policy)
    plain = _PLAIN.get(status.reason)
    if plain is not None:
        return plain
    if status.reason is Reason.LEASE_EXPIRED:
        return "Its worker was lost, and its policy says on_lost=stall."
    if status.reason is Reason.HEARTBEAT_TIMEOUT:
        return "It fell silent, and its policy says on_silence=stall."
    if status.last_error is None:
        return ""
    return _listed(policy, status.last_error)


def fires(task: Task, when: Callable[[int], str]) -> str:
    """When a schedule fires next, or why it does not; empty for other tasks, and for one that has
    ended. `when` says a time (ms UTC)."""
    schedule = task.status.schedule
    if schedule is None or task.state is not State.RECURRING:
        return ""
    if schedule.paused_at is not None:
        failed = task.status.reason is Reason.FAILURES_IN_A_ROW
        why = f" after {schedule.failures} failures in a row" if failed else ""
        return f"paused {when(schedule.paused_at)}{why}"
    return "" if schedule.next_due is None else f"fires next {when(schedule.next_due)}"


def _spent(policy: Policy) -> str:
    if policy.max_retries == 0:
        return "max_retries is 0."
    return f"All its tries are used: max_retries is {policy.max_retries}."


def _listed(policy: Policy, error: TaskError) -> str:
    """The explanation by the lists of errors (docs/rulings.md, R23)."""
    short = error.type.rpartition(".")[2]
    names = tuple(dict.fromkeys(name for name in (error.code, short, error.type) if name))
    shown = short or error.code
    refused = [name for name in names if name in policy.no_retry_on]
    if refused:
        return f"{refused[0]} is in no_retry_on."
    if policy.retry_on and not set(names).intersection(policy.retry_on):
        return f"{shown} is not in retry_on ({', '.join(policy.retry_on)})."
    if not policy.retry_unlisted and not policy.retry_on:
        return f"Only errors that are expected are retried, and {shown} is in no retry_on."
    return f"{shown} is not in the retry_on of the task's code, or is in its no_retry_on."
