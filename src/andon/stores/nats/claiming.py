"""Claims tasks: reads the first pending ones and writes the claim's stamp over them.

A queue without limits is read from the stream, in order. Each kind of task and each priority is a
sub-queue, and a claim reads only those of kinds that the worker has code and room for. Sub-queues
known to be empty cost nothing. When two processes read the same sub-queue, the guard of each record
lets one of them write; the other looks further down for a while. `limited_claims` claims from
queues with limits.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from andon.contract.requests import ClaimRequest
from andon.contract.topics import ready_topic
from andon.lifecycle.routing import may_claim, name_of_kind
from andon.model.code import Code
from andon.model.task import Task
from andon.stores.nats.claim_attempt import ClaimAttempt
from andon.stores.nats.contention import Contention
from andon.stores.nats.context import StoreContext
from andon.stores.nats.index import Index
from andon.stores.nats.level_claim import LevelClaim
from andon.stores.nats.limited_claims import claim_limited, is_limited
from andon.stores.nats.subqueues import Subqueue, Subqueues

if TYPE_CHECKING:
    from andon.model.fleet import QueueConfig


_MOST_AHEAD = 256
"""How many sub-queues are read in one request, if those before them were empty."""

_CODES = 64
"""For how many workers' codes it is remembered what they may claim."""


