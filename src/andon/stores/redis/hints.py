"""Sends hints between processes: one channel per namespace and kind of topic, on a connection of
its own.

A process gets hints of configuration from the start, and of all else once a listener in it listens:
a process that only submits is not woken by its own tasks. A caller that subscribes and then reads
must not read too early: `settled` is awaited before every request, and costs nothing unless a
subscription is on its way.
"""

import asyncio
import contextlib
import random
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from andon.contract.hints import HintListener, Hub
from andon.contract.topics import EVENTS_TOPIC, ready_topic
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import AndonError
from andon.stores.kit.parked_claims import Handoff, ParkedClaims
from andon.stores.kit.topics import kind_of
from andon.stores.redis.connection import Connection, Lost
from andon.stores.redis.location import Address, Location
from andon.stores.redis.network import connect
from andon.stores.redis.wire import pack

FROM_THE_START = ("config",)
HEARD_WITH = {"events": "ready"}
"""Kinds that come with other kinds: a write that hints of ready tasks has written events too, and
sends one hint."""

HANDOFF_CHANNEL = "handed-"
"""The beginning of the kind of a process's own channel: the tasks handed to its parked claims."""

SETTLE_WITHIN_S = 2.0
PING_EVERY_S = 5.0
"""How often a silent subscription is tried, so that a server that vanished is noticed."""


class Subscription:
    """Brings the hints of all processes to the hub of this one."""

    def __init__(self, location: Location, hub: Hub, where: Callable[[], Any]) -> None:
        self._location = location
        self._hub = hub
        self._where = where
        self._prefix = f"{location.namespace}:hints:".encode()
        self._kinds: set[str] = set(FROM_THE_START)
        self._confirmed: set[str] = set()
        self.settling: asyncio.Event | None = None
        """While a topic that is listened to is not subscribed to yet: set when all are."""
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._early: list[HintListener] = []
        self.parked = ParkedClaims()
        self.handoff_channel = HANDOFF_CHANNEL + secrets.token_hex(
            8
        )  #: the kind of this process's own channel
        self._awaited = False
        self._missed = False

    async def open(self) -> None:
        """Subscribe to the topics that are subscribed to from the start."""
        self._follow()
        await self.settled()

    def listen(self, topics: Iterable[str]) -> HintListener:
        """Subscribe to topics from now on."""
        wanted = list(topics)
        listener = self._hub.listen(wanted)
        # A kind once wanted is kept: the next listener is likely to want it too.
        for kind in map(kind_of, wanted):
            self._kinds.update((kind, HEARD_WITH.get(kind, kind)))
        self._follow()
        if self.settling is not None:
            self._early.append(listener)
        return listener

    def hear_of_handoffs(self) -> None:
        """Subscribe to the hand-off channel of this process."""
        if self.handoff_channel not in self._kinds:
            self._kinds.add(self.handoff_channel)
            self._follow()

    async def settled(self) -> None:
        """Wait until the topics of all listeners are subscribed to; gives up soon, as hints may be
        lost."""
        settling = self.settling
        if settling is None:
            return
        self._awaited = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_WITHIN_S):
                await settling.wait()

    async def close(self) -> None:
        """Unsubscribe."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()
            await self._connection.closed()

    def _follow(self) -> None:
        if self._kinds <= self._confirmed:
            return
        if self.settling is None:
            self.settling = asyncio.Event()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._keep_subscribed())
        elif self._connection is not None and self._connection.alive:
            self._subscribe(self._connection)

    def _subscribe(self, connection: Connection) -> None:
        channels = [self._prefix + kind.encode() for kind in self._kinds - self._confirmed]
        connection.post(pack((b"SUBSCRIBE", *channels)))

    async def _keep_subscribed(self) -> None:
        delay = 0.05
        rng = random.Random()
        while True:
            with contextlib.suppress(Lost, OSError, TimeoutError, AndonError):
                address: Address = await self._where()
                connection = await connect(self._location, address, on_push=self._pushed)
                self._connection = connection
                self._confirmed.clear()
                self._subscribe(connection)
                delay = 0.05
                await self._until_lost(connection)
            self._confirmed.clear()
            self._missed = True
            await asyncio.sleep(delay * (0.5 + rng.random()))
            delay = min(delay * 2, 2.0)

    async def _until_lost(self, connection: Connection) -> None:
        while not connection.lost.done():
            await asyncio.wait([connection.lost], timeout=PING_EVERY_S)
            if not connection.lost.done():
                await connection.request(b"PING")

    def _settle(self) -> None:
        if self._missed:  # while the connection was lost: every listener looks once
            self._missed = False
            self._hub.hint_all(set(self._hub.listeners))
        # A listener that listened before this and has read nothing since may have missed a hint.
        if not self._awaited:
            for listener in self._early:
                listener.notify()
        self._early.clear()
        self._awaited = False
        settling, self.settling = self.settling, None
        if settling is not None:
            settling.set()

    def _pushed(self, push: list[Any]) -> None:
        if push[0] == b"subscribe":
            self._confirmed.add(push[1][len(self._prefix) :].decode())
            if self._kinds <= self._confirmed:
                self._settle()
        elif push[0] == b"message":
            kind = push[1][len(self._prefix) :].decode()
            if kind == self.handoff_channel:
                self.parked.handed_off(_handoff(push[2]))
            elif kind in ("ready", "control", "task", "run"):
                for name in push[2].split(b"\n"):
                    self._hub.hint(f"{kind}:{name.decode()}")
                if kind == "ready":
                    self._hub.hint(EVENTS_TOPIC)
            else:
                self._hub.hint(kind)


def _handoff(payload: bytes) -> Handoff:
    """Five lines, then the bodies of definition and status, as `create_alone.lua` sends them."""
    token, number, now, fence, size, bodies = payload.split(b"\n", 5)
    name, status_at = token.decode(), int(size)
    return Handoff(
        name,
        int(number),
        f"{name}-1",
        int(fence),
        int(now),
        bodies[:status_at],
        bodies[status_at:],
    )


class Refills:
    """Wakes the claimers of a rate-limited queue when its next token is there: no write will do
    so."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._alarms: dict[str, asyncio.TimerHandle] = {}

    def expect(self, queue: str, seconds: float) -> None:
        """Set the alarm for a token that will be there in so many seconds; the slow poll serves
        what is further off."""
        if queue in self._alarms or seconds > SLOW_POLL_S:
            return

        def refilled() -> None:
            del self._alarms[queue]
            self._hub.hint(ready_topic(queue))

        self._alarms[queue] = asyncio.get_running_loop().call_later(seconds, refilled)

    def close(self) -> None:
        """Stop waking claimers."""
        for alarm in self._alarms.values():
            alarm.cancel()
        self._alarms.clear()
