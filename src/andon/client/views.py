"""What a caller sees of a task: one frozen record, times as datetimes, payloads decoded."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec

from andon.client.options import to_datetime
from andon.model.policy import Policy
from andon.model.task import Run, Task, TaskError, TaskEvent
from andon.model.words import TERMINAL, Event, Reason, State


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One attempt."""

    number: int  #: from 0
    created_reason: Reason
    scheduled_at: datetime
    worker: str  #: empty until claimed
    claimed_at: datetime | None
    fence: int
    lease_until: datetime | None
    resolved_at: datetime | None
    resolved_reason: Reason | None
    error: TaskError | None

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
    """One move of a task."""

    revision: int
    at: datetime
    event: Event
    source: State | None  #: None for submit
    target: State | None  #: None for delete
    reason: Reason | None
    run: int | None
    worker: str
    error: TaskError | None

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
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task as it stood when it was read (R1). Times are aware, in UTC, by the store's clock."""

    id: str
    name: str
    version: int
    queue: str
    priority: int
    args: Any  #: as JSON has them: an object of named arguments, an array, or one value
    policy: Policy
    dependencies: tuple[str, ...]
    requires: Literal["all-completed", "all-resolved"]
    load_dependencies: bool
    unique_key: str | None
    key: str | None
    group: str | None
    scopes: tuple[str, ...]
    tags: tuple[str, ...]
    headers: dict[str, str]
    state: State
    reason: Reason | None  #: why it is in its state
    revision: int
    tries: int  #: runs that count against the budget
    fence: int
    worker: str  #: who runs it now; empty unless active
    runs: tuple[RunView, ...]  #: the newest
    progress: int  #: percent
    progress_message: str
    result: Any  #: as the handler's return annotation has it, where the code is known
    error: TaskError | None  #: of the newest run that failed
    created_at: datetime
    submitted_at: datetime | None  #: newest entry into pending
    run_at: datetime | None  #: end of the wait in scheduled or retry
    started_at: datetime | None  #: first claim
    retried_at: datetime | None  #: newest later claim
    heartbeat_at: datetime | None
    finished_at: datetime | None
    deadline: datetime | None
    expires_at: datetime | None
    cancel_requested_at: datetime | None

    @property
    def ended(self) -> bool:
        """Whether only a rerun or a deletion can still change the task."""
        return self.state in TERMINAL

    @classmethod
    def of(cls, task: Task, decode: Callable[[bytes], Any] = msgspec.json.decode) -> "TaskView":
        """The view of a record; `decode` reads its result."""
        definition, status, cell = task.definition, task.status, task.cell
        heartbeat = status.heartbeat_at if cell is None else cell.heartbeat_at
        return cls(
            id=definition.id,
            name=definition.name,
            version=definition.version,
            queue=definition.queue,
            priority=status.priority,
            args=msgspec.json.decode(definition.args),
            policy=task.policy,
            dependencies=definition.dependencies,
            requires=definition.requires,
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
        )


def _known(ms: int) -> datetime:
    moment = to_datetime(ms)
    assert moment is not None
    return moment
