"""Keeps the limits of a queue that has several partitions: never exceeded, under-used after a
crash.

A claim first takes permits in the limit's own partition, which makes it visible to other claims
under way; then it counts the existing runs, in every partition; then it claims what is left; then
it gives the permits back. Of two claims at once, the later one counts the permits of the earlier:
so whatever each sees of the other's runs, together they stay within the limit. Permits of a claimer
that died are dropped after a minute, when it is certain whether its claim was made.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from andon.stores.redis.partitions import Partitions


class Limited(msgspec.Struct, frozen=True):
    """A queue from which claims need a grant, and why."""

    queue: str
    concurrent: int | None
    rate: float | None
    burst: int
    per_key: int | None
    is_cut: bool  #: its other tasks have keys that are not among these
    keys: tuple[str, ...]  #: that the first of its tasks have


def limited_in(rows: list[Any]) -> list[Limited]:
    """The queues that a claim's reply asks grants for."""
    return [
        Limited(
            row[0].decode(),
            row[1] if row[1] >= 0 else None,
            float(row[2]) if row[2] else None,
            row[3],
            row[4] if row[4] >= 0 else None,
            row[5] == 1,
            tuple(key.decode() for key in row[6:]),
        )
        for row in rows
    ]


class Grants:
    """What one claim may take of limited queues."""

    def __init__(self, at: Partitions, token: str) -> None:
        self._at = at
        self._token = token
        self._drawn: list[Limited] = []
        self._permits: dict[str, list[str]] = {}
        self.granted: dict[str, dict[str, Any]] = {}

    async def take(self, queues: list[Limited], wanted: int) -> None:
        """Take permits, count, and compute what is left, for each queue."""
        await asyncio.gather(*(self._take(limited, wanted) for limited in queues))

    async def give_back(self) -> None:
        """Give permits back: the runs they were for are counted by now."""
        for queue, names in self._permits.items():
            await self._at.run("permit", self._at.of(queue), (self._token, None, names))

    async def settle(self, used: Mapping[str, int]) -> None:
        """Say how many tokens were used; the others go back. After a claim that failed this is not
        known, so its tokens are held for a while."""
        for limited in self._drawn:
            await self._draw(limited, 0, used.get(limited.queue, 0))

    async def _take(self, limited: Limited, wanted: int) -> None:
        queue, most = limited.queue, wanted
        keys: dict[str, int] = {}
        if limited.concurrent is not None or limited.per_key is not None:
            names = [queue, *(f"{queue}|{key}" for key in limited.keys)]
            self._permits[queue] = names
            reply = await self._at.run("permit", self._at.of(queue), (self._token, wanted, names))
            before = reply[1:]
            replies = await self._at.everywhere("running", (queue, limited.keys))
            running = [sum(counts) for counts in zip(*(r[1:] for r in replies), strict=True)]
            if limited.concurrent is not None:
                most = min(most, limited.concurrent - running[0] - before[0])
            if limited.per_key is not None:
                for key, runs, earlier in zip(limited.keys, running[1:], before[1:], strict=True):
                    keys[key] = max(limited.per_key - runs - earlier, 0)
        if limited.rate is not None and most > 0:
            most = await self._draw(limited, most)
            self._drawn.append(limited)
        if most > 0:
            self.granted[queue] = {"most": most, "keys": keys, "is_cut": limited.is_cut}

    async def _draw(self, limited: Limited, count: int, used: int | None = None) -> int:
        arguments = (limited.queue, limited.rate, limited.burst, count, self._token, used)
        reply = await self._at.run("draw", self._at.of(limited.queue), arguments)
        if reply[2]:
            self._at.refills.expect(limited.queue, reply[2] / 1000)
        return reply[1]
