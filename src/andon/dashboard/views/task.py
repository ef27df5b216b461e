"""One task: all that its page shows."""

from collections.abc import Sequence
from typing import Any

import msgspec

from andon.artifacts.base import Artifact
from andon.contract.queries import History
from andon.dashboard.views.bodies import Body, Redaction
from andon.dashboard.views.looks import Shortened, line_of, lines_of
from andon.dashboard.views.runs import RunAxis, axis_of
from andon.dashboard.views.tasks import note_of
from andon.lifecycle.births import owed_ids
from andon.lifecycle.discarded import NAMELESS
from andon.lifecycle.explaining import not_retried
from andon.lifecycle.moves import sources
from andon.lifecycle.parents import waits_for
from andon.lifecycle.profiles import Profile
from andon.lifecycle.rendering import history_as, state_name
from andon.lifecycle.tracebacks import folded
from andon.lifecycle.waiting import Wait
from andon.model.scopes import needed_to_submit
from andon.model.task import Task, TaskEvent
from andon.model.wording import times_of
from andon.model.words import TERMINAL, WAITING, Event, State

_CHANGES = (Event.RESCHEDULE, Event.REPRIORITISE, Event.EDIT)

MOST_EDGES = 100
MOST_TAGS = 50
MOST_MOVES = 200
"""How many of each are shown."""


class ErrorView(msgspec.Struct, frozen=True, kw_only=True):
    """The error of the newest run that failed."""

    code: str
    type: str
    message: Shortened
    traceback: Shortened  #: Andon's own frames folded
    whole: Shortened  #: with them; the same if there are none


class EdgeView(msgspec.Struct, frozen=True, kw_only=True):
    """A task that this one waits for, or that waits for it."""

    id: str
    name: str
    state: str | None  #: None: there is no such task (any more)


class MoveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One move, in Andon's own words."""

    at: int
    since: int | None  #: ms since the move before
    event: str
    source: str
    target: str | None
    reason: str
    run: int | None
    worker: str
    actor: str  #: the actor who made it by hand; empty if none was named
    error: str


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """One task."""

    id: str
    name: str
    version: int
    queue: str
    state: str
    shown_as: str  #: the name of the state under the profile
    note: str
    waits: str  #: what it waits for, in words
    not_retried: str
    now: int
    priority: int
    tries: int
    max_tries: int
    fence: int
    progress: int | None
    progress_message: str
    worker: str
    times: list[tuple[str, int | None]]
    args: Body | None
    result: Body | None
    headers: list[tuple[str, str]]
    tags: list[str]
    more_tags: int
    key: str
    unique_key: str
    group: str
    depends_on: list[EdgeView]
    more_depends_on: int
    needs: str
    needed_by: list[EdgeView] | None  #: None: not known here
    predecessor: str
    successor: str
    bearer: str
    owes: list[str]
    error: ErrorView | None
    runs: RunAxis
    moves: list[MoveRow]
    dropped_moves: int
    profile: str
    foreign: list[dict[str, Any]]  #: its moves as another system lists them
    is_readable: bool
    is_schedule: bool
    can: list[str]  #: acts that its state allows
    changes: list[str]  #: of `edit`, `reschedule` and `reprioritise`, those that its state allows
    scopes: tuple[str, ...]  #: the scopes needed to submit such a task again


