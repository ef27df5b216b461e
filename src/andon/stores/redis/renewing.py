"""Renews leases: writes the run cell only; no revision, no event (docs/rulings.md, R4). Renewals
that must not depend on the store's loop have a loop and connections of their own."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from andon.contract.isolation import Unwritable
from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.stores.kit.codec import encode
from andon.stores.kit.loop_thread import LoopThread
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.errors import unavailable
from andon.stores.redis.location import Location
from andon.stores.redis.network import Network
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.routes import prefix
from andon.stores.redis.scripts import SCRIPTS

MOST_LEASE_MS = 2**52
"""Added to the present time it stays below what scripts count exactly."""

ANSWERED_WITHIN_S = 3.0
"""How long a blocking call waits, with all its tries: less than any lease that can be kept over a
connection that hangs."""

_VERDICTS = {b"o": Verdict.OK, b"c": Verdict.CANCEL, b"l": Verdict.LOST}


async def renew(at: Partitions, renewals: Sequence[Renewal]) -> list[Verdict]:
    """Extend leases and write progress of runs that still hold their task."""
    replies = await at.spread("renew", [_item(r) for r in renewals], [r.task for r in renewals])
    return verdicts(replies)


def verdicts(replies: Sequence[Any]) -> list[Verdict]:
    """The script's answer for each; for a damaged cell it says why it cannot be renewed."""
    return [Verdict.INVALID if isinstance(reply, list) else _VERDICTS[reply] for reply in replies]


class Renewer:
    """Blocking calls from any thread."""

    def __init__(self, location: Location, clock: RedisClock) -> None:
        self._location = location
        self._clock = clock
        self._network: Network | None = None
        self._thread = LoopThread("andon-renewals", location.shown)

    def renew(self, partition: int, renewals: Sequence[Renewal]) -> list[Verdict]:
        """Renew runs of tasks of one partition. Raises `StoreUnavailable` once it is closed."""
        packed = encode([_item(renewal) for renewal in renewals])
        return verdicts(self._thread.run(partial(self._renew, partition, packed)))

    async def _renew(self, partition: int, packed: bytes) -> list[Any]:
        if self._network is None:
            self._network = Network(self._location, self._clock)
        found, keys = SCRIPTS["renew"], prefix(self._location.namespace, partition)
        words = (b"EVALSHA", found.sha, b"1", keys, packed, self._clock.given)
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                now, *replies = await self._network.call(partition, words, found)
        except TimeoutError:
            self._clock.silence()
            await self._disconnect()  # the next call connects anew
            reason = f"no answer within {ANSWERED_WITHIN_S:g} s"
            raise unavailable(self._location.shown, reason) from None
        self._clock.tell(now)
        return replies

    def close(self) -> None:
        """Close the connections; a call in flight fails. Blocks for a moment."""
        self._thread.close(self._disconnect)

    async def _disconnect(self) -> None:
        network, self._network = self._network, None
        if network is not None:
            await network.close()


def _item(renewal: Renewal) -> tuple[Any, ...]:
    if not 0 <= renewal.lease_ms <= MOST_LEASE_MS:
        raise Unwritable(f"a lease of {renewal.lease_ms} ms cannot be kept")
    return (
        renewal.task,
        renewal.run,
        renewal.lease_ms,
        renewal.heartbeat,
        renewal.progress,
        renewal.message,
    )
