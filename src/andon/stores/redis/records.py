"""Converts between hashes and records: packs the parts, and recognises what does not decode."""

from typing import Any

import msgspec

from andon.contract.isolation import Unwritable
from andon.lifecycle.apply import set_aside, stamped
from andon.lifecycle.indexes import IndexEntry, ReadyEntry
from andon.model.task import RunCell, Stamp, Status, Task, TaskEvent
from andon.model.words import Event, State
from andon.stores.kit.codec import (
    Undecodable,
    bare,
    decode_definition,
    decode_event,
    decode_status,
    encode,
)

MOST_COUNTED = 2**53 - 1
"""The largest number up to which scripts and sorted sets count exactly."""

LEVEL = 2**42
"""The step between levels of priority in the score of a lane; ms since 1970 stay below it till
2109."""

FIRST_APART = 13
"""Revision from which a task's moves are kept apart too: its status carries the last 16 only, and
a claim writes none, so the list is begun while the status has them all."""

_ROW = 7
"""An id and its parts, as `records.lua` returns records."""


class _Cell(msgspec.Struct, array_like=True, gc=False):
    """The claim's stamp and the run cell, as scripts keep them."""

    revision: int
    run: str
    fence: int
    worker: str
    token: str
    at: int
    lease_until: int
    heartbeat_at: int
    progress: int
    message: str


_decode_cell = msgspec.msgpack.Decoder(_Cell).decode


class _Claim(msgspec.Struct, array_like=True, gc=False):
    """A claim's event, as the script writes it."""

    revision: int
    at: int
    number: int | None
    worker: str
    run: str
    task: str


_decode_claim = msgspec.msgpack.Decoder(_Claim).decode
_decode_aside = msgspec.msgpack.Decoder(tuple[int, int, str, str]).decode


_HEADS = tuple(bytes((0xA0 | n,)) if n < 32 else bytes((0xD9, n)) for n in range(2**8))
"""The beginning of a packed string, by its length."""


def body(packed: bytes) -> msgspec.Raw:
    """Bytes as a packed argument holds them: as a string, as Lua's reader knows no other bytes."""
    size = len(packed)
    if size < 2**8:
        return msgspec.Raw(_HEADS[size] + packed)
    head = b"\xda" + size.to_bytes(2) if size < 2**16 else b"\xdb" + size.to_bytes(4)
    return msgspec.Raw(head + packed)


class _Entries:
    """Packs what scripts know of a record: its index entry, in the places named in `common.lua`.
    Tasks that move together mostly have the same entry, which is then packed once."""

    def __init__(self) -> None:
        self._last: tuple[tuple[Any, ...], msgspec.Raw] = ((), msgspec.Raw())  # one, for threads

    def __call__(self, entry: IndexEntry, task: Task, status: Status) -> msgspec.Raw:
        number = status.runs[-1].number if status.runs else 0
        told = (entry, status.created_at, number, status.fence)
        if entry.unique_key is not None:  # then it depends on the policy, too
            return body(_pack_entry(entry, task, status, number))
        last, packed = self._last
        if told != last:
            packed = body(_pack_entry(entry, task, status, number))
            self._last = (told, packed)
        return packed


packed_entry = _Entries()


def _check(entry: IndexEntry) -> None:
    """Refuse an entry with a time that scripts would count wrongly."""
    ready = entry.ready
    if ready is None:
        times = (entry.timer, entry.unique_until)
    else:
        times = (entry.timer, entry.unique_until, ready.order, ready.dead_at, ready.first_limit)
    for at in times:
        if at is not None and not -MOST_COUNTED <= at <= MOST_COUNTED:
            raise Unwritable(f"{at} ms is a time beyond what a Redis store can keep")


def score_of(ready: ReadyEntry) -> str:
    """The score of a ready task in its lane."""
    return str(ready.order - ready.priority * LEVEL)


def order_in(score: bytes) -> int:
    """Since when a task with this score has been waiting, ms UTC."""
    return int(float(score)) % LEVEL


