"""Messages published to a broker that speaks AMQP 0-9-1, RabbitMQ for example.

The exchanges are declared as durable topics, as the original's are, and messages are persistent. A
message counts as delivered once the broker has confirmed it; whatever happens to the connection
before, it is published again on a new one.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from andon.model.errors import ConfigurationError
from andon.service.taskcluster.messages.delivery import NotNow, Refused
from andon.service.taskcluster.messages.exchanges import Exchange, Message

if TYPE_CHECKING:
    from andon.service.taskcluster.messages.configuration import BrokerSettings

_AT_ONCE = 64


class Broker:
    """One broker."""

    def __init__(self, settings: "BrokerSettings") -> None:
        try:
            import aio_pika
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"A broker needs {error.name}. Install it with: pip install 'andon[amqp]'."
            ) from error
        self.name = f"amqp.{settings.name}"
        self.bindings = settings.bindings
        self.at_once = _AT_ONCE
        self._settings = settings
        self._pika = aio_pika
        self._connecting = asyncio.Lock()
        self._connection: Any = None
        self._exchanges: dict[Exchange, Any] = {}

    async def send(self, message: Message) -> None:
        """Publish it, until the broker has confirmed it. Raises `NotNow` or `Refused`."""
        pika = self._pika
        connection: Any = None
        try:
            made = self._made_of(message)
            async with asyncio.timeout(self._settings.timeout):
                connection, exchanges = await self._connected()
                await exchanges[message.exchange].publish(
                    made, message.routing_key, mandatory=False
                )
        except pika.exceptions.DeliveryError as error:
            raise NotNow(f"it did not take the message: {error}") from None
        except (pika.exceptions.AMQPError, OSError, RuntimeError) as error:
            await self._drop(connection)
            raise NotNow(_said(error)) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise Refused(_said(error)) from None
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            # What waited on a connection that went away is cancelled by the client.
            await self._drop(connection)
            raise NotNow("the connection was closed") from None

    def _made_of(self, message: Message) -> Any:
        headers: dict[str, Any] = {"CC": list(message.routes)} if message.routes else {}
        return self._pika.Message(
            message.body,
            content_type="application/json",
            delivery_mode=self._pika.DeliveryMode.PERSISTENT,
            message_id=message.id,
            timestamp=message.at // 1000,
            headers=headers,
        )

    async def _connected(self) -> tuple[Any, dict[Exchange, Any]]:
        """The connection and the exchanges on it, made anew if there is none."""
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed:
                return self._connection, self._exchanges
            connection = await self._pika.connect(
                self._settings.url, timeout=self._settings.timeout
            )
            try:
                channel = await connection.channel(publisher_confirms=True)
                self._exchanges = {
                    exchange: await channel.declare_exchange(
                        exchange.full_name, self._pika.ExchangeType.TOPIC, durable=True
                    )
                    for exchange in Exchange
                }
            except BaseException:
                await _closed(connection)
                raise
            self._connection = connection
            return connection, self._exchanges

    async def _drop(self, connection: Any) -> None:
        """Use this connection no more; the next message makes another."""
        if connection is None:
            return
        if connection is self._connection:
            self._connection, self._exchanges = None, {}
        await _closed(connection)

    async def close(self) -> None:
        """Close the connection."""
        await self._drop(self._connection)


async def _closed(connection: Any) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(1.0):
            await connection.close()


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
