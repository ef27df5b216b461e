"""A task as callers see it: one frozen record, times as datetimes, payloads decoded."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any, Literal

import msgspec

from andon.client.options import to_datetime
from andon.lifecycle.births import owed_ids
from andon.lifecycle.faces.fields import decoded
from andon.lifecycle.leases import is_orphaned
from andon.lifecycle.parents import waits_for
from andon.model.policy import Policy
from andon.model.task import Run, Task, TaskError, TaskEvent
from andon.model.words import TERMINAL, Event, Reason, State


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One attempt.

    Example:
        handle = await charge.submit(7, 990)
        await handle.result(timeout=60)
        [run] = (await handle.get()).runs
        print(run.number, run.worker, run.resolved_reason)
        assert run.to_dict()["number"] == 0
    """

    number: int  #: from 0
    created_reason: Reason  #: why it was opened
    scheduled_at: datetime  #: when it became claimable
    worker: str  #: empty until claimed
    claimed_at: datetime | None  #: when a worker took it
    fence: int  #: the task's while it ran
    lease_until: datetime | None  #: until when its worker holds it, or held it
    resolved_at: datetime | None  #: when it ended
    resolved_reason: Reason | None  #: why it ended
    error: TaskError | None  #: what went wrong in it

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values; times as ISO 8601 in UTC."""
        return as_dict(self)

    @classmethod
    def of(cls, run: Run) -> "RunView":
        """The view of a stored run."""
        return cls(
            number=run.number,
            created_reason=run.created_reason,
            scheduled_at=_known(run.scheduled_at),
            worker=run.worker,
            claimed_at=to_datetime(run.claimed_at),
            fence=run.fence,
            lease_until=to_datetime(run.lease_until),
            resolved_at=to_datetime(run.resolved_at),
            resolved_reason=run.resolved_reason,
            error=run.error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One move of a task.

    Example:
        handle = await charge.submit(7, 990)
        for move in await handle.history():
            print(move.revision, move.at, move.event, move.reason)
            print(move.to_dict())
    """

    revision: int  #: the task's after the move
    at: datetime  #: when
    event: Event  #: what happened
    source: State | None  #: None for submit
    target: State | None  #: None for delete
    reason: Reason | None  #: why
    run: int | None  #: number of the run that it opened or concerned
    worker: str  #: of that run; empty if there is none
    error: TaskError | None  #: what went wrong, where something did
    actor: str = ""  #: the actor who made it by hand, if one was named (`andon.acting_as`)

    def __repr__(self) -> str:
        source, target = (None if s is None else s.value for s in (self.source, self.target))
        moved = f"{source or 'nothing'} -> {target or 'gone'}"
        why = "" if self.reason is None else f" ({self.reason.value})"
        return f"<EventView {self.revision} {self.event.value}: {moved}{why}>"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values; times as ISO 8601 in UTC."""
        return as_dict(self)

    @classmethod
    def of(cls, event: TaskEvent) -> "EventView":
        """The view of a stored event."""
        return cls(
            revision=event.revision,
            at=_known(event.at),
            event=event.event,
            source=event.source,
            target=event.target,
            reason=event.reason,
            run=event.run,
            worker=event.worker,
            error=event.error,
            actor=event.actor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task as it stood when it was read (docs/rulings.md, R1). Times are aware, in UTC, by the
    store's clock.

    Example:
        handle = await charge.submit(7, 990)
        task = await handle.get()
        if not task.ended:
            print(task.state, task.reason, task.progress)
        assert task.to_dict()["args"] == {"order": 7, "cents": 990}
    """

    id: str  #: unique in the store
    name: str  #: of the task type
    version: int  #: of the task type
    queue: str  #: it waits in, or waited in
    priority: int  #: -4 to 5, higher first
    args: Any  #: as JSON has them: an object of named arguments, an array, or one value
    policy: Policy  #: the rules resolved when it was submitted
    dependencies: tuple[str, ...]  #: ids of tasks that must end first
    requires: Literal["all-completed", "all-resolved"]  #: how they must end
    needs: int | None  #: how many of them must end so; None: all
    load_dependencies: bool  #: whether the handler gets their results
    unique_key: str | None  #: no other task holds it while this one does
    key: str | None  #: concurrency key
    group: str | None  #: a name that tasks share
    scopes: tuple[str, ...]  #: a service's token must satisfy each of them
    tags: tuple[str, ...]  #: words to find it by
    headers: dict[str, str]  #: as submitted, those of its type among them
    state: State  #: where it stands
    reason: Reason | None  #: why it is in its state
    revision: int  #: grows with every move
    tries: int  #: runs that count against the budget
    fence: int  #: grows with every run
    worker: str  #: the worker that runs it now; empty unless active
    runs: tuple[RunView, ...]  #: the newest
    progress: int  #: percent
    progress_message: str  #: the message with the progress
    lease_until: datetime | None  #: when the run in hand is lost unless it is renewed; else None
    orphaned: bool
    """Whether the lease of its run had expired when it was read, and no timekeeper had ended the
    run yet: its worker is gone, or cannot reach the store."""
    result: Any  #: as the handler's return annotation has it, where the code is known
    error: TaskError | None  #: of the newest run that failed
    created_at: datetime  #: first submit; never changes
    submitted_at: datetime | None  #: newest entry into pending
    run_at: datetime | None  #: end of the wait in scheduled or retry
    started_at: datetime | None  #: first claim
    retried_at: datetime | None  #: newest later claim
    heartbeat_at: datetime | None  #: newest heartbeat of the run
    finished_at: datetime | None  #: newest end; None until it has ended
    deadline: datetime | None  #: when the whole task must have ended
    expires_at: datetime | None  #: when the record goes at the latest
    cancel_requested_at: datetime | None  #: when the run in hand was asked to stop
    predecessor: str | None = None  #: the task whose place this one has taken
    successor: str | None = None  #: the task that was edited from this one, or superseded it
    bearer: str | None = None  #: the task whose run bore this one (`Context.follow_up`)
    owes: tuple[str, ...] = ()  #: tasks that its last move bore and that are not stored yet

    @property
    def ended(self) -> bool:
        """Whether only a rerun or a deletion can still change the task."""
        return self.state in TERMINAL

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values; times as ISO 8601 in UTC."""
        return as_dict(self)

    def __repr__(self) -> str:
        return f"<TaskView {self.id} {self.name}: {self._stands}>"

    @property
    def _stands(self) -> str:
        return self.state.value if self.reason is None else f"{self.state.value} ({self.reason})"

    def _repr_html_(self) -> str:
        """A table of what matters first, for notebooks."""
        rows = [
            ("task", self.id),
            ("name", self.name),
            ("queue", self.queue),
            ("state", self._stands),
            ("tries", str(self.tries)),
            ("created", self.created_at.isoformat(timespec="seconds")),
            ("error", "" if self.error is None else self.error.message),
        ]
        cells = "".join(
            f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows if value
        )
        return f"<table>{cells}</table>"

    @classmethod
    def of(
        cls, task: Task, decode: Callable[[bytes], Any] = msgspec.json.decode, *, now: int
    ) -> "TaskView":
        """The view of a record as it stood at `now`, ms UTC by the store's clock; `decode` reads
        its result."""
        definition, status, cell = task.definition, task.status, task.cell
        heartbeat = status.heartbeat_at if cell is None else cell.heartbeat_at
        return cls(
            id=definition.id,
            name=definition.name,
            version=definition.version,
            queue=definition.queue,
            priority=status.priority,
            args=decoded(definition.args),
            policy=task.policy,
            dependencies=waits_for(task),
            requires=definition.requires,
            needs=definition.needs,
            load_dependencies=definition.load_dependencies,
            unique_key=definition.unique_key,
            key=definition.key,
            group=definition.group,
            scopes=definition.scopes,
            tags=definition.tags,
            headers=definition.headers,
            state=status.state,
            reason=status.reason,
            revision=status.revision,
            tries=status.tries,
            fence=status.fence,
            worker=status.worker,
            runs=tuple(RunView.of(run) for run in status.runs),
            progress=status.progress if cell is None else cell.progress,
            progress_message=status.progress_message if cell is None else cell.message,
            lease_until=to_datetime(None if cell is None else cell.lease_until),
            orphaned=is_orphaned(task, now),
            result=None if task.result is None else decode(task.result),
            error=status.last_error,
            created_at=_known(status.created_at),
            submitted_at=to_datetime(status.submitted_at),
            run_at=to_datetime(status.run_at),
            started_at=to_datetime(status.started_at),
            retried_at=to_datetime(status.retried_at),
            heartbeat_at=to_datetime(heartbeat),
            finished_at=to_datetime(status.finished_at),
            deadline=to_datetime(status.deadline),
            expires_at=to_datetime(status.expires_at),
            cancel_requested_at=to_datetime(status.cancel_requested_at),
            predecessor=definition.predecessor or None,
            successor=status.successor or None,
            bearer=definition.bearer or None,
            owes=owed_ids(status),
        )


def as_dict(view: Any) -> dict[str, Any]:
    """A view as plain JSON values."""
    return msgspec.to_builtins(view, enc_hook=_as_text)


def _as_text(value: Any) -> Any:
    """A result of a type that JSON does not know, as its own model says, or as text."""
    dump = getattr(value, "model_dump", None)  # Pydantic, without importing it
    return str(value) if dump is None else dump(mode="json")


def _known(ms: int) -> datetime:
    moment = to_datetime(ms)
    assert moment is not None
    return moment
