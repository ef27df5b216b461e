"""The notes of workers that only claim, and of the queues that they claim from. Pure data."""

import msgspec

WORKER_NOTES = "worker"
"""The kind of the notes in which workers are kept; their scope is the queue (`contract.notes`)."""

QUEUE_NOTES = "queue"
"""The kind of the notes that say when queues were last claimed from."""


class RecentRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that a worker has claimed."""

    task: str  #: id of the task
    run: int  #: number of the run


class Quarantine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting of a worker's quarantine. Times are ms UTC."""

    at: int  #: when it was set
    until: int  #: it gets nothing before; a moment that has passed lifts the quarantine
    by: str = ""  #: who set it
    info: str = ""  #: why


class ClaimingWorker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker that is known by its claims, in one queue. Times are ms UTC."""

    queue: str  #: it claims from
    worker: str  #: its id
    first_claim: int  #: when it claimed for the first time
    last_active: int  #: when it last claimed, give or take a few minutes
    expires_at: int  #: forgotten then
    recent: tuple[RecentRun, ...] = ()  #: what it has claimed, the newest last; 20 at the most
    quarantined_until: int | None = None  #: it gets nothing before
    quarantines: tuple[Quarantine, ...] = ()  #: the newest last; 20 at the most


class ClaimedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue from which such workers claim. Times are ms UTC."""

    queue: str
    last_active: int  #: when it was last claimed from, give or take a few minutes
    expires_at: int  #: forgotten then
