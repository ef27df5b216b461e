"""The store contract: what every store must do, and all that the engine may ask of it.

A store keeps records, derives every index from them (`lifecycle.indexes.entry_of`), and writes a
record, its indexes and its event in one atomic step. It knows no rule of the lifecycle: the only
move it makes itself is claim, by writing a fixed stamp.

Semantics that every store shares, proven by the conformance suite in `tests/conformance`:

- A change stands or falls alone, on the revision it was decided on. A batch is one round trip.
- A repeat of a write (same write id) or of a claim (same token) is answered like the first.
- What was handed over is written even if the caller has gone; its outcome is dropped.
- Times are ms UTC by the store's clock, which never goes back.
- One bad item fails alone (R36): what cannot be encoded or written is `INVALID` in its own place,
  its neighbours in the same call are as if it had not been there (`stores.isolation`). Calls
  without an outcome per item (`rearm`, `unlink`, `put_types`) leave such an item out and log it.

Failures: `StoreUnavailable` after the store's own bounded retries, `StoreIncompatible` when the
schema or the record version does not fit. Everything else is an outcome, not an exception.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from andon.lifecycle import constants
from andon.lifecycle.discarded import Discarded
from andon.model.code import Code
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import Status, Task, TaskEvent, Tombstone
from andon.model.words import State

MAX_BATCH = 200
"""Most changes in one call; a caller splits what is larger. (Of creates see `TakesMany`.)"""

MAX_PAYLOAD = 256 * 1024
"""Default limit in bytes for arguments and for a result."""

SUBMIT_WINDOW_MS, SLOW_POLL_S = constants.SUBMIT_WINDOW_MS, constants.SLOW_POLL_S

SCAN_BUDGET = 2_000
"""Most index entries one call looks at to find what it may return."""


class CreateKind(StrEnum):
    """How one creation ended."""

    CREATED = "created"
    EXISTS = "exists"  #: the id is taken: the same submit repeated, or a conflict (see digest)
    KEY_HELD = "key-held"
    FULL = "full"
    TOO_LARGE = "too-large"  #: the store cannot hold so large a record
    INVALID = "invalid"  #: the record cannot be written, now or later; `why` says what is wrong


class Created(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one creation.

    EXISTS carries the digest and state of what is there (also of the stub of a deleted task),
    KEY_HELD the holder's id, FULL the oldest pending tasks that `discard-old` may evict, TOO_LARGE
    the bytes it would take and the most it may.
    """

    kind: CreateKind
    digest: str = ""
    state: State | None = None
    holder: str = ""
    oldest: tuple[Task, ...] = ()
    size: int = 0
    limit: int = 0
    why: str = ""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker has room for."""

    worker: str
    token: str  #: random per intended claim; a repeat gives the same runs while they are active
    queues: tuple[str, ...]  #: in the order they are to be asked
    limit: int
    lease_ms: int
    room: dict[str, int] = {}  #: task type to runs it has room for; absent is unlimited (R14)
    partition: int = 0
    code: Code | None = None
    """What the worker has code for; it gets nothing else (R32, `lifecycle.routing.may_claim`).
    None claims everything. A store keeps it once, under its digest, and sends the digest with each
    claim; one that has forgotten a digest is told again within the same call."""
    stands: bool = False
    """If it finds nothing, the next task that it would have got may be handed over to it as that
    task is created (`HandsOver`). A repeat with the token takes that back, or gives what it got."""


class ChangeKind(StrEnum):
    """How one change ended."""

    APPLIED = "applied"
    CONFLICT = "conflict"  #: the revision or the seen lease has moved; `current` has the record
    GONE = "gone"
    KEY_HELD = "key-held"
    TOO_LARGE = "too-large"  #: the store cannot hold the record with this result
    INVALID = "invalid"  #: the change cannot be written, now or later; `why` says what is wrong


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One decided move, to be written if the record is still what it was decided on."""

    before: Task  #: the record the move was decided on; its revision is the guard
    after: Status | None  #: None deletes the record, leaving a stub
    event: TaskEvent
    result: bytes | None = None
    sets_result: bool = False
    seen_lease: int | None = None  #: also refuse if the run's lease is no longer this (R3)
    force: bool = False  #: delete even though dependents still need the record (R9)
    discard: TaskEvent | None = None
    """Delete right after, with this event, unless edges hold the record (R9): then it stays,
    its timer due, and is deleted when they are settled."""


