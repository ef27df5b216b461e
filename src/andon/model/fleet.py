"""Queues, workers and task types: small records beside the tasks. Pure data."""

from typing import Any, Literal

import msgspec


class QueueConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of one queue. Kept in the store; running workers follow changes within seconds.

    Example:
        config = await app.queues.configure("mail", rate_limit="5/s")
        assert config.rate_limit == 5
    """

    name: str  #: of the queue
    paused: bool = False  #: nothing is claimed; submits, timers and running tasks go on
    max_concurrent: int | None = None  #: runs at once in the whole fleet
    max_concurrent_per_key: int | None = None  #: runs at once per concurrency key, fleet-wide
    rate_limit: float | None = None  #: claims per second, as a token bucket
    rate_burst: int | None = None  #: tokens the bucket holds; default: one second's worth
    max_size: int | None = None  #: most pending tasks
    on_full: Literal["reject", "discard-old"] = "reject"
    """What gives way in a full queue: the new task, or the oldest."""
    weight: int = 1  #: share of claims among a worker's queues
    policy: dict[str, Any] = {}  #: this queue's layer of `PolicyOptions`
    declared: str = ""  #: digest of the declaration in code that was applied last
    deleted: bool = False
    """It was deleted: it is shown no more while it has no tasks. Only its name remains, because a
    client that submitted to it just before takes it for known; configuring it undoes this."""


class TypeInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What workers publish of a task type: its queue, and its layer of the policy (docs/rulings.md,
    R5)."""

    name: str
    version: int = 0
    policy: dict[str, Any] = {}
    queue: str = ""
    """The queue of its tasks that name none; empty: published by an older release."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker process as it last described itself.

    Example:
        for worker in await app.workers():
            print(worker.id, worker.state, worker.active, "of", worker.concurrency)
    """

    id: str  #: unique in the fleet
    host: str = ""  #: name of its machine
    pid: int = 0  #: of its process
    queues: tuple[str, ...] = ()  #: it claims from
    concurrency: int = 0  #: most runs at once
    active: int = 0  #: runs in hand
    started_at: int = 0  #: ms UTC
    seen_at: int = 0  #: ms UTC, set by the store
    state: Literal["running", "quiet", "stopping"] = "running"
    """Quiet: goes on with what runs, claims nothing."""
    owner: str = ""  #: id of the API token that it came with; empty: without one
    code: str = ""
    """Digest of the list of its task types (docs/rulings.md, R32); empty: it names none, and claims
    everything."""
    trusts: tuple[str, ...] = ()
    """Ids of the keys with which tasks must be signed for it to run them; empty: with none."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one queue, kept as the moves are made, never by a scan.

    Example:
        await remind.submit("ann@example.org")
        for queue in await app.queues.list():
            print(queue.stats.counts, queue.stats.dead_letters)
    """

    queue: str  #: its name
    counts: dict[str, int]  #: state name to number of tasks
    oldest_pending_at: int | None = None  #: ms UTC since which the oldest claimable task waits
    dead_letters: int = 0  #: tasks kept as dead letters
    parked: int = 0  #: pending, but held back by `max_concurrent_per_key`


class Tallied(msgspec.Struct, frozen=True, gc=False):
    """A count that a store keeps: of one queue, one UTC day and one `lifecycle.daily.Tally`."""

    queue: str
    day: int  #: days since 1970-01-01
    tally: str
    count: int


class DayCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a queue on one UTC day.

    Example:
        await remind.submit_in(3600, "ann@example.org")
        [today] = await app.queues.history("mail", days=1)
        assert (today.submitted, today.processed, today.failed) == (1, 0, 0)
    """

    day: str  #: such as 2026-11-23
    submitted: int  #: tasks stored
    processed: int
    """Runs that ended: completed, failed (once for each retry, too) or were cancelled. Not those
    that were given back: released by a worker that shuts down, or snoozed."""
    failed: int  #: those of them that failed


class QueueHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The daily history of one queue, kept as the moves are made, never counted by a scan."""

    queue: str
    days: tuple[DayCounts, ...]  #: the newest first, none left out


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is and how it is configured."""

    kind: str  #: memory, sqlite, …
    location: str
    schema_version: int
    min_writer: int
    partitions: int
    entries: int  #: tasks stored
    bytes: int  #: size on disk or in memory
    in_memory: bool
    replicas: int
    retention: float | None  #: store-wide default per terminal state, seconds; None: by policy
    durability: dict[str, str]
    """What survives, by kind of accident: keys `process_crash`, `os_crash`, `power_cut`."""
    settings: dict[str, str] = {}  #: the settings that decide it, as the store reports them
