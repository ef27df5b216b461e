"""What is known of queues, workers and task types: small records beside the tasks. Pure data."""

from typing import Any, Literal

import msgspec


class QueueConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of one queue. Kept in the store; running workers follow changes within seconds."""

    name: str
    paused: bool = False  #: nothing is claimed; submits, timers and running tasks go on
    max_concurrent: int | None = None  #: runs at once in the whole fleet
    max_concurrent_per_key: int | None = None  #: runs at once per concurrency key, fleet-wide
    rate_limit: float | None = None  #: claims per second, as a token bucket
    rate_burst: int | None = None  #: tokens the bucket holds; default: one second's worth
    max_size: int | None = None  #: most pending tasks
    on_full: Literal["reject", "discard-old"] = "reject"
    weight: int = 1  #: share of claims among a worker's queues
    policy: dict[str, Any] = {}  #: this queue's layer of `PolicyOptions`
    declared: str = ""  #: digest of the declaration in code that was applied last


class TypeInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What workers publish of a task type: its layer of the policy (R5)."""

    name: str
    version: int = 0
    policy: dict[str, Any] = {}


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker process as it last described itself."""

    id: str
    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()
    concurrency: int = 0
    active: int = 0
    started_at: int = 0
    seen_at: int = 0  #: ms UTC, set by the store
    state: Literal["running", "quiet", "stopping"] = "running"
    owner: str = ""  #: id of the API token that it came with; empty: without one
    code: str = ""
    """Digest of what it has code for (R32); empty: it names nothing, and claims everything."""
    trusts: tuple[str, ...] = ()
    """Ids of the keys with which tasks must be signed for it to run them; empty: with none."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one queue, kept as the moves are made, never by a scan."""

    queue: str
    counts: dict[str, int]  #: state name to number of tasks
    oldest_pending_at: int | None = None  #: ms UTC since which the oldest claimable task waits
    dead_letters: int = 0  #: tasks kept as dead letters
    parked: int = 0  #: pending, but held back by `max_concurrent_per_key`


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
