"""Runs scripts where the keys are: in one partition, in those of some ids, or in all of them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any

import hiredis

from andon.stores.kit.codec import encode
from andon.stores.kit.partitions import partition_of
from andon.stores.redis.beginnings import NewestBeginning
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.errors import refusal, word_of
from andon.stores.redis.hints import Refills, Subscription
from andon.stores.redis.network import Network
from andon.stores.redis.routes import prefix
from andon.stores.redis.scripts import SCRIPTS, Script
from andon.stores.redis.wire import Words, refused

Parts = tuple[Sequence[Any], Sequence[bytes | str]]
"""Groups of items that share most, and the parts of each item, in the form that scripts take."""

MOST_IN_PARTS = 500
"""The most items given in parts: scripts pass two words of each to one command."""


def is_short(ids: Sequence[str]) -> bool:
    """Whether items of these ids may be given in parts: they are not too many, and none comes
    twice."""
    return len(ids) <= MOST_IN_PARTS and len(set(ids)) == len(ids)


class Partitions:
    """All partitions of one open store. Every reply begins with the time of its server."""

    def __init__(
        self, network: Network, clock: RedisClock, subscription: Subscription, refills: Refills
    ) -> None:
        self.count = 1
        self.clock = clock
        self.location = network.location
        self.network = network
        self.refills = refills
        self.set_up: Callable[[Partitions, int], Awaitable[None]] | None = None
        self.parked, self.handoff_channel = subscription.parked, subscription.handoff_channel
        self.handed_off = (
            False  #: the newest record that was created alone was handed to a parked claim
        )
        self.told: set[tuple[str, int]] = set()  #: codes whose own kinds were sent to a partition
        self.newest = NewestBeginning()
        self._subscription = subscription

    @cached_property
    def parks_claims(self) -> bool:
        """Whether claims can be parked, for an open store only: if one server holds everything, and
        a write counts as soon as it is made there."""
        location = self.location
        return self.count == 1 and location.kind == "single" and not location.wait

    def of(self, name: str) -> int:
        """The partition of a task id, of a unique key, or of a queue's shared limits."""
        return partition_of(name, self.count)

    def places(self, ids: Sequence[str]) -> dict[int, list[int]]:
        """Partition to the places of its ids."""
        places: dict[int, list[int]] = {}
        for place, task_id in enumerate(ids):
            places.setdefault(self.of(task_id), []).append(place)
        return places

    async def run(self, name: str, partition: int, arguments: Any) -> list[Any]:
        """Run a script in one partition."""
        return await self.run_packed(name, partition, encode(arguments))

    async def run_packed(
        self,
        name: str,
        partition: int,
        packed: bytes,
        parts: Sequence[bytes | str] = (),
        *,
        last: bool = False,
        spin: bool = False,
    ) -> list[Any]:
        """The same, with arguments packed already, and parts that the script takes as they are;
        `last` and `spin` as in `Connection`."""
        if self._subscription.settling is not None:
            await self._subscription.settled()
        found = SCRIPTS[name]
        keys = prefix(self.location.namespace, partition)
        given = b"" if self.clock.virtual is None else self.clock.given
        words = (b"EVALSHA", found.sha, b"1", keys, packed, given, *parts)
        reply = await self.network.ask(partition, words, found, last=last, spin=spin)
        if isinstance(reply, hiredis.ReplyError):
            reply = await self._reply_after_all(partition, words, found, refused(reply))
        self.clock.tell(reply[0])
        return reply

    async def _reply_after_all(
        self, partition: int, words: Words, found: Script, reason: str
    ) -> list[Any]:
        """The reply of a server that had to be set up first. Raises any other refusal."""
        if word_of(reason) == "ANDONEMPTY" and self.set_up is not None:
            await self.set_up(self, partition)  # a server that was emptied, or came back empty
            reply = await self.network.ask(partition, words, found)
            reason = refused(reply)
            if not reason:
                return reply
        raise refusal(self.location.shown, reason)

    async def look(self, partition: int, command: bytes, key: str, *words: str | int) -> Any:
        """Run one plain command on one key: what every poll asks for needs no script."""
        if self._subscription.settling is not None:
            await self._subscription.settled()
        whole = prefix(self.location.namespace, partition) + key
        return await self.network.call(partition, (command, whole, *words))

    async def spread(self, name: str, items: Sequence[Any], ids: Sequence[str]) -> list[Any]:
        """Run a script over items, each in the partition of its id. Returns answers in their
        order."""
        if not items:
            return []
        if self.count == 1:
            return (await self.run(name, 0, items))[1:]
        answers: list[Any] = [None] * len(items)

        async def one(partition: int, places: list[int], packed: bytes) -> None:
            reply = await self.run_packed(name, partition, packed)
            for place, answer in zip(places, reply[1:], strict=True):
                answers[place] = answer

        await asyncio.gather(*(one(*each) for each in self._packed(items, ids)))
        return answers

    def _packed(
        self, items: Sequence[Any], ids: Sequence[str]
    ) -> list[tuple[int, list[int], bytes]]:
        """Partitions with the places of their items, and these packed: all before any is sent."""
        return [
            (partition, places, encode([items[place] for place in places]))
            for partition, places in self.places(ids).items()
        ]

    async def spread_parts(
        self, name: str, ids: Sequence[str], parts_of: Callable[[Sequence[int]], Parts]
    ) -> list[Any]:
        """Run a script over items that may take its fast path, given what that takes of those at
        some places. Returns answers in their order, None for those that took it."""
        if self.count == 1:
            groups, parts = parts_of(range(len(ids)))
            answers = (await self.run_packed(name, 0, encode(groups), parts))[1:]
            answers += [None] * (len(ids) - len(answers))
            return answers
        answers = [None] * len(ids)

        async def one(partition: int, places: Sequence[int], asked: Parts) -> None:
            groups, parts = asked
            reply = await self.run_packed(name, partition, encode(groups), parts)
            for place, answer in zip(places, reply[1:], strict=False):
                answers[place] = answer

        asked = [(p, places, parts_of(places)) for p, places in self.places(ids).items()]
        await asyncio.gather(*(one(*each) for each in asked))
        return answers

    async def everywhere(self, name: str, arguments: Any) -> list[list[Any]]:
        """Run a script in every partition. Returns replies by partition."""
        return await asyncio.gather(
            *(self.run(name, partition, arguments) for partition in range(self.count))
        )
