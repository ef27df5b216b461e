"""Limits of a queue that has several partitions: never exceeded, under-used after a crash.

A claim first takes permits in the limit's own partition, which makes it visible to other claims on
their way; then it counts the runs there are, in every partition; then it claims what is left; then
it gives the permits back. Of two claims at once, the later one counts the permits of the earlier:
so whatever both see of the other's runs, together they stay within the limit. Permits of a claimer
that died are forgotten after a minute, when its claim is certain to have been made or not.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from andon.stores.redis.partitions import Partitions


class Limited(msgspec.Struct, frozen=True):
    """A queue that is claimed from with a grant only, and why."""

    queue: str
    concurrent: int | None
    rate: float | None
    burst: int
    per_key: int | None
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
            tuple(key.decode() for key in row[5:]),
        )
        for row in rows
    ]


class Grants:
    """What one claim may take of limited queues."""

    def __init__(self, at: Partitions, token: str) -> None:
        self._at = at
        self._token = token
        self._drawn: dict[str, tuple[Limited, int]] = {}
        self._permits: dict[str, list[str]] = {}
        self.granted: dict[str, dict[str, Any]] = {}

    async def take(self, queues: list[Limited], wanted: int) -> None:
        """Take permits, count, and see what is left, for each queue."""
        await asyncio.gather(*(self._take(limited, wanted) for limited in queues))

    async def give_back(self, used: Mapping[str, int]) -> None:
        """Give permits and unused tokens back."""
        for queue, names in self._permits.items():
            await self._at.run("permit", self._at.of(queue), (self._token, None, names))
        for queue, (limited, drawn) in self._drawn.items():
            unused = drawn - used.get(queue, 0)
            if unused > 0:
                await self._draw(limited, -unused)

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
            self._drawn[queue] = (limited, most)
        if most > 0:
            self.granted[queue] = {"most": most, "keys": keys}

    async def _draw(self, limited: Limited, count: int) -> int:
        arguments = (limited.queue, limited.rate, limited.burst, count)
        reply = await self._at.run("draw", self._at.of(limited.queue), arguments)
        if reply[2]:
            self._at.refills.expect(limited.queue, reply[2] / 1000)
        return reply[1]
