"""Claims: which tasks a worker may get now, by the limits of each queue and the worker's room."""

import asyncio
import secrets

from andon.contract.hints import Hub
from andon.contract.requests import ClaimRequest
from andon.contract.topics import ready_topic
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.effects import between
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.token_bucket import claims_allowed, seconds_to_next, tokens_at
from andon.model.task import Stamp, Task
from andon.stores.memory.fleet import Fleet
from andon.stores.memory.records import Records
from andon.stores.memory.row import Row


class Claims:
    """Hands out ready tasks, and wakes workers when a rate limit lets the next one through."""

    def __init__(self, *, records: Records, fleet: Fleet, hub: Hub) -> None:
        self._records = records
        self._fleet = fleet
        self._hub = hub
        self._buckets: dict[str, tuple[float, int]] = {}  # tokens at a time
        self._refills: dict[str, asyncio.TimerHandle] = {}

    def close(self) -> None:
        """Cancel all wake-ups."""
        for alarm in self._refills.values():
            alarm.cancel()
        self._refills.clear()

    def configured(self, queue: str) -> None:
        """Begin a new bucket: the queue's rate may be another now."""
        self._buckets.pop(queue, None)

    def claim(self, request: ClaimRequest, now: int) -> list[Task]:
        """Hand out what the request has room for; a repeat gets what it got, while it is active."""
        again = self._records.claimed_with(request.token)
        if again:
            return again
        room = dict(request.room)
        claimed: list[Task] = []
        for queue in request.queues:
            limit = self._allowed(queue, request.limit - len(claimed), now)
            taken, dead = self._records.ready.take(
                request.partition, queue, limit, room=room, code=request.code, now=now
            )
            claimed += [self._stamp(row, request, now) for row in taken]
            for row in dead:
                self._records.arm(row, now, now)
            if queue in self._buckets:
                tokens, at = self._buckets[queue]
                self._buckets[queue] = (tokens - len(taken), at)
                self._await_refill(queue)
        return claimed

    def _allowed(self, queue: str, limit: int, now: int) -> int:
        """How many of the queue may be claimed now, by its own limits."""
        config = self._fleet.queue(queue)
        if config.paused:
            return 0
        if config.max_concurrent is not None:
            limit = min(limit, config.max_concurrent - self._records.ready.active[queue])
        if config.rate_limit is not None:
            tokens = tokens_at(config, self._buckets.get(queue), now)
            self._buckets[queue] = (tokens, now)
            limit = min(limit, claims_allowed(tokens))
        return limit

    def _await_refill(self, queue: str) -> None:
        """Hint when the rate limit lets the next claim through, since no write does."""
        config = self._fleet.queue(queue)
        if config.rate_limit is None:
            return
        delay = seconds_to_next(config, self._buckets[queue][0])
        if not delay or queue in self._refills or not self._records.ready.waiting(queue):
            return

        def refilled() -> None:
            del self._refills[queue]
            self._hub.hint(ready_topic(queue))

        # The bucket counts by ms: within the same one, what a rounding left open stays open, and in
        # virtual time that would go round for ever.
        self._refills[queue] = asyncio.get_running_loop().call_later(max(delay, 0.001), refilled)

    def _stamp(self, row: Row, request: ClaimRequest, now: int) -> Task:
        stamp = Stamp(
            run=secrets.token_hex(8),
            fence=next_fence(row.task.status.fence, now),
            worker=request.worker,
            token=request.token,
            at=now,
            lease_until=now + request.lease_ms,
        )
        task = stamped(row.task, stamp)
        event = task.status.events[-1]
        effects = between(row.entry, entry_of(task), event)
        self._records.write(row, task, effects, event, now, token=request.token)
        return row.copy()
