"""Computes the one timer of a task: when something must happen to it, and what. Pure
(docs/design.md, 3.4).

A store keeps `next_timer` in its index and hands out tasks whose time has passed; `on_timer` says
which command follows, or None when the timer was early (a renewed lease, a changed clock), in which
case the taker sets it anew with `next_timer`. A timer that fires early is harmless; one that never
fires is not.
"""

from andon.lifecycle.apply import kept_for
from andon.lifecycle.births import owes
from andon.lifecycle.commands import Command, Delete, Due, Expire, Fail, Lose, Recur, Silence
from andon.lifecycle.fan_out import fanned_out_by
from andon.model.policy import Policy
from andon.model.task import Status, Task, TaskError
from andon.model.words import TERMINAL, Reason, State

_PENDING, _ACTIVE = State.PENDING, State.ACTIVE
"""The enum members that every written record needs, see `admission`."""

VERIFY_FIRST_MS = 5_000
VERIFY_FANNED_OUT_MS = 30_000
VERIFY_EACH_MS = 2
VERIFY_MOST_MS = 300_000
"""A blocked task asks again about its dependencies after 5 s, or 2 ms for each of them if that is
longer, because it asks about all of them; one that a run fanned out asks after 30 s, because that
run may store thousands beside it before it ends. Then less and less often, every 5 min at the least
(docs/rulings.md, R8).

The process that ends a dependency notifies its dependents, and timekeepers look every 5 s (every
30 s at the least) for ends whose dependents a crash left unnotified. Only a task that a crash kept
from being linked depends on its own question. If it asked sooner, thousands of tasks that were
submitted together would ask while they are linked and notified anyway."""

DEBT_MS = 2_000
"""The timer of a task with a debt fires after this time to check whether the births are stored: by
then the process that wrote the move that bore them has stored them, or has died."""


def next_timer(task: Task) -> int | None:
    """The earliest ms UTC at which something must happen to the task; None if nothing must."""
    status = task.status
    state = status.state
    if state is _PENDING:
        return claimable_until(status, task.policy)
    if state is _ACTIVE:
        return _active_timer(task)
    if state in TERMINAL:
        return _owes_since(status) + DEBT_MS if owes(status) else _gone_at(task)
    if state is State.BLOCKED:
        # A task that got further dependencies was verified before that: it is not due at once.
        since = _blocked_since(task) if status.added else status.created_at
        return _least(status.deadline, since + _asks_after(task))
    if state is State.SCHEDULED or state is State.RETRY:
        return _least(status.deadline, status.run_at)
    if state is State.RECURRING:
        return _owes_since(status) + DEBT_MS if owes(status) else _fires_at(status)
    return None


def claimable_until(status: Status, policy: Policy) -> int | None:
    """The one timer of a pending task: the moment from which it cannot be claimed any more
    (docs/rulings.md, R6); None if there is none."""
    timeout = policy.queue_timeout
    if timeout is None or status.submitted_at is None:
        return status.deadline
    return _least(status.deadline, status.submitted_at + round(timeout * 1000))


