"""The stored form of records and events, and what does not decode. One for all stores that keep
bytes, so that a record moves between them as it is."""

from collections.abc import Sequence
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
"""Errors of decoding a body that this release cannot read (a ValidationError is one too)."""

Row = Sequence[Any]


def bare(task_id: str, revision: int) -> Task:
    """What is shown of a record that does not decode (docs/rulings.md, R28)."""
    return Task(
        definition=Definition(id=task_id, name="?"),
        status=Status(state=State.UNKNOWN, created_at=0, revision=revision),
    )


def encode_event(event: TaskEvent, task_id: str) -> bytes:
    """The event as the log keeps it: with its task's id."""
    if event.actor or event.priority is not None:
        # A move by hand; every other one ends before these, as older releases write it.
        return encode(msgspec.structs.replace(event, task=task_id))
    # A tuple of its fields is what the struct encodes to, and cheaper to make.
    return encode(
        (
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


def around_id(event: TaskEvent, task_id: str) -> tuple[bytes, bytes]:
    """What `encode_event` has before and after the id. It is the same for every id of that length,
    which stands before it."""
    before, _, after = encode_event(event, task_id).rpartition(task_id.encode())
    return before, after


def of_one_length(ids: Sequence[str]) -> bool:
    """Whether an event of each of these tasks has the same `around_id`, if there are any."""
    return len(set(map(len, ids))) == 1


def encode_events(event: TaskEvent, ids: Sequence[str]) -> list[bytes]:
    """One event of several tasks, as the log keeps it for each of them."""
    if not of_one_length(ids):
        return [encode_event(event, task_id) for task_id in ids]
    before, after = around_id(event, ids[0])
    return [before + task_id.encode() + after for task_id in ids]


def task_of_row(row: Row) -> Task:
    """The record of a row of the SQL stores, whose columns are those named here; bare if it does
    not decode or was set aside."""
    (
        seq, definition_body, state, revision, run, fence, worker, token, claimed_at,
        lease_until, heartbeat_at, progress, message, status_body, result, task_id, *_,
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
