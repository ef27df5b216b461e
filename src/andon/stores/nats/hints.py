"""Hints between processes: core NATS messages, one subject for each kind of topic.

A process subscribes to a kind while somebody in it listens to a topic of that kind, so that an
idle worker is not told of every move of every task.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nats.aio.msg import Msg

from andon.stores.base import CONFIG_TOPIC
from andon.stores.hints import HintListener, Hub
from andon.stores.nats.wire import Wire

if TYPE_CHECKING:
    from andon.stores.nats.connection import Subscription


class Hints:
    """Topics within this process and across others."""

    def __init__(self, namespace: str) -> None:
        self.root = f"andonhint.{namespace}."
        self.hub = Hub()
        self._kinds: dict[str, int] = {}
        self._subscribed: dict[str, Subscription] = {}
        self._wire: Wire | None = None
        self._changing: asyncio.Task[None] | None = None

    async def open(self, wire: Wire) -> None:
        """Follow others from now on."""
        self._wire = wire
        self._kinds[CONFIG_TOPIC] = self._kinds.get(CONFIG_TOPIC, 0) + 1
        await self._follow()

    async def close(self) -> None:
        """End every subscription."""
        self._wire = None
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.gather(self._changing, return_exceptions=True)
        self._subscribed.clear()
        self.hub.close()

    def listen(self, topics: Iterable[str]) -> HintListener:
        """Subscribe to topics."""
        wanted = tuple(topics)
        kinds = {topic.partition(":")[0] for topic in wanted}
        for kind in kinds:
            self._kinds[kind] = self._kinds.get(kind, 0) + 1

        def closed() -> None:
            for kind in kinds:
                self._kinds[kind] -= 1
            self._change()

        self._change()
        return self.hub.listen(wanted, on_close=closed)

    def _change(self) -> None:
        if self._wire is not None and (self._changing is None or self._changing.done()):
            wanted = {kind for kind, count in self._kinds.items() if count}
            if wanted != set(self._subscribed):
                with contextlib.suppress(RuntimeError):
                    self._changing = asyncio.get_running_loop().create_task(self._follow())

    async def settled(self) -> None:
        """Wait until the server knows what is listened to."""
        if self._changing is not None:
            await asyncio.gather(self._changing, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            wanted = {kind for kind, count in self._kinds.items() if count}
            wire = self._wire
            if wire is None or wanted == set(self._subscribed):
                return
            try:
                for kind in wanted - set(self._subscribed):
                    subject = f"{self.root}{kind}"
                    self._subscribed[kind] = await wire.subscribe(subject, self._take)
                for kind in set(self._subscribed) - wanted:
                    await self._subscribed.pop(kind).unsubscribe()
                await wire.flush()
            except Exception:
                return  # the slow poll covers what is not subscribed to

    async def _take(self, msg: Msg) -> None:
        self.hub.hint_all(set(msg.data.decode().split("\n")))

    def tell(self, topics: Iterable[str]) -> dict[str, bytes]:
        """Hint in this process; what is to be published to the others, by subject."""
        by_kind: dict[str, list[str]] = {}
        for topic in dict.fromkeys(topics):
            self.hub.hint(topic)
            by_kind.setdefault(topic.partition(":")[0], []).append(topic)
        return {
            f"{self.root}{kind}": "\n".join(of_kind).encode() for kind, of_kind in by_kind.items()
        }