def rearm(task: Task, now: int) -> int | None:
    """The timer to set after one fired at `now` and nothing was due yet."""
    if task.status.state is State.BLOCKED:
        wait = max((now - _blocked_since(task)) // 2, _asks_after(task))
        return _least(task.status.deadline, now + min(wait, VERIFY_MOST_MS))
    if owes(task.status):
        wait = (now - _owes_since(task.status)) // 2
        return now + min(max(wait, DEBT_MS), VERIFY_MOST_MS)
    return next_timer(task)


def _asks_after(task: Task) -> int:
    """How long a blocked task waits to be notified before it asks by itself, ms."""
    definition = task.definition
    first = VERIFY_FANNED_OUT_MS if fanned_out_by(definition.headers) else VERIFY_FIRST_MS
    return max(first, VERIFY_EACH_MS * len(definition.dependencies))


def _blocked_since(task: Task) -> int:
    """When a blocked task was last moved: mostly by its submit, or by a rerun."""
    events = task.status.events
    return events[-1].at if events else task.status.created_at


def must_pay(task: Task, now: int) -> bool:
    """Whether a fired timer means "store the task's debt": the process that wrote the move should
    have done that by now."""
    return owes(task.status) and (next_timer(task) or 0) <= now


def wants_verify(task: Task, now: int) -> bool:
    """Whether a fired timer of a blocked task means "ask again about the dependencies"."""
    return task.status.state is State.BLOCKED and on_timer(task, now) is None


def on_timer(task: Task, now: int) -> Command | None:
    """What the timer means at `now`; None when nothing is due."""
    status = task.status
    state = status.state
    if state is State.ACTIVE:
        return _active_due(task, now)
    if state in TERMINAL:
        gone = None if owes(status) else _gone_at(task)
        return Delete(reason=Reason.RETENTION) if gone is not None and gone <= now else None
    if state is State.RECURRING:
        at = None if owes(status) else _fires_at(status)
        return Recur() if at is not None and at <= now else None
    if status.deadline is not None and status.deadline <= now:
        return Expire(reason=Reason.DEADLINE_EXCEEDED)
    if state is State.PENDING:
        if _past(status.submitted_at, task.policy.queue_timeout, now):
            return Expire(reason=Reason.QUEUE_TIMEOUT)
    elif state in (State.SCHEDULED, State.RETRY) and (status.run_at or 0) <= now:
        return Due()
    return None


def run_timeout(status: Status, policy: Policy) -> int | None:
    """The run's timeout in ms; None: no limit."""
    seconds = policy.timeout
    if seconds is None and status.deadline is None:
        seconds = policy.default_timeout
    return None if seconds is None else round(seconds * 1000)


def first_limit(status: Status, policy: Policy) -> int | None:
    """The lesser of the run's timeout (with its backstop) and its heartbeat interval, ms from the
    claim.

    A number computed when the task becomes pending, so that the store can set the timer in a claim
    without knowing any rule (docs/store-contract.md, 1).
    """
    timeout, interval = run_timeout(status, policy), policy.max_heartbeat_interval
    if timeout is not None:
        timeout += round(policy.lease * 1000)
    return timeout if interval is None else _least(timeout, round(interval * 1000))


def _active_timer(task: Task) -> int | None:
    status, policy, cell = task.status, task.policy, task.cell
    claimed = status.runs[-1].claimed_at or status.created_at
    timer = cell.lease_until if cell is not None else claimed
    timeout = run_timeout(status, policy)
    if timeout is not None:
        timer = min(timer, claimed + timeout + round(policy.lease * 1000))
    if policy.max_heartbeat_interval is not None:
        last = cell.heartbeat_at if cell is not None else claimed
        timer = min(timer, last + round(policy.max_heartbeat_interval * 1000))
    if status.deadline is not None and _deadline_covers_run(status, policy):
        timer = min(timer, status.deadline)
    return timer


def _active_due(task: Task, now: int) -> Command | None:
    status, policy, cell = task.status, task.policy, task.cell
    deadline = status.deadline
    if deadline is not None and deadline <= now and _deadline_covers_run(status, policy):
        return Expire(reason=Reason.DEADLINE_EXCEEDED)
    claimed = status.runs[-1].claimed_at or status.created_at
    if _past(cell.heartbeat_at if cell else claimed, policy.max_heartbeat_interval, now):
        return Silence()
    if (cell.lease_until if cell is not None else claimed) <= now:
        return Lose()
    timeout = run_timeout(status, policy)
    if timeout is not None and claimed + timeout + round(policy.lease * 1000) <= now:
        seconds = timeout / 1000
        error = TaskError(message=f"The run took longer than {seconds:g} s.", code="TIMEOUT")
        return Fail(error=error, reason=Reason.TIMEOUT)
    return None


def _deadline_covers_run(status: Status, policy: Policy) -> bool:
    return status.cancel_requested_at is None and policy.deadline_covers == "task"


def _gone_at(task: Task) -> int | None:
    status = task.status
    kept = kept_for(task, status)
    if kept is None or status.finished_at is None:
        return status.expires_at
    return _least(status.finished_at + kept, status.expires_at)


def _fires_at(status: Status) -> int | None:
    """When a schedule fires next; None while it is paused."""
    schedule = status.schedule
    return None if schedule is None or schedule.paused_at is not None else schedule.next_due


def _owes_since(status: Status) -> int:
    """When the move was made that bore the debt: no other move is made after it."""
    return status.events[-1].at if status.events else status.finished_at or status.created_at


def _past(since: int | None, seconds: float | None, now: int) -> bool:
    return since is not None and seconds is not None and since + round(seconds * 1000) <= now


def _least(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else min(a, b)
