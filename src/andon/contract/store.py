"""The store contract: what every store must do, and all that the engine may ask of it.

A store keeps records, derives every index from them (`lifecycle.indexes.entry_of`), and writes a
record, its indexes and its event in one atomic step. It knows no rule of the lifecycle: the only
move it makes itself is claim, by writing a fixed stamp.

Semantics that every store shares, proven by the conformance suite in `tests/conformance`:

- A change succeeds or fails alone, by the revision it was decided on. A batch is one round trip.
- A repeat of a write (same write id) or of a claim (same token) is answered like the first.
- What was handed over is written even if the caller has gone; its outcome is dropped.
- Times are ms UTC by the store's clock, which never goes back.
- One bad item fails alone (docs/rulings.md, R36): what cannot be encoded or written is `INVALID` in
  its own place, its neighbours in the same call are as if it had not been there
  (`contract.isolation`). Calls without an outcome per item (`rearm`, `unlink`, `release_edges`,
  `put_types`) leave such an item out and log it.

Failures: `StoreUnavailable` after the store's own bounded retries, `StoreIncompatible` when the
schema or the record version does not fit. Everything else is an outcome, not an exception.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.outcomes import Changed, Created, Due, Verdict
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.requests import Change, ClaimRequest, Renewal, Snapshot
from andon.contract.topics import Listener
from andon.lifecycle.discarded import Discarded
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import Task, Tombstone
from andon.model.words import State


class Store(Protocol):
    """A store of tasks. Methods are safe to call from many coroutines of one event loop."""

    url: str
    partitions: int
    slack_ms: int  #: how late a timer may be handed out at the most
    in_flight: int  #: batches of one kind that are best under way at once
    creates_in_flight: int  #: the same of creates alone: who submits mostly does nothing else
    claims_ahead: bool  #: claims are best under way while runs of the last one begin (`claims`)

    async def open(self) -> None:
        """Connect; create what is missing; refuse what is not ours, too new or unusable."""
        ...

    async def close(self) -> None:
        """Finish what was handed over, then release every resource. Idempotent."""
        ...

    def now(self) -> int:
        """The store's clock, ms UTC, never going back; for a remote store the newest time it
        told, plus the monotonic time since."""
        ...

    def partition_of(self, task_id: str) -> int:
        """The partition a task id belongs to."""
        ...

    # --- the life of a task ---

    async def create(self, tasks: Sequence[Task]) -> list[Created]:
        """Store new records with their submit events, each idempotent by id."""
        ...

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Hand out pending tasks by queue, priority and order, each stamped with a new run."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """Extend leases and write progress; touches run cells only."""
        ...

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        """The same from a thread that is not the loop's; blocks. It must not need the loop, which
        a handler may be blocking (docs/design.md, 1.3)."""
        ...

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        """Write decided moves; at most one per task in a batch."""
        ...

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        """Tasks whose timer has passed, their timers pushed on by `hold_ms` in the same step."""
        ...

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        """Set timers anew (task id, ms UTC) where a fired one meant nothing yet. A hint: a task
        that moved meanwhile keeps the timer of its move."""
        ...

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        """Record edges to parents that are there; report those that have ended or do not exist. A
        child that is not blocked waits for nothing, and gets no edges. An edge stays as long as
        both records do, whatever becomes of either (docs/rulings.md, R42)."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        """Mark edges settled. Returns for each settlement what it leaves to the child. For one that
        satisfies: how many dependencies must still satisfy the child; 0 or less unblocks it, also
        if it is blocked no more. For one that does not: how many more may fail the child, less than
        0 if it can never run.

        Both are kept outside the child's record, and begin at `remaining` and `spare` of
        `entry_of(child)` when the child is created. A dependency counts once, by its last
        settlement; one that satisfied the child does so for good. Where `spare` is None, and of a
        child that is blocked no more, nothing is counted that fails it, and the answer is -1."""
        ...

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        """Edges of one parent, ordered by child, after a child."""
        ...

    async def dependents_of_each(
        self, parents: Sequence[tuple[str, str]], limit: int
    ) -> list[list[Edge]]:
        """The answer of `dependents` for each (parent, after), up to `limit` of each, in one call:
        for notifying dependents of ends. Edges recorded since such an end may be missing; `link`
        has answered that end to their child."""
        ...

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        """Release (parent, child) edges: they count as settled, and keep no result. They stay
        readable until either record is deleted (docs/rulings.md, R42)."""
        ...

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        """Remove (parent, child) edges, settled or not."""
        ...

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        """Ended tasks that still have unsettled edges: fan-outs that a crash cut short."""
        ...

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        """Store records of another store, each with its indexes, moves, edges and count of
        dependencies, whatever state they are in; False where the id is taken (also by the stub of a
        deleted task, or earlier in the batch), and nothing was changed.

        Each is one atomic step, like a create, but neither `max_size` nor a unique key refuses
        it: a key that another task holds stays with that one. The moves join the event log, with
        their own times and write ids; a run in hand goes on under its lease and its run id, and
        counts against the limits of its queue and key (what is ready above a key's limit is
        parked). Timers are those of `entry_of`, so a blocked task verifies its dependencies
        soon. Where nothing else decides, order is that of restoring: restore in order of
        creation."""
        ...

    # --- reading ---

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Whole records, in the order asked for."""
        ...

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        """The states of tasks; of one deleted within the submit window, the state it ended in."""
        ...

    async def tombstones(self, ids: Sequence[str]) -> list[Tombstone | None]:
        """The tombstones of deleted tasks, made by `lifecycle.repeats.tombstone_of`; None for tasks
        that exist or were deleted before the window."""
        ...

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        """The last two moves of tasks that were discarded at their end, within the submit window:
        their tombstones keep the place of these events in the log (docs/rulings.md, R37). None for
        all others."""
        ...

    async def history(self, task_id: str) -> History:
        """The task's moves, as long as its record lives."""
        ...

    async def find(self, query: Query) -> Page:
        """A page of records ordered by creation, or by due time. A record that does not decode
        (docs/rulings.md, R28) comes with a bare definition (its id, name "?") and state unknown."""
        ...

    async def stats(self) -> list[QueueStats]:
        """Counts per queue and state."""
        ...

    async def tallies(self, queue: str | None, since: int) -> list[Tallied]:
        """What `lifecycle.daily` counts of a queue, or of all, on the days from `since` on: days
        since 1970-01-01 UTC, the oldest `KEPT_DAYS` before today. Counted in the step that writes
        the event, so a repeat of a write counts once; never by a scan of tasks. A count may come
        in several parts, to be added up. Empty for a queue that is not known."""
        ...

    async def ready_kinds(self, queues: Sequence[str] = ()) -> list[ReadyKind]:
        """The kinds of which a queue has something ready, of these queues or of all; never by a
        scan of the ready tasks. Parked tasks do not count."""
        ...

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        """Events after the cursor ("" is the oldest kept), per task in order and complete."""
        ...

    async def events_end(self) -> str:
        """The cursor after the newest event."""
        ...

    def listen(self, topics: Iterable[str]) -> Listener:
        """Subscribe to hints, from now until the listener is closed."""
        ...

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        """Every queue known, configured or not, by name."""
        ...

    async def put_queue(self, config: QueueConfig, *, expect: QueueConfig) -> bool:
        """Compare and set: replace a queue's configuration and hint `CONFIG_TOPIC`, if it still is
        `expect` (`QueueConfig(name=...)` where none was set); False if it is something else."""
        ...

    async def types(self) -> list[TypeInfo]:
        """Every task type published."""
        ...

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish task types, replacing those of the same name and version."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """Workers seen within the last minute."""
        ...

    async def put_worker(self, info: WorkerInfo) -> None:
        """Record that a worker is alive."""
        ...

    async def remove_worker(self, worker: str) -> None:
        """Record that a worker has left."""
        ...

    async def setting(self, name: str) -> bytes | None:
        """A small configuration value."""
        ...

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        """Compare and set; `expect` None means "not there yet". False if it was something else."""
        ...

    # --- notes ---

    async def notes(self, names: Sequence[NoteName]) -> list[bytes | None]:
        """The values of notes, in the order asked for; None where there is none. Never older than
        what was written before the call; where replicas answer, what another process wrote in the
        last moment may be missing."""
        ...

    async def put_notes(self, puts: Sequence[PutNote]) -> list[NotePut]:
        """Write or delete notes, each by compare and set, each by itself; at most one of a name in
        a call."""
        ...

    async def list_notes(
        self, kind: str, scope: str, after: str = "", limit: int = 100
    ) -> list[Note]:
        """Notes of one kind and scope in the order of their keys (by their UTF-8 bytes), after a
        key."""
        ...

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        """Delete up to `limit` events and stubs past their bounds, and counts of days that are not
        kept any more. Returns how many events and stubs were deleted."""
        ...

    async def info(self) -> StoreInfo:
        """What the store is, holds and promises."""
        ...
