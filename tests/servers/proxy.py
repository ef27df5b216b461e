"""A TCP proxy before a server, which cuts, holds, delays and loses what passes.

It runs in a thread of its own, so that a test whose loop is blocked still has a network.
"""

import asyncio
import contextlib
import random
import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

_CHUNK = 65_536


class Proxy:
    """Stands before a port on loopback. A context manager; every harm lasts until `mend`."""

    def __init__(self, port: int, *, rng: random.Random | None = None) -> None:
        self.port = 0  #: where it listens, once entered
        self.connections = 0  #: how often somebody connected, refused or not
        self.requests = 0  #: pieces of bytes that clients sent
        self.lost = 0  #: replies lost
        self._target = port
        self._rng = rng or random.Random(0)
        self._chance = 0.0
        self._delay = 0.0
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._passing = asyncio.Event()
        self._passing.set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def before(self, url: str) -> str:
        """The URL by which clients come through here instead."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}"))

    # --- harm ---

    def cut(self) -> None:
        """Reset every connection there is."""
        self._loop.call_soon_threadsafe(self._cut)

    def refuse(self) -> None:
        """Reset every connection there is and will be."""
        self._refusing = True
        self.cut()

    def hold(self) -> None:
        """Nothing passes, in either direction; what was sent arrives once this is mended."""
        self._loop.call_soon_threadsafe(self._passing.clear)

    def delay(self, seconds: float) -> None:
        """Everything takes that much longer, each way."""
        self._delay = seconds

    def lose_replies(self, chance: float) -> None:
        """What the server sends is lost with that chance, and its connection reset: whatever was
        asked for has been done, and nobody was told."""
        self._chance = chance

    def mend(self) -> None:
        """Let everything pass again."""
        self._chance, self._delay, self._refusing = 0.0, 0.0, False
        self._loop.call_soon_threadsafe(self._passing.set)

    # --- in the thread ---

    async def _listen(self) -> None:
        # Not asyncio's server: closing that loses whom it has just let in.
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._loop.add_reader(self._listener, self._let_in)

    def _let_in(self) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:  # gone again
            return
        self.connections += 1
        if self._refusing:
            line.close()
            return
        task = self._loop.create_task(self._serve(line))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _end(self) -> None:
        self._refusing = True
        self._loop.remove_reader(self._listener)
        self._listener.close()
        self._passing.set()
        # Nobody is cancelled: all end by themselves once their connections are cut.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._cut()
            await asyncio.wait(others, timeout=0.01)
        await asyncio.sleep(0.01)  # a transport lets its socket go a turn after it is aborted

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, line: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=line)
        self._writers.add(writer)
        try:
            if not self._refusing:
                with contextlib.suppress(OSError):
                    await self._passing.wait()
                    await self._connect(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.add(back)
        pumps = (
            asyncio.ensure_future(self._pump(reader, back, are_replies=False)),
            asyncio.ensure_future(self._pump(there, writer, are_replies=True)),
        )
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            back.transport.abort()
            self._writers.discard(back)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_replies: bool
    ) -> None:
        while chunk := await reader.read(_CHUNK):
            if are_replies and self._rng.random() < self._chance:
                self.lost += 1
                return
            self.requests += not are_replies
            if self._delay:
                await asyncio.sleep(self._delay)
            await self._passing.wait()
            writer.write(chunk)
            await writer.drain()
