"""Between rows and records: what is a column, what is in a body, and what does not decode."""

from collections.abc import Sequence
from typing import Any

import msgspec

from andon.lifecycle.apply import set_aside, stamped
from andon.model.task import Definition, RunCell, Stamp, Status, Task, TaskEvent
from andon.model.words import Event, State

encode = msgspec.msgpack.Encoder().encode
decode_definition = msgspec.msgpack.Decoder(Definition).decode
decode_status = msgspec.msgpack.Decoder(Status).decode
decode_event = msgspec.msgpack.Decoder(TaskEvent).decode

Undecodable = (msgspec.DecodeError, UnicodeDecodeError)
"""What a body raises that is not what this release can read (a ValidationError is one too)."""

Row = Sequence[Any]


def bare(task_id: str, revision: int) -> Task:
    """What is shown of a record that does not decode (R28)."""
    return Task(
        definition=Definition(id=task_id, name="?"),
        status=Status(state=State.UNKNOWN, created_at=0, revision=revision),
    )


def task_of(row: Row) -> Task:
    """The record of a `task_record` row; bare if it does not decode or was set aside."""
    (
        seq, definition_body, state, revision, run, fence, worker, token, claimed_at,
        lease_until, heartbeat_at, progress, message, status_body, result, task_id, *_,
    ) = row  # fmt: skip
    if state == "unknown":
        return bare(task_id, revision)
    try:
        definition = decode_definition(definition_body)
        status = decode_status(status_body)
    except Undecodable:
        return bare(task_id, revision)
    task = Task(definition=definition, status=status, result=result, ref=seq)
    if run is not None:
        cell = RunCell(
            run=run,
            lease_until=lease_until,
            heartbeat_at=heartbeat_at,
            progress=progress,
            message=message,
        )
        if revision > status.revision:
            stamp = Stamp(run, fence, worker, token or "", claimed_at, lease_until)
            return stamped(task, stamp, cell)
        task.cell = cell
    return task


def encode_event(event: TaskEvent, task_id: str) -> bytes:
    """The event as the log keeps it: with its task's id, and no result unless it was discarded."""
    return encode(
        TaskEvent(
            event.revision,
            event.at,
            event.event,
            event.source,
            event.target,
            event.reason,
            event.run,
            event.worker,
            event.write_id,
            event.error,
            task_id,
            event.result,
        )
    )


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
