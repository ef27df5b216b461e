"""Claims from queues with limits: under the queue's limiter lock, using the index."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from andon.contract.limits import MAX_BATCH
from andon.lifecycle.token_bucket import claims_allowed, seconds_to_next, tokens_at
from andon.model.fleet import QueueConfig
from andon.stores.memory.row import Row
from andon.stores.nats.claim_attempt import ClaimAttempt
from andon.stores.nats.index import Index
from andon.stores.nats.limiter_lock import LimiterLock, LimiterLocks, LimiterState
from andon.stores.nats.quarantine import is_unreadable

if TYPE_CHECKING:
    from andon.stores.nats.record_codec import StoredRecord

_SOON_S = 0.02
"""How soon it is checked again whether other claims have written the records that they may be
claiming."""

Refill = Callable[[str, float], None]
"""Called with the queue, and in how many seconds its rate limit lets the next claim through."""


def is_limited(config: QueueConfig | None) -> bool:
    """Whether claims from the queue need its limiter lock."""
    return config is not None and (
        config.max_concurrent is not None
        or config.max_concurrent_per_key is not None
        or config.rate_limit is not None
    )


async def claim_limited(
    claim: ClaimAttempt, index: Index, config: QueueConfig, refill: Refill
) -> None:
    """Claim what the queue's limits let through."""
    await _Limited(claim, index, refill).run(config)


class _Limited:
    """One claim from one queue with limits."""

    def __init__(self, claim: ClaimAttempt, index: Index, refill: Refill) -> None:
        self._claim = claim
        self._context = claim.context
        self._records = claim.records
        self._index = index
        self._locks = LimiterLocks(claim.context, index)
        self._refill = refill
        self._partition = claim.request.partition

    async def run(self, config: QueueConfig) -> None:
        """Claim; repeat it while others write the lock first."""
        for attempt in range(60):
            wanted = self._claim.wanted
            if wanted <= 0:
                return
            lock = await self._locks.read(config.name)
            config = (await self._context.fleet.configs()).get(config.name, config)
            if config.paused:
                return
            await self._quarantine_unreadable()
            now = self._context.clock.now()
            bucket = _refilled(lock, config, now)
            if not await self._try(config, lock, bucket, now):
                self._wake(config, bucket)
                return
            if self._claim.repeat is not None:
                return
            await asyncio.sleep(secrets.randbelow(10) / 1000 * min(attempt + 1, 10))

    async def _try(
        self, config: QueueConfig, lock: LimiterLock, bucket: LimiterState | None, now: int
    ) -> bool:
        """Claim what the limits let through. Returns whether to try again."""
        allowed = self._allowed(config, lock, bucket, self._claim.wanted)
        rows, dead = self._index.tables.ready.take(
            self._partition,
            config.name,
            max(allowed, 0),
            room=dict(self._claim.room),
            code=self._claim.request.code,
            now=now,
        )
        try:
            await self._claim.make_due(
                [(row.task.id, row.task.status.revision, now) for row in dead]
            )
            free, passed_by = _free_of(lock, rows)
            self._index.put_back(passed_by)
            if not free:
                if passed_by and allowed > 0:
                    await asyncio.sleep(_SOON_S)  # then it is decided
                    return True
                return False
            if await self._take_rows(lock, bucket, free, now):
                if bucket is not None:
                    bucket.tokens -= len(free)
                return False
            self._index.put_back(free)
            return True
        except BaseException:
            # The records that were taken out and not claimed are not written again, so this index
            # would not show them any more.
            self._index.put_back([*rows, *dead])
            raise

    async def _quarantine_unreadable(self) -> None:
        """Quarantine records that the index has found and no sub-queue shows."""
        broken = self._index.broken[self._partition]
        if broken:
            met = [*broken][:MAX_BATCH]
            found = await self._records.read(met)
            await self._claim.reject([stored for stored in found.values() if is_unreadable(stored)])
            broken.difference_update(met)

    def _allowed(
        self, config: QueueConfig, lock: LimiterLock, bucket: LimiterState | None, wanted: int
    ) -> int:
        if config.max_concurrent is not None:
            active = self._index.tables.ready.active[config.name]
            wanted = min(wanted, config.max_concurrent - active - len(lock.claims))
        if bucket is not None:
            wanted = min(wanted, claims_allowed(bucket.tokens))
        return min(wanted, MAX_BATCH)

    def _wake(self, config: QueueConfig, bucket: LimiterState | None) -> None:
        waiting = self._index.tables.ready.waiting(config.name)
        if bucket is not None and not claims_allowed(bucket.tokens) and waiting:
            self._refill(config.name, seconds_to_next(config, bucket.tokens))

    async def _take_rows(
        self, lock: LimiterLock, bucket: LimiterState | None, rows: Sequence[Row], now: int
    ) -> bool:
        """Claim under the lock, all or nothing: at the time for which the bucket was counted.
        Otherwise claims that were slow to write would follow each other faster than the rate
        allows."""
        claim = self._claim
        found = await self._records.read(row.task.id for row in rows)
        chosen: list[StoredRecord] = []
        for row in rows:
            stored = found.get(row.task.id)
            if stored is None or stored.task is None or stored.seq != row.task.ref:
                return False
            chosen.append(stored)
        tasks = claim.stamped_records(chosen, now)
        if not await claim.write_token(claim.timers_of(tasks), [task.id for task in tasks]):
            return False
        writes, _ = await claim.writes(chosen, tasks)
        after = LimiterState() if bucket is None else bucket
        after = LimiterState(after.tokens - len(rows), after.at, after.rate)
        if not await self._locks.write(
            lock, after, {self._partition: writes}, tasks, creates=False
        ):
            there = await self._records.read(task.id for task in tasks)
            if not all(
                (stored := there.get(t.id)) is not None
                and stored.task is not None
                and stored.task.status.run == t.status.run
                for t in tasks
            ):
                return False
        there = await self._records.read(task.id for task in tasks)
        for task in tasks:
            stored = there.get(task.id)
            if (
                stored is not None
                and stored.task is not None
                and stored.task.status.run == task.status.run
            ):
                claim.add(stored.task)
        return True


def _free_of(lock: LimiterLock, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that can be claimed; and those that others may be claiming, or of whose key others may
    be claiming."""
    keys = set(lock.claims.values()) - {""}
    free: list[Row] = []
    others: list[Row] = []
    for row in rows:
        task = row.task
        is_free = task.id not in lock.claims and task.definition.key not in keys
        (free if is_free else others).append(row)
    return free, others


def _refilled(lock: LimiterLock, config: QueueConfig, now: int) -> LimiterState | None:
    """The bucket of a rate limit as of now."""
    if config.rate_limit is None:
        return None
    bucket = lock.bucket
    before = (bucket.tokens, bucket.at) if bucket.rate == config.rate_limit else None
    return LimiterState(tokens_at(config, before, now), now, config.rate_limit)
