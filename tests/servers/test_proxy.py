"""The proxy does the harm that it says it does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from servers.proxy import Proxy

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """A server that says what it is told, and keeps it."""

    def __init__(self) -> None:
        self.heard = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.heard += line
            writer.write(line)
        writer.close()


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Echo, Proxy]]:
    echo = Echo()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = await asyncio.to_thread(Proxy(server.sockets[0].getsockname()[1]).__enter__)
    try:
        yield echo, proxy
    finally:
        await asyncio.to_thread(proxy.__exit__, None, None, None)
        server.close()


async def ask(streams: Streams, line: bytes) -> bytes:
    """The answer; nothing if the connection was closed or reset instead."""
    reader, writer = streams
    writer.write(line)
    try:
        return await asyncio.wait_for(reader.readline(), 10)
    except ConnectionError:
        return b""


def test_what_is_sent_arrives_and_is_counted() -> None:
    async def scenario() -> None:
        async with echoing() as (_, proxy):
            streams = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await ask(streams, b"one\n") == b"one\n"
            assert (proxy.connections, proxy.requests) == (1, 1)
            streams[1].close()

    asyncio.run(scenario())


def test_a_lost_reply_was_to_something_done() -> None:
    async def scenario() -> None:
        async with echoing() as (echo, proxy):
            streams = await asyncio.open_connection("127.0.0.1", proxy.port)
            proxy.lose_replies(1.0)
            assert await ask(streams, b"one\n") == b""
            assert echo.heard == b"one\n"
            assert proxy.lost == 1
            streams[1].close()

    asyncio.run(scenario())


def test_connections_are_cut_and_refused_until_it_is_mended() -> None:
    async def scenario() -> None:
        async with echoing() as (echo, proxy):
            cut = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await ask(cut, b"one\n") == b"one\n"
            proxy.refuse()
            assert await ask(cut, b"two\n") == b""
            refused = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await ask(refused, b"three\n") == b""
            proxy.mend()
            again = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await ask(again, b"four\n") == b"four\n"
            assert echo.heard.endswith(b"four\n")
            assert b"three" not in echo.heard
            for _, writer in (cut, refused, again):
                writer.close()

    asyncio.run(scenario())


def test_what_was_held_arrives_in_the_end() -> None:
    async def scenario() -> None:
        async with echoing() as (echo, proxy):
            streams = await asyncio.open_connection("127.0.0.1", proxy.port)
            assert await ask(streams, b"one\n") == b"one\n"
            proxy.hold()
            asking = asyncio.ensure_future(ask(streams, b"two\n"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asking), 0.3)
            assert echo.heard == b"one\n"
            proxy.mend()
            assert await asking == b"two\n"
            streams[1].close()

    asyncio.run(scenario())
