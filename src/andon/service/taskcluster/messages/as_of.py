"""The record of a task as it was right after one of its moves, from the record as it is now. Pure.

A message is about one move, and may be made long after it. Changes of later moves are undone: the
state, runs that were opened since, and the ends of the runs there were. The number of a run that is
in a move's event is always the newest at that time.
"""

from collections.abc import Sequence
from copy import copy

from msgspec.structs import replace

from andon.model.task import Run, RunCell, Task, TaskEvent
from andon.model.words import Event, Reason, State

_COUNTED = frozenset(
    {
        Event.COMPLETE,
        Event.FAIL,
        Event.TERMINATE,
        Event.REJECT,
        Event.UNKNOWN_TASK,
        Event.STOP,
        Event.SHUTDOWN_RETRY,
        Event.LOSE,
        Event.SILENCE,
    }
)
"""What uses up a try, if the task was not asked to cancel."""


def as_of(task: Task, event: TaskEvent) -> Task:
    """The record right after the move, which is one of its own."""
    status = task.status
    if event.revision == status.revision or event.target is None:
        return task
    newest = _newest_run(event)
    runs = tuple(run for run in status.runs if run.number <= newest)
    if runs:
        runs = (*runs[:-1], _then(runs[-1], event.target))
    then = copy(status)
    then.state = event.target
    then.revision = event.revision
    then.reason = event.reason
    then.priority = _priority(status.events, event, status.priority)
    then.runs = runs
    then.tries = _tries(runs)
    then.events = tuple(one for one in status.events if one.revision <= event.revision) or (event,)
    then.finished_at = event.at
    return Task(definition=task.definition, status=then, cell=_cell(task, runs), ref=task.ref)


def _newest_run(event: TaskEvent) -> int:
    """Number of the newest run right after the move; -1: there was none."""
    if event.run is not None:
        return event.run
    return 0 if event.source is None and event.target is State.PENDING else -1


def before_its_first_run(task: Task, event: TaskEvent) -> Task:
    """The record as it was submitted: it waits, and has no run."""
    then = copy(as_of(task, event).status)
    then.state = State.BLOCKED
    then.runs = ()
    then.tries = 0
    return Task(definition=task.definition, status=then, ref=task.ref)


def _then(run: Run, state: State) -> Run:
    """The newest run, as it was when the task was in that state."""
    if state is State.PENDING:
        return Run(run.number, run.created_reason, run.scheduled_at)
    if state is State.ACTIVE:
        return replace(
            run, resolved_at=None, resolved_reason=None, resolved_event=None, error=None, report=""
        )
    return run


def _priority(events: Sequence[TaskEvent], event: TaskEvent, now: int) -> int:
    """What the priority was right after the move: what the next change of it began with."""
    for one in events:
        if one.revision > event.revision and one.priority is not None:
            return one.priority[0]
    return now


def _cell(task: Task, runs: tuple[Run, ...]) -> RunCell | None:
    cell = task.cell
    return cell if cell is not None and runs and cell.run == runs[-1].id else None


def _tries(runs: tuple[Run, ...]) -> int:
    """Runs that counted since the task was submitted or rerun."""
    tries = 0
    for run in runs:
        if run.created_reason is Reason.RERUN:
            tries = 0
        tries += run.resolved_event in _COUNTED
    return tries
