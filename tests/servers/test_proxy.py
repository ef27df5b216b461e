"""The proxy does the harm that it says it does."""

import asyncio
import gc
import socket
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from servers.entrance import Entrance
from servers.proxy import Proxy
from servers.tls import Certificate, Encrypting

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


ENTRANCES: dict[str, Callable[[int, Path], Entrance]] = {
    "proxy": lambda port, _: Proxy(port),
    "tls": lambda port, folder: Encrypting(port, Certificate(folder)),
}


@pytest.mark.parametrize("kind", ENTRANCES)
def test_an_entrance_that_ends_under_a_storm_of_connections_loses_none(
    kind: str, tmp_path: Path
) -> None:
    over = threading.Event()
    ports: list[int] = []

    def storm() -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", ports[-1]), 0.1) as line:
                line.sendall(b"x")

    def answer(target: socket.socket) -> None:
        with suppress(OSError):
            while True:
                target.accept()[0].close()

    with (
        socket.create_server(("127.0.0.1", 0)) as target,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        threading.Thread(target=answer, args=(target,), daemon=True).start()
        stormy = [threading.Thread(target=storm, daemon=True) for _ in range(4)]
        try:
            for number in range(20):
                with ENTRANCES[kind](target.getsockname()[1], tmp_path) as entrance:
                    ports.append(entrance.port)
                    if not number:
                        for one in stormy:
                            one.start()
                    time.sleep(0.02)  # for as many to come as may
        finally:
            over.set()
            for one in stormy:
                one.join(10)
            target.shutdown(socket.SHUT_RDWR)
        gc.collect()
    assert [str(one.message) for one in told if one.category is ResourceWarning] == []
