"""From rows to events: those that the server itself wrote have no body."""

import msgspec

from andon.lifecycle.apply import set_aside
from andon.model.task import TaskEvent
from andon.model.words import Event, State
from andon.stores.kit.codec import Row, decode_event


def event_of(row: Row) -> TaskEvent:
    """The event of a row (body, revision, at, run number, task, source, worker, run). Those that
    the server itself wrote, of claims and of records set aside, have no body."""
    body, revision, at, number, task_id, source, worker, run = row
    if body is not None:
        return decode_event(body)
    if source is not None:
        aside = set_aside(revision - 1, State(source), at, "")
        return msgspec.structs.replace(aside, task=task_id)
    return TaskEvent(
        revision,
        at,
        Event.CLAIM,
        State.PENDING,
        State.ACTIVE,
        None,
        number,
        worker,
        run,
        None,
        task_id,
    )
