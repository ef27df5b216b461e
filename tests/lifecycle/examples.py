"""Tasks in every state, reached by real moves."""

import itertools
from copy import copy
from typing import Any

from msgspec.structs import replace

from andon.lifecycle import commands as c
from andon.lifecycle.admission import admit, admit_schedule
from andon.lifecycle.apply import Moved, apply, next_fence, stamped
from andon.lifecycle.firing import begun
from andon.lifecycle.schedules import record_definition
from andon.model.policy import Policy
from andon.model.recurrence import Recurrence
from andon.model.task import Added, Definition, RunCell, Schedule, Stamp, Task, TaskError
from andon.model.words import State

NOW = 1_700_000_000_000
LEASE = 30_000
ERROR = TaskError(message="boom", code="Boom", type="app.errors.Boom")

CHILD = Definition(id="child", name="job", digest="d")
"""What a run bears."""

_runs = itertools.count()


def submitted(*, policy: dict[str, Any] | None = None, now: int = NOW, **fields: Any) -> Task:
    """A task as it was submitted."""
    definition = Definition(
        **{"id": "t", "name": "job", **fields}, policy=replace(Policy(), **(policy or {}))
    )
    return admit(definition, now, "submit")


def recurring(*, now: int = NOW, recurrence: Recurrence | None = None, **fields: Any) -> Task:
    """A schedule as it was submitted: by default of each minute."""
    template = Definition(id="", name="job", args=b"[1]")
    schedule = begun(
        "s",
        Schedule(recurrence=recurrence or Recurrence(every=60), template=template, **fields),
        now,
    )
    return admit_schedule(record_definition("s", schedule), schedule, now, "submit")


def ended_schedule(state: State) -> Task:
    """A schedule that has fired for the last time, or was cancelled."""
    task = recurring(now=NOW - 60_000, recurrence=Recurrence(every=60, count=1))
    if state is State.CANCELLED:
        return after(task, c.Cancel())
    return after(after(task, c.Recur()), c.Deliver())


def claimed(task: Task, now: int = NOW, worker: str = "w") -> Task:
    """The task after a claim."""
    stamp = Stamp(
        run=f"run{next(_runs)}",
        fence=next_fence(task.status.fence, now),
        worker=worker,
        token="token",
        at=now,
        lease_until=now + LEASE,
    )
    return stamped(task, stamp)


def decided(task: Task, command: c.Command, *, now: int = NOW, random: float = 0.5) -> Moved:
    return apply(task, command, now=now, random=lambda: random, write_id="write")


def after(task: Task, command: c.Command, *, now: int = NOW, random: float = 0.5) -> Task:
    """The task after a move that leaves a record."""
    moved = decided(task, command, now=now, random=random)
    assert moved.status is not None
    return Task(
        definition=task.definition,
        status=moved.status,
        cell=task.cell if moved.status.state is State.ACTIVE else None,
        result=moved.result if moved.sets_result else task.result,
    )


def renewed(task: Task, **cell: Any) -> Task:
    """The task with another run cell."""
    assert task.cell is not None
    fields = {name: getattr(task.cell, name) for name in RunCell.__struct_fields__}
    return Task(definition=task.definition, status=task.status, cell=RunCell(**{**fields, **cell}))


def in_state(
    state: State,
    *,
    policy: dict[str, Any] | None = None,
    asked: bool = False,
    owes: bool = False,
    **fields: Any,
) -> Task:
    """A task in the state; `asked`: an active one that was asked to cancel; `owes`: one whose
    successor, or whose follow-up, is not stored yet."""
    if state is State.BLOCKED or state is State.UNREACHABLE:
        task = submitted(policy=policy, **{"dependencies": ("p",), **fields})
        return task if state is State.BLOCKED else after(task, c.Unreach(parent="p"))
    if state is State.SCHEDULED:
        return submitted(policy=policy, **{"run_at": NOW + 60_000, **fields})
    if state is State.RECURRING:
        task = recurring()
        return after(task, c.RunNow()) if owes else task
    if state is State.DROPPED:
        policy = {**(policy or {}), "on_unknown": "drop"}
    if state is State.RETRY:
        policy = {"max_retries": 3, **(policy or {})}
    pending = submitted(policy=policy, **fields)
    if state is State.PENDING:
        return pending
    if state is State.UNKNOWN:
        status = copy(pending.status)
        status.state = State.UNKNOWN
        return Task(definition=pending.definition, status=status)
    active = renewed(claimed(pending), progress=40, message="half")
    if asked:
        active = after(active, c.RequestCancel())
    ways: dict[State, tuple[Task, c.Command | None]] = {
        State.ACTIVE: (active, None),
        State.RETRY: (active, c.Fail(error=ERROR, retryable=True, delay=5_000)),
        State.COMPLETED: (active, c.Complete(result=b"1", births=(CHILD,) if owes else ())),
        State.FAILED: (active, c.Terminate(error=ERROR)),
        State.CANCELLED: (pending, c.Cancel() if not owes else c.Edit(successor="n", args=b"[2]")),
        State.STALLED: (active, c.Stop()),
        State.DROPPED: (active, c.UnknownTask()),
        State.EXPIRED: (pending, c.Expire()),
    }
    task, command = ways[state]
    task = task if command is None else after(task, command)
    assert task.state is state
    return task


SAMPLES: tuple[c.Command, ...] = (
    c.Unblock(),
    c.Schedule(),
    c.Unreach(parent="p"),
    c.Due(),
    c.RequestCancel(),
    c.Complete(),
    c.Fail(error=ERROR),
    c.Terminate(error=ERROR),
    c.Reject(error=ERROR),
    c.UnknownTask(),
    c.Snooze(delay=1_000),
    c.Release(),
    c.Stop(),
    c.ShutdownRetry(),
    c.Lose(),
    c.Silence(),
    c.Interrupted(),
    c.Cancel(force=True),
    c.Expire(),
    c.Evict(),
    c.Recur(),
    c.Pause(),
    c.Resume(),
    c.Revise(schedule=Schedule(recurrence=Recurrence(every=30), template=CHILD)),
    c.RunNow(),
    c.Reschedule(run_at=NOW + 120_000),
    c.Reprioritise(priority=2),
    c.Archive(),
    c.Edit(successor="next", args=b"[2]"),
    c.Extend(added=Added("p", "run", 1, ("more",))),
    c.Deliver(),
    c.Rerun(blocked=True),
    c.Delete(),
)
"""One command of each kind."""

STORED = tuple(state for state in State if state is not State.UNSUBMITTED)
