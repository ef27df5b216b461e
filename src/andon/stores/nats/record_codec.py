"""The codec of records: a record is one message, with its four parts and its newest moves.

The moves of a record are the event log: a message carries the newest 16, each with the sequence of
the message that wrote it, so that a reader of the log knows which of them it has seen even if the
earlier messages are gone.
"""

import msgspec

from andon.model.task import RECORD_VERSION, RunCell, Task, TaskEvent, Tombstone
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, bare, decode_definition, decode_status, encode


class RecordBody(msgspec.Struct, array_like=True, gc=False):
    """A record as it is stored. `deleted`: ms UTC of a deletion; the rest is then what the deletion
    leaves."""

    v: int
    id: str
    revision: int
    state: str
    digest: str
    definition: msgspec.Raw
    status: msgspec.Raw
    cell: RunCell | None = None
    result: bytes | None = None
    seqs: tuple[int, ...] = ()  #: of the newest moves, but for the `own` last ones
    own: int = 1  #: how many moves this very message wrote
    linked: int = 0  #: edges were written to dependents; counts their changes
    token: str = ""  #: of the claim that handed out the run in hand
    deleted: int = 0
    events: tuple[TaskEvent, ...] = ()  #: moves that do not stand in the status
    dropped: int = 0  #: older moves that are not kept
    place: int = 0  #: sequence of the message that took this place in the sub-queue; 0 is its own
    left: Tombstone | None = None  #: of one that was deleted
    queue: str = ""  #: of one that was deleted


class Archive(msgspec.Struct, array_like=True, gc=False):
    """An archive: moves that no longer fit into a record."""

    id: str
    created_at: int
    events: tuple[TaskEvent, ...]
    seqs: tuple[int, ...]


decode_record = msgspec.msgpack.Decoder(RecordBody).decode
decode_archive = msgspec.msgpack.Decoder(Archive).decode
NOTHING = msgspec.Raw(encode(None))


class StoredRecord:
    """The newest message of a task: its content, its position, and the guard for the next write."""

    __slots__ = ("body", "guard", "read_at", "seq", "subject", "task")

    def __init__(self, body: RecordBody, subject: str, seq: int, guard: int) -> None:
        self.body = body
        self.subject = subject
        self.seq = seq
        self.guard = guard  #: sequence of the newest message under the task, whichever it is
        self.read_at = 0.0  #: by the monotonic clock, if it was
        self.task: Task | None = None if body.deleted else task_of(body, seq)

    @property
    def is_pending(self) -> bool:
        """Whether its message is one that the next write deletes."""
        return not self.subject.endswith(".r")


def task_of(body: RecordBody, seq: int) -> Task:
    """The record; bare if it does not decode (docs/rulings.md, R28)."""
    try:
        if body.v > RECORD_VERSION or body.state == State.UNKNOWN:
            return bare(body.id, body.revision)
        definition, status = decode_definition(body.definition), decode_status(body.status)
    except Undecodable:
        return bare(body.id, body.revision)
    return Task(definition=definition, status=status, cell=body.cell, result=body.result, ref=seq)


def moves_of(body: RecordBody, seq: int) -> list[tuple[int, TaskEvent]]:
    """The newest moves with their sequences, oldest first."""
    events = body.events
    if not body.deleted:
        try:
            events = (*decode_status(body.status).events, *body.events)
        except Undecodable:
            events = body.events
    seqs = (*body.seqs, *(seq for _ in range(body.own)))
    count = min(len(seqs), len(events))
    return list(zip(seqs[len(seqs) - count :], events[len(events) - count :], strict=True))
