"""Between rows and records: what is a column, what is in a body, and what does not decode."""

from typing import Any

import msgspec

from andon.lifecycle.apply import stamped
from andon.model.task import Definition, RunCell, Stamp, Status, Task, TaskEvent
from andon.model.words import State

encode = msgspec.msgpack.Encoder().encode
decode_definition = msgspec.msgpack.Decoder(Definition).decode
decode_status = msgspec.msgpack.Decoder(Status).decode
decode_event = msgspec.msgpack.Decoder(TaskEvent).decode

Undecodable = (msgspec.DecodeError, UnicodeDecodeError)
"""What a body raises that is not what this release can read (a ValidationError is one too)."""

Row = tuple[Any, ...]


def bare(task_id: str, revision: int) -> Task:
    """What is shown of a record that does not decode (R28)."""
    return Task(
        definition=Definition(id=task_id, name="?"),
        status=Status(state=State.UNKNOWN, created_at=0, revision=revision),
    )


def task_of(row: Row) -> Task:
    """The record of a `READING.record` row; bare if it does not decode or was set aside."""
    (
        seq, definition_body, state, revision, run, fence, worker, token, claimed_at,
        lease_until, heartbeat_at, progress, message, status_body, result, task_id,
    ) = row  # fmt: skip
    if state == State.UNKNOWN:
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
