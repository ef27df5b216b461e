"""The sinks of one service: made of its settings, begun and ended with it."""

import asyncio
from typing import TYPE_CHECKING

from andon.service.taskcluster.messages.broker import Broker
from andon.service.taskcluster.messages.cursors import Cursor
from andon.service.taskcluster.messages.delivery import Delivery, Sink
from andon.service.taskcluster.messages.webhooks import Webhook

if TYPE_CHECKING:
    from andon.engine.local import LocalEngine
    from andon.service.metrics import Metrics
    from andon.service.taskcluster.messages.configuration import MessageSettings
    from andon.service.taskcluster.messages.feed import Feed


class Sinks:
    """Delivers to every sink, each by itself."""

    def __init__(
        self, settings: "MessageSettings", engine: "LocalEngine", feed: "Feed", metrics: "Metrics"
    ) -> None:
        """Raises `ConfigurationError` where what a sink needs is not installed."""
        self._sinks: list[Sink] = [
            *map(Webhook, settings.webhooks),
            *map(Broker, settings.brokers),
        ]
        self._engine = engine
        self._feed = feed
        self._metrics = metrics
        self._deliveries: list[Delivery] = []

    async def start(self) -> None:
        """Begin: what happens from now on is delivered."""
        for sink in self._sinks:
            cursor = Cursor(self._engine.store, sink.name)
            delivery = Delivery(sink, self._feed, cursor, self._metrics)
            self._deliveries.append(delivery)
            await delivery.start()

    async def stop(self) -> None:
        """End; what is not delivered yet is delivered after the next start."""
        deliveries, self._deliveries = self._deliveries, []
        await asyncio.gather(*(one.close() for one in deliveries), return_exceptions=True)
