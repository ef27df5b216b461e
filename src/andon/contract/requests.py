"""Requests to a store: claims, decided moves, renewals, records of another store."""

import msgspec

from andon.contract.edges import Edge
from andon.contract.notes import PutNote
from andon.model.code import Code
from andon.model.task import Status, Task, TaskEvent


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has room for."""

    worker: str
    token: str  #: random per intended claim; a repeat gives the same runs while they are active
    queues: tuple[str, ...]  #: in the order they are to be asked
    limit: int
    lease_ms: int
    room: dict[str, int] = {}
    """Task type to runs it has room for; absent is unlimited (docs/rulings.md, R14)."""
    partition: int = 0
    code: Code | None = None
    """What the worker has code for; it gets nothing else (docs/rulings.md, R32,
    `lifecycle.routing.may_claim`). None claims everything. A store keeps it once, under its digest,
    and sends the digest with each claim; one that has dropped a digest gets the list again within
    the same call."""
    registers: bool = False
    """The worker is known by its claims alone: the engine notes it, and gives it nothing while it
    is quarantined (`engine.registry`). Stores ignore this field."""
    parks: bool = False
    """If the claim finds nothing, the store may hand the next task that fits to it, in the step
    that creates the task (`ParksClaims`). A repeat with the token withdraws the claim, or returns
    what it was given."""


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One decided move, to be written if the record is still what it was decided on."""

    before: Task  #: the record the move was decided on; its revision is the guard
    after: Status | None  #: None deletes the record, leaving a stub
    event: TaskEvent
    result: bytes | None = None
    sets_result: bool = False
    seen_lease: int | None = None
    """Also refuse if the run's lease is no longer this (docs/rulings.md, R3)."""
    force: bool = False
    """Delete even though dependents still need the record (docs/rulings.md, R9)."""
    discard: TaskEvent | None = None
    """Delete right after, with this event, unless edges hold the record (docs/rulings.md, R9): then
    it stays, its timer due, and is deleted when they are settled."""


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """A renewal of one run."""

    task: str
    run: str
    lease_ms: int
    heartbeat: bool = False  #: the handler itself called heartbeat (or reported progress)
    progress: int | None = None
    message: str | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One task as another store held it, for `andon storage copy`.

    Not of a record that does not decode (docs/rulings.md, R28): there is nothing of it to restore.
    """

    task: Task  #: its `ref` is the other store's and means nothing here
    history: tuple[TaskEvent, ...]
    """Its moves, oldest first, without gaps up to its revision; empty if none is kept."""
    dropped: int = 0  #: older moves that the other store no longer had: revision - len(history)
    edges: tuple[Edge, ...] = ()  #: to its dependents, which may come later or be here already
    satisfied: tuple[str, ...] = ()  #: of a blocked task's dependencies, those satisfied already


class NotedTask(msgspec.Struct, frozen=True, gc=False):
    """A new record, to be created only if a note has its expected value."""

    task: Task
    note: PutNote  #: written in the same step; `value` equal to `expect`: checked and not written