class Claims:
    """Hands out pending tasks."""

    def __init__(self, context: StoreContext, index: Index) -> None:
        self._context = context
        self._index = index
        self.subqueues = [
            Subqueues(context, partition) for partition in range(len(context.records))
        ]
        self._locks: dict[int, asyncio.Lock] = {}
        self.contention = Contention()
        self._refills: dict[str, asyncio.TimerHandle] = {}
        self._configs: dict[str, QueueConfig] = {}
        self._limits: set[str] = set()
        self._may: OrderedDict[str, dict[str, bool]] = OrderedDict()

    def close(self) -> None:
        """Send no more hints."""
        for alarm in self._refills.values():
            alarm.cancel()
        self._refills.clear()

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Hand out what the request has code and room for."""
        async with self._locks.setdefault(request.partition, asyncio.Lock()):
            return await self._claim(ClaimAttempt(self._context, request))

    def refill(self, queue: str, seconds: float) -> None:
        """Send a hint when the rate limit lets the next claim through: no write will send one."""
        if queue in self._refills:
            return

        def refilled() -> None:
            del self._refills[queue]
            self._context.hints.hub.hint(ready_topic(queue))

        self._refills[queue] = asyncio.get_running_loop().call_later(seconds, refilled)

    def may(self, code: Code | None) -> Callable[[str], bool]:
        """Which kinds a worker with this code may claim; decided once for each code."""
        if code is None:
            return lambda _kind: True
        known = self._may.setdefault(code.digest, {})
        self._may.move_to_end(code.digest)
        while len(self._may) > _CODES:
            self._may.popitem(last=False)

        def may(kind: str) -> bool:
            found = known.get(kind)
            if found is None:
                found = known[kind] = may_claim(code, kind)
            return found

        return may

    def limited(self, configs: "dict[str, QueueConfig]") -> set[str]:
        """The names of queues with limits, found once for each reading of the configurations."""
        if configs is not self._configs:
            self._configs = configs
            self._limits = {name for name, config in configs.items() if is_limited(config)}
        return self._limits

    async def _claim(self, claim: ClaimAttempt) -> list[Task]:
        fleet = self._context.fleet
        request = claim.request
        may = self.may(request.code)
        limited = False
        for again in (False, True):
            configs = await fleet.configs()
            limited_names = self.limited(configs)
            limited = limited or not limited_names.isdisjoint(request.queues)
            if limited and await claim.is_repeat():
                assert claim.repeat is not None
                return claim.repeat
            await _QueueRound(self, claim, self._index, configs, may).run()
            if claim.repeat is not None:
                return claim.repeat
            if claim.claimed or again:
                break
            before = fleet.changes
            await fleet.refresh()
            if fleet.changes == before:
                break
        if not claim.claimed and not limited and await claim.is_repeat():
            assert claim.repeat is not None
            return claim.repeat
        claim.hint()
        return claim.claimed


class _QueueRound:
    """One claim from all its queues."""

    def __init__(
        self,
        claims: Claims,
        claim: ClaimAttempt,
        index: Index,
        configs: "dict[str, QueueConfig]",
        may: Callable[[str], bool],
    ) -> None:
        self._claims = claims
        self._claim = claim
        self._index = index
        self._configs = configs
        self._limited = claims.limited(configs)
        self._may = may
        self._fleet = claim.context.fleet
        self._subqueues = claims.subqueues[claim.request.partition]
        self._ahead = 1  # sub-queues to read in one request
        self._synced = False

    async def run(self) -> None:
        """Claim from one queue after the other."""
        claim, subqueues, now = self._claim, self._subqueues, time.monotonic()
        code = claim.request.code
        await subqueues.recheck_empty(now)
        quiet = subqueues.quiet("" if code is None else code.digest, now)
        queues = claim.request.queues
        several = len(self._limited.intersection(queues)) > 1
        for number, queue in enumerate(queues):
            if claim.wanted <= 0 or claim.repeat is not None:
                return
            if subqueues.is_quiet(quiet, queue):
                continue
            config = self._configs.get(queue)
            if config is not None and config.paused:
                continue
            if config is not None and queue in self._limited:
                if not several or await self._is_waiting(queue):
                    await claim_limited(claim, self._index, config, self._claims.refill)
            elif await self._plain(number):
                subqueues.set_quiet(quiet, queue)

    async def _is_waiting(self, queue: str) -> bool:
        """Whether a limited queue has something to claim: of many queues, most have nothing, and
        claiming from each costs a read of its limiter lock."""
        if not self._synced:
            await self._index.sync()
            self._synced = True
        broken = self._index.broken[self._claim.request.partition]
        return bool(broken) or self._index.tables.ready.waiting(queue)

    async def _plain(self, number: int) -> bool:
        """Claim from a queue without limits, the highest level first; whether all sub-queues that
        the worker has code for are known to be empty."""
        claim = self._claim
        queue = claim.request.queues[number]
        levels: dict[str, list[Subqueue]] = {}
        is_quiet = True
        for name in self._fleet.subqueues(queue):
            if not self._may(name.kind):
                continue
            subqueue = self._subqueues.subqueue(name)
            if self._subqueues.is_empty(subqueue):
                continue
            is_quiet = False
            if claim.room.get(name_of_kind(name.kind), 1) > 0:
                levels.setdefault(name.level, []).append(subqueue)
        for level, subqueues in levels.items():
            if claim.wanted <= 0:
                break
            if self._ahead > 1:
                await self._look_ahead(number, level)
            before = len(claim.claimed)
            known = self._claims.subqueues[claim.request.partition]
            if not await LevelClaim(self._claims.contention, known, claim, subqueues).run():
                break
            if len(claim.claimed) == before:
                self._ahead = min(self._ahead * 8, _MOST_AHEAD)
        return is_quiet

    async def _look_ahead(self, number: int, level: str) -> None:
        """Read the next records of the sub-queues that come next and of which nothing is known:
        reading many empty ones one after the other would take long."""
        found: list[Subqueue] = []
        is_behind = False
        for queue in self._claim.request.queues[number:]:
            config = self._configs.get(queue)
            if queue in self._limited or (config is not None and config.paused):
                continue
            for name in self._fleet.subqueues(queue):
                # Of the first queue, only from the level on that is to be served now.
                is_behind = is_behind or name.level == level
                room = self._claim.room.get(name_of_kind(name.kind), 1)
                if not is_behind or room <= 0 or not self._may(name.kind):
                    continue
                subqueue = self._subqueues.subqueue(name)
                if self._subqueues.is_empty(subqueue):
                    continue
                self._subqueues.forget_stale(subqueue)
                if not subqueue.records and not subqueue.ended:
                    found.append(subqueue)
            is_behind = True
            if len(found) >= self._ahead:
                break
        if len(found) > 1:
            await self._subqueues.peek(found[: self._ahead])