class Changed(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one change."""

    kind: ChangeKind
    current: Task | None = None
    holder: str = ""
    size: int = 0  #: of TOO_LARGE: the bytes it would take, and the most it may
    limit: int = 0
    why: str = ""
    has_dependents: bool = False  #: the task has ended and has edges, settled or not


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life of one run."""

    task: str
    run: str
    lease_ms: int
    heartbeat: bool = False  #: the handler itself called heartbeat (or reported progress)
    progress: int | None = None
    message: str | None = None


class Verdict(StrEnum):
    """Answer to a renewal."""

    OK = "ok"
    CANCEL = "cancel"  #: renewed, and asked to stop
    LOST = "lost"  #: the run no longer holds the task; nothing was changed
    INVALID = "invalid"  #: this renewal cannot be written; nothing was changed, the lease goes on


class Due(msgspec.Struct, frozen=True):
    """Tasks whose timer has passed, each held back from other takers for `hold`."""

    tasks: tuple[Task, ...]
    now: int
    next_at: int | None  #: earliest timer not yet passed, in this partition


class ReadyKind(msgspec.Struct, frozen=True):
    """Tasks of one kind that one queue has ready: at least one."""

    queue: str
    kind: str  #: as `lifecycle.routing.kind_of` writes it
    oldest_at: int | None = None  #: ms UTC since which about the oldest waits, where that is known


class Link(msgspec.Struct, frozen=True):
    """A blocked child names its dependencies. Idempotent."""

    child: str
    parents: tuple[str, ...]
    loads: bool = False  #: the child loads results: parents are kept until it has ended
    any_end: bool = False  #: `requires="all-resolved"`: any end of a parent satisfies it


class Ended(msgspec.Struct, frozen=True):
    """A dependency that has ended (or, state None, does not exist)."""

    child: str
    parent: str
    state: State | None
    any_end: bool


class Settlement(msgspec.Struct, frozen=True):
    """The end of `parent`, told to `child`. Idempotent.

    `satisfied` counts the dependency off, once. Otherwise only the edge is marked as told, so
    that it holds nothing up, but a rerun of the parent that completes can still satisfy it.
    """

    child: str
    parent: str
    satisfied: bool


class Edge(msgspec.Struct, frozen=True):
    """One edge of a parent. A settled one stays until it is unlinked."""

    parent: str
    child: str
    loads: bool
    any_end: bool
    settled: bool


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to list. One indexed axis is used, the rest filters what it yields.

    Example:
        from andon import State
        from andon.stores.base import Query

        async for task in app.find(Query(states=(State.FAILED,), newest_first=True)):
            print(task.id, task.error)
    """

    states: tuple[State, ...] = ()  #: none named: every state
    queue: str | None = None  #: name of the queue
    name: str | None = None  #: of the task type
    key: str | None = None  #: concurrency key
    group: str | None = None  #: the name that the tasks share
    worker: str | None = None  #: only active tasks have one
    tag: str | None = None  #: one of their tags
    id_prefix: str | None = None  #: how the id begins
    dead_letters: bool = False  #: only what is kept as a dead letter
    newest_first: bool = False  #: else in the order they were created
    due_first: bool = False
    """By due time, the soonest first: only tasks that wait for a time have one, those that are
    `scheduled` or wait in `retry`. One whose due time changes between two pages may be met twice,
    or not."""
    limit: int = 100  #: tasks on one page, at most
    cursor: str = ""  #: where the page before ended


class Page(msgspec.Struct, frozen=True):
    """A page, possibly short. An empty `cursor` means there is no more."""

    tasks: tuple[Task, ...]
    cursor: str = ""


class EventPage(msgspec.Struct, frozen=True):
    """Events after a cursor. `gap`: some were trimmed before they were read; or the log has lost
    what the reader had read, as a replica's has that took over too soon, and goes on from its end:
    look at the records again."""

    events: tuple[TaskEvent, ...]
    cursor: str
    gap: bool = False


class History(msgspec.Struct, frozen=True):
    """All moves of one task, up to 1,000, then the number dropped."""

    events: tuple[TaskEvent, ...]
    dropped: int = 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One task as another store held it, for `andon storage copy`.

    Not of a record that does not decode (R28): there is nothing of it to restore.
    """

    task: Task  #: its `ref` is the other store's and means nothing here
    history: tuple[TaskEvent, ...]
    """Its moves, oldest first, without gaps up to its revision; empty if none is kept."""
    dropped: int = 0  #: older moves that the other store no longer had: revision - len(history)
    edges: tuple[Edge, ...] = ()  #: to its dependents, which may come later or be here already
    satisfied: tuple[str, ...] = ()  #: of a blocked task's dependencies, those counted off already


class Listener(Protocol):
    """A subscription to topics. Hints may be lost: check, then wait, and poll slowly besides."""

    async def wait(self, timeout: float | None) -> bool:
        """Wait until hinted (True) or `timeout` seconds have passed (False)."""
        ...

    def notify(self) -> None:
        """Wake it as a hint does."""
        ...

    def close(self) -> None:
        """End the subscription."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def ready_topic(queue: str) -> str:
    """Hinted when the queue got something to claim."""
    return f"ready:{queue}"


def control_topic(worker: str) -> str:
    """Hinted when a run of this worker was asked to cancel or has lost its lease."""
    return f"control:{worker}"


def task_topic(task_id: str) -> str:
    """Hinted when this task moved or reported progress."""
    return f"task:{task_id}"


TIMER_TOPIC = "timer"  #: hinted when a timer was set that is due within SLOW_POLL_S
EVENTS_TOPIC = "events"  #: hinted when events were written
CONFIG_TOPIC = "config"  #: hinted when queue or type configuration changed


class Joined(Protocol):
    """Records to be created in a transaction of the user's: visible if and when that commits."""

    def create(self, connection: Any, places: Sequence[int] | None = None) -> list[Created]:
        """Create them, or those at some places, on a connection whose calls block, in the thread
        that may use it."""
        ...

    async def create_async(
        self, connection: Any, places: Sequence[int] | None = None
    ) -> list[Created]:
        """Create them on a connection whose calls are awaited, on the loop it belongs to."""
        ...

    def states(self, connection: Any, ids: Sequence[str]) -> list[State | None]:
        """What `Store.states` says, as that transaction sees it."""
        ...

    async def states_async(self, connection: Any, ids: Sequence[str]) -> list[State | None]:
        """The same on a connection whose calls are awaited."""
        ...


@runtime_checkable
class Transactional(Protocol):
    """A store that lives in a database whose transactions users have themselves."""

    def is_awaited(self, connection: Any) -> bool:
        """Whether the connection's calls are awaited. Raises `TypeError` for what is none."""
        ...

    async def join(self, tasks: Sequence[Task]) -> Joined:
        """Make ready what creates these records."""
        ...


@runtime_checkable
class CountsDeadLetters(Protocol):
    """A store whose `stats` and `find` cost more than keeping the bound of dead letters may."""

    async def oldest_dead_letters(self, *, beyond: int, most: int) -> list[Task]:
        """The oldest dead letters beyond a number of them, up to `most`, oldest first."""
        ...


@runtime_checkable
class HandsOver(Protocol):
    """A store at which claims can stand (`ClaimRequest.stands`)."""

    @property
    def hands_over(self) -> bool:
        """Whether they can, as it is opened and set up."""
        ...

    def hand_over_to(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        """Call `act`, on the loop, with what is handed over to that worker's claim, which then
        stands no more; None: nobody takes it any longer."""
        ...


@runtime_checkable
class TakesMany(Protocol):
    """A store that creates more than `MAX_BATCH` records in a call, and is the faster for it."""

    most_created: int


class Store(Protocol):
    """Where tasks live. Methods are safe to call from many coroutines of one event loop."""

    url: str
    partitions: int
    slack_ms: int  #: how late a timer may be handed out at the most
    in_flight: int  #: batches of one kind that are best under way at once
    claims_ahead: bool  #: claims are best under way while runs of the last one begin (`claims`)

    async def open(self) -> None:
        """Connect; create what is missing; refuse what is not ours, too new or unusable."""
        ...

    async def close(self) -> None:
        """Finish what was handed over, then let go of every resource. Idempotent."""
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
        """Record edges to parents that live; report those that have ended or do not exist. A child
        that is not blocked waits for nothing, and gets no edges."""
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        """Mark edges settled; per settlement, how many dependencies of the child remain
        unsatisfied. The count is kept outside the child's record, and begins at
        `entry_of(child).remaining` when the child is created."""
        ...

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        """Edges of one parent, ordered by child, after a child."""
        ...

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        """Forget (parent, child) edges, settled or not."""
        ...

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        """Ended tasks that still have unsettled edges: fan-outs that a crash cut short."""
        ...

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        """Store records as they were elsewhere, each with its indexes, moves, edges and count of
        dependencies, whatever state they are in; False where the id is taken (also by the stub of
        a deleted task, or earlier in the batch), and nothing was changed.

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
        """What is left of deleted tasks, as `lifecycle.repeats.tombstone_of` says it; None for
        those that live or went before the window."""
        ...

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        """The last two moves of tasks that were discarded at their end, within the submit window:
        their tombstones keep the place of these events in the log (R37). None for all others."""
        ...

    async def history(self, task_id: str) -> History:
        """The task's moves, as long as its record lives."""
        ...

    async def find(self, query: Query) -> Page:
        """A page of records ordered by creation, or by due time. A record that does not decode
        (R28) comes with a bare definition (its id, name "?") and state unknown."""
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
        """Say that a worker lives."""
        ...

    async def remove_worker(self, worker: str) -> None:
        """Say that a worker has left."""
        ...

    async def setting(self, name: str) -> bytes | None:
        """A small configuration value."""
        ...

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        """Compare and set; `expect` None means "not there yet". False if it was something else."""
        ...

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        """Drop up to `limit` events and stubs past their bounds, and counts of days that are not
        kept any more; how many events and stubs went."""
        ...

    async def info(self) -> StoreInfo:
        """What the store is, holds and promises."""
        ...


T = TypeVar("T")


def in_batches(items: Sequence[T], size: int = MAX_BATCH) -> Iterable[Sequence[T]]:
    """The items in slices of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
