"""Rules for workers that are known by their claims alone: noted, quarantined, forgotten. Pure.

Such a worker does not describe itself, so its claims are noted: rarely while it gets nothing, and
with each task that it gets.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.model.registry import ClaimedQueue, ClaimingWorker, Quarantine, RecentRun

SELDOM_MS = 300_000
"""How often it is written at most that a worker or queue is active."""

WORKER_KEPT_MS = 86_400_000
"""How long a worker is kept after its last claim, and after its quarantine."""

QUEUE_KEPT_MS = 5 * 86_400_000
"""How long a queue is kept after the last claim from it."""

MOST_RECENT = 20
"""Runs, and quarantines, that are kept of a worker: the newest."""


def claimed(
    queue: str,
    worker: str,
    found: ClaimingWorker | None,
    runs: Sequence[RecentRun],
    now: int,
) -> ClaimingWorker:
    """The note of a worker after it claimed and got these runs. The same object if nothing is to be
    written."""
    if found is None:
        found = ClaimingWorker(
            queue=queue,
            worker=worker,
            first_claim=now,
            last_active=now,
            expires_at=now + WORKER_KEPT_MS,
        )
        return replace(found, recent=tuple(runs)[-MOST_RECENT:])
    new = [run for run in runs if run not in found.recent]  # a claim that is repeated gets the same
    if not new and now - found.last_active < SELDOM_MS:
        return found
    return replace(
        found,
        last_active=max(now, found.last_active),
        expires_at=max(now + WORKER_KEPT_MS, found.expires_at),
        recent=(*found.recent, *new)[-MOST_RECENT:],
    )


def declared(
    queue: str, worker: str, found: ClaimingWorker | None, expires_at: int, now: int
) -> ClaimingWorker:
    """The note of a worker that was declared, and is to be kept until then at least."""
    if found is None:
        found = ClaimingWorker(
            queue=queue, worker=worker, first_claim=now, last_active=now, expires_at=expires_at
        )
    return replace(
        found,
        last_active=max(now, found.last_active),
        expires_at=max(expires_at, found.expires_at),
    )


def quarantined(found: ClaimingWorker, said: Quarantine) -> ClaimingWorker:
    """The note of a worker after its quarantine was set."""
    return replace(
        found,
        quarantined_until=said.until if said.until > said.at else None,
        quarantines=(*found.quarantines, said)[-MOST_RECENT:],
        expires_at=max(found.expires_at, said.until + WORKER_KEPT_MS),
    )


def is_quarantined(found: ClaimingWorker | None, now: int) -> bool:
    """Whether a claim of the worker gets nothing."""
    return found is not None and (found.quarantined_until or 0) > now


def queue_claimed(queue: str, found: ClaimedQueue | None, now: int) -> ClaimedQueue:
    """The note of a queue after a claim from it. The same object if nothing is to be written."""
    if found is not None and now - found.last_active < SELDOM_MS:
        return found
    return ClaimedQueue(queue=queue, last_active=now, expires_at=now + QUEUE_KEPT_MS)