def _pack_entry(entry: IndexEntry, task: Task, status: Status, number: int) -> bytes:
    _check(entry)
    ready = entry.ready
    score = dead_at = first_limit = None
    kind, frees = entry.name, False
    if ready is not None:
        kind, score = ready.kind, score_of(ready)
        dead_at, first_limit = ready.dead_at, ready.first_limit
        if entry.unique_key is not None:
            policy = status.policy or task.definition.policy
            frees = "active" not in policy.unique_states
    return encode(
        (  # in the order of `PackedEntry`; naming each field would cost 4 us
            entry.state,
            entry.queue,
            kind,
            entry.key,
            entry.group,
            None if entry.timer is None else str(entry.timer),
            score,
            dead_at,
            first_limit,
            entry.unique_key,
            entry.unique_until,
            entry.dead_letter,
            entry.remaining,
            str(status.created_at),
            number,
            status.fence,
            frees,
            entry.spare,
            entry.lists or None,
        )
    )


def packed_cell(cell: RunCell, status: Status) -> bytes:
    """A run cell as scripts keep it, of a run that was claimed elsewhere."""
    run = status.runs[-1]
    return encode(
        _Cell(
            status.revision,
            cell.run,
            status.fence,
            status.worker,
            "",
            run.claimed_at or cell.heartbeat_at,
            cell.lease_until,
            cell.heartbeat_at,
            cell.progress,
            cell.message,
        )
    )


def event_of(packed: bytes) -> TaskEvent:
    """An event as it was written by a change, by a claim ("C"), or by setting aside ("U")."""
    if packed[:1] == b"C":
        claim = _decode_claim(packed[1:])
        return TaskEvent(
            claim.revision,
            claim.at,
            Event.CLAIM,
            State.PENDING,
            State.ACTIVE,
            None,
            claim.number,
            claim.worker,
            claim.run,
            task=claim.task,
        )
    if packed[:1] == b"U":
        revision, at, source, task_id = _decode_aside(packed[1:])
        event = set_aside(revision - 1, State(source), at, "")
        return msgspec.structs.replace(event, task=task_id)
    return decode_event(packed)


def damage(why: bytes) -> str:
    """The error of a record that a script could not change."""
    said = why.decode(errors="replace")
    if "WRONGTYPE" in said:
        return "another application uses its key, or the key is damaged; delete it by hand"
    return f"its record on the server is damaged ({said})"


def created_in(version: bytes) -> int:
    """When a record was created; its version says so even if the record does not decode."""
    words = version.split(b" ")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def is_apart(version: bytes) -> bool:
    """Whether a record's moves are kept apart, as its version says."""
    words = version.split(b" ")
    return len(words) > 2 and words[2].endswith(b"h")


def task_of(task_id: str, parts: list[Any]) -> Task | None:
    """The record of the parts that scripts return; bare if it does not decode."""
    definition_body, status_body, cell_body, result, state, version = parts
    if version is None:
        if state is None:
            return None
        version = b""
    word = version.partition(b" ")[0]
    revision = int(word) if word.isdigit() else 0
    if state == b"unknown":
        return _bare(task_id, revision, version)
    try:
        definition = decode_definition(definition_body)
        status = decode_status(status_body)
    except Undecodable:
        return _bare(task_id, revision, version)
    task = Task(definition=definition, status=status, result=result)
    if not cell_body:
        return task
    try:
        packed = _decode_cell(cell_body)
    except msgspec.DecodeError:  # a validation error is one too
        return _bare(task_id, revision, version)
    cell = RunCell(
        run=packed.run,
        lease_until=packed.lease_until,
        heartbeat_at=packed.heartbeat_at,
        progress=packed.progress,
        message=packed.message,
    )
    if packed.revision > status.revision:
        stamp = Stamp(
            packed.run, packed.fence, packed.worker, packed.token, packed.at, packed.lease_until
        )
        return stamped(task, stamp, cell)
    task.cell = cell
    return task


def _bare(task_id: str, revision: int, version: bytes) -> Task:
    task = bare(task_id, revision)
    task.status.created_at = created_in(version)
    return task


def records_in(reply: list[Any], start: int) -> list[tuple[str, Task]]:
    """The records that a reply holds from a place on, each with its id."""
    found: list[tuple[str, Task]] = []
    for i in range(start, len(reply), _ROW):
        task_id = reply[i].decode()
        task = task_of(task_id, reply[i + 1 : i + _ROW])
        if task is not None:
            found.append((task_id, task))
    return found