def view_of(
    task: Task,
    history: History,
    *,
    wait: Wait | None,
    profile: Profile,
    redaction: Redaction,
    parents: Sequence[Task | None],
    children: Sequence[EdgeView] | None,
    now: int,
) -> TaskView:
    """A task as it is shown."""
    d, s, policy, cell = task.definition, task.status, task.policy, task.cell
    native = profile.name == "native"
    waited_for = waits_for(task)
    return TaskView(
        id=task.id,
        name=line_of(d.name, 200),
        version=d.version,
        queue=d.queue,
        state=task.state.value,
        shown_as=state_name(profile, task),
        note=line_of(note_of(task, now)[0]),
        waits="" if wait is None else wait.text,
        not_retried=not_retried(task),
        now=now,
        priority=s.priority,
        tries=s.tries,
        max_tries=policy.max_retries + 1,
        fence=s.fence,
        progress=s.progress if cell is None else cell.progress,
        progress_message=line_of(s.progress_message if cell is None else cell.message),
        worker=s.worker,
        times=times_of(task),
        args=redaction.seen(d.args),
        result=redaction.seen(task.result),
        headers=[
            (line_of(name, 80), line_of(value)) for name, value in redaction.headers(d.headers)
        ],
        tags=list(d.tags[:MOST_TAGS]),
        more_tags=max(0, len(d.tags) - MOST_TAGS),
        key=d.key or "",
        unique_key=d.unique_key or "",
        group=d.group or "",
        depends_on=[
            edge_of(task_id, parent)
            for task_id, parent in zip(waited_for[:MOST_EDGES], parents, strict=False)
        ],
        more_depends_on=max(0, len(waited_for) - MOST_EDGES),
        needs="" if d.needs is None else f"{d.needs:,} of {len(d.dependencies):,}",
        needed_by=None if children is None else list(children),
        predecessor=d.predecessor,
        successor=s.successor,
        bearer=d.bearer,
        owes=list(owed_ids(s)),
        error=_error(task),
        runs=axis_of(task, now),
        moves=_moves(history.events[-MOST_MOVES:]) if native else [],
        dropped_moves=history.dropped + max(0, len(history.events) - MOST_MOVES),
        profile=profile.name,
        foreign=[] if native else history_as(profile, history.events, task)[-MOST_MOVES:],
        is_readable=d.name != NAMELESS,
        is_schedule=s.schedule is not None,
        can=acts_on(task),
        changes=[event.value for event in _CHANGES if task.state in sources(event)],
        scopes=tuple(needed_to_submit(d, d.queue)),
    )


def edge_of(task_id: str, task: Task | None) -> EdgeView:
    """The other end of an edge."""
    if task is None:
        return EdgeView(id=task_id, name="", state=None)
    return EdgeView(id=task_id, name=line_of(task.definition.name, 80), state=task.state.value)


def acts_on(task: Task) -> list[str]:
    """The acts possible on a task in its state, by the names of `acts`."""
    state = task.state
    if state is State.RECURRING:
        return []  # a schedule has a page of its own
    if state is State.ACTIVE:
        if task.status.cancel_requested_at is not None:
            return ["cancel-by-force"]
        return ["cancel"]
    if state in WAITING:
        first = [] if state is State.PENDING else ["run-now"]
        return [*first, "cancel", "archive"]
    if state in TERMINAL:
        return ["rerun", "delete"]
    return ["delete"]


def _error(task: Task) -> ErrorView | None:
    error = task.status.last_error
    if error is None or task.state is State.COMPLETED:
        return None
    return ErrorView(
        code=line_of(error.code, 80),
        type=line_of(error.type, 200),
        message=lines_of(error.message, 8_000),
        traceback=lines_of(folded(error.traceback)),
        whole=lines_of(error.traceback),
    )


def _moves(events: Sequence[TaskEvent]) -> list[MoveRow]:
    rows: list[MoveRow] = []
    before: int | None = None
    for event in events:
        rows.append(
            MoveRow(
                at=event.at,
                since=None if before is None else event.at - before,
                event=event.event.value,
                source="" if event.source is None else event.source.value,
                target=None if event.target is None else event.target.value,
                reason="" if event.reason is None else event.reason.value,
                run=event.run,
                worker=event.worker,
                actor=line_of(event.actor, 100),
                error="" if event.error is None else line_of(event.error.message, 160),
            )
        )
        before = event.at
    return rows


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest lines that a run has logged."""

    task: str
    queue: str
    run: int | None  #: None: it has none yet
    runs: list[int]
    lines: list[tuple[int, str, str]]  #: when, level, text
    more: bool  #: there are older ones
    missing: str  #: why logs are not kept; empty if they are


class ArtifactRow(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a run left behind."""

    run: int
    name: str
    size: int
    content_type: str
    created_at: int


def artifact_row(found: Artifact) -> ArtifactRow:
    """A file as a row."""
    return ArtifactRow(
        run=found.run,
        name=found.name,
        size=found.size,
        content_type=line_of(found.content_type, 80),
        created_at=found.created_at,
    )
