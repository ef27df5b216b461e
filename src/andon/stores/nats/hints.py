"""Sends hints between processes: core NATS messages, one subject for each kind of topic.

A process subscribes to a kind while a listener in it listens to a topic of that kind, so that an
idle worker does not get a hint of every move of every task.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from andon.contract.hints import HintListener, Hub
from andon.contract.topics import CONFIG_TOPIC, ready_topic
from andon.stores.nats.jetstream import JetStream
from andon.stores.nats.nats_client import Reply

if TYPE_CHECKING:
    from andon.stores.nats.connection import Subscription


_ANY_TEXT = "surrogatepass"
"""How topics are encoded: a name that does not encode must not stop the hints of the others."""

_READY = ready_topic("").partition(":")[0]
_READY_SUFFIX = f".{_READY}".encode()


class Hints:
    """Hints of topics, within this process and between processes."""

    def __init__(self, namespace: str) -> None:
        self.root = f"andonhint.{namespace}."
        self.hub = Hub()
        self._kinds: dict[str, int] = {}
        self._subscribed: dict[str, Subscription] = {}
        self._js: JetStream | None = None
        self._changing: asyncio.Task[None] | None = None
        self._counts_ready = False
        self._ready: dict[str, int] = {}
        self._heard_since = 0

    async def open(self, js: JetStream) -> None:
        """Receive hints of other processes from now on."""
        self._js = js
        self._kinds[CONFIG_TOPIC] = self._kinds.get(CONFIG_TOPIC, 0) + 1
        await self._follow()

    async def close(self) -> None:
        """End every subscription."""
        self._js = None
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

    # --- what becomes ready ---

    def count_ready(self) -> None:
        """Note from now on which queues were hinted to have a ready task (`heard`)."""
        if not self._counts_ready:
            self._counts_ready = True
            self._kinds[_READY] = self._kinds.get(_READY, 0) + 1
            self._change()

    def heard(self, topic: str) -> tuple[int, int] | None:
        """A value that differs once the topic was hinted, or hints may have been missed; None while
        this process gets no such hints. Only for topics about tasks that become ready."""
        if not self._counts_ready or _READY not in self._subscribed:
            return None
        return self._heard_since, self._ready.get(topic, 0)

    def missed(self) -> None:
        """Note that hints may have been missed."""
        self._heard_since += 1

    def _count(self, topics: Iterable[str]) -> None:
        if self._counts_ready:
            for topic in topics:
                self._ready[topic] = self._ready.get(topic, 0) + 1

    def _change(self) -> None:
        if self._js is not None and (self._changing is None or self._changing.done()):
            wanted = {kind for kind, count in self._kinds.items() if count}
            if wanted != set(self._subscribed):
                with contextlib.suppress(RuntimeError):
                    self._changing = asyncio.get_running_loop().create_task(self._follow())

    async def settled(self) -> None:
        """Wait until the server has the subscriptions of all listeners."""
        if self._changing is not None:
            await asyncio.gather(self._changing, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            wanted = {kind for kind, count in self._kinds.items() if count}
            js = self._js
            if js is None or wanted == set(self._subscribed):
                return
            try:
                for kind in wanted - set(self._subscribed):
                    subject = f"{self.root}{kind}"
                    self._subscribed[kind] = js.subscribe(subject, self._take)
                for kind in set(self._subscribed) - wanted:
                    self._subscribed.pop(kind).unsubscribe()
                await js.flush()
                self.missed()  # hints that came before the server had the subscription
            except Exception:
                return  # the slow poll covers what is not subscribed to

    def _take(self, subject: bytes, msg: Reply) -> None:
        topics = set(msg.data.decode(errors=_ANY_TEXT).split("\n"))
        if subject.endswith(_READY_SUFFIX):
            self._count(topics)
        self.hub.hint_all(topics)

    def notify(self, topics: Iterable[str]) -> dict[str, bytes]:
        """Hint in this process. Returns what to publish to the others, by subject."""
        by_kind: dict[str, list[str]] = {}
        for topic in dict.fromkeys(topics):
            self.hub.hint(topic)
            by_kind.setdefault(topic.partition(":")[0], []).append(topic)
        self._count(by_kind.get(_READY, ()))
        return {f"{self.root}{kind}": encoded(of_kind) for kind, of_kind in by_kind.items()}


def encoded(topics: Iterable[str]) -> bytes:
    """The message that hints topics of one kind."""
    return "\n".join(topics).encode(errors=_ANY_TEXT)
