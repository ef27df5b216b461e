"""Tasks whose records were deleted with their ends, rebuilt from their last two moves
(docs/rulings.md, R9, R37). Pure.

A record that is discarded at its end leaves two events: the end, and the deletion right after it,
which carries the result. The event log keeps both longer than anything else of the task.
"""

from collections.abc import Sequence
from copy import copy

from msgspec.structs import replace

from andon.model.task import Definition, Status, Task, TaskEvent
from andon.model.words import TERMINAL, Event, Reason, State

Discarded = tuple[TaskEvent, TaskEvent]
"""The end of a task, and the deletion that discarded it."""

NAMELESS = "?"
"""The name in a definition that is not known any more."""


def is_bare(task: Task) -> bool:
    """Whether the task ended and only its end is known, not what was submitted."""
    return task.definition.name == NAMELESS and task.state in TERMINAL


def defined(task: Task, definition: Definition) -> Task:
    """The record, with this definition if it has none of its own."""
    return replace(task, definition=definition) if is_bare(task) else task


def discarded_of(task_id: str, events: Sequence[TaskEvent]) -> Discarded | None:
    """The newest two of some events, if they say that this task was discarded with its end."""
    if len(events) < 2:
        return None
    end, deletion = (replace(event, task=event.task or task_id) for event in events[-2:])
    is_discard = deletion.event is Event.DELETE and deletion.reason is Reason.DISCARDED
    is_of_task = end.task == deletion.task == task_id and end.revision + 1 == deletion.revision
    return (end, deletion) if is_discard and is_of_task and end.target in TERMINAL else None


def record_of(task_id: str, last: Task | None, end: TaskEvent | None, deletion: TaskEvent) -> Task:
    """The record of a deleted task, as far as its last two events show it.

    `last` is the record as it was read before. Without one it is not known what was submitted: the
    definition is bare, with the name "?".
    """
    if last is None:
        status = Status(state=State.UNKNOWN, created_at=0)
        definition = Definition(id=task_id, name=NAMELESS)
    else:
        status, definition = copy(last.status), last.definition
    if deletion.source is not None:
        status.state = deletion.source
    status.finished_at = deletion.at
    status.revision = deletion.revision
    if end is not None:
        status.reason = end.reason
        if end.event is not Event.DELIVER:  # what it tells of are other tasks that were refused
            status.last_error = end.error or status.last_error
    if status.state is State.COMPLETED:
        status.progress = 100
    return Task(definition=definition, status=status, result=deletion.result)
