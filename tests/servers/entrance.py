"""What stands before a port on loopback. It lets connections in, and takes all along when it ends.

It runs in a thread of its own, so that a test whose loop is blocked still has a network.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

CHUNK = 65_536


class Entrance:
    """Listens on a free port, once entered; what is done with a connection says `_serve`."""

    def __init__(self, name: str) -> None:
        self.port = 0  #: where it listens, once entered
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._lines: set[socket.socket] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

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

    # --- in the thread ---

    def _admits(self) -> bool:
        """Whether who has just connected is served; others are hung up on."""
        return True

    async def _accept(
        self, line: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The two ends of a new connection."""
        return await asyncio.open_connection(sock=line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Do what is to be done with a connection; an `OSError` is its end."""
        raise NotImplementedError

    async def _connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection onwards, which ends with this side's at the latest."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.add(writer)
        return reader, writer

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._writers.discard(writer)

    def _cut(self) -> None:
        """Reset every connection there is."""
        for writer in self._writers:
            writer.transport.abort()

    async def _both_ways(
        self, back: asyncio.StreamWriter, *directions: Coroutine[Any, Any, None]
    ) -> None:
        """Pass on what is said in both directions until either ends; then hang up on `back`."""
        pumps = [asyncio.ensure_future(direction) for direction in directions]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hang_up(back)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

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
        if not self._admits():
            line.close()
            return
        task = self._loop.create_task(self._welcome(line))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _welcome(self, line: socket.socket) -> None:
        self._lines.add(line)
        writer: asyncio.StreamWriter | None = None
        with contextlib.suppress(OSError):
            try:
                reader, writer = await self._accept(line)
                self._writers.add(writer)
                await self._serve(reader, writer)
            finally:
                self._lines.discard(line)
                if writer is not None:
                    self._hang_up(writer)

    async def _end(self) -> None:
        self._loop.remove_reader(self._listener)
        self._listener.close()
        # Nobody is cancelled: all end by themselves once their connections are cut.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._cut()
            for line in self._lines:  # whose greeting is under way, and may take for ever
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
            await asyncio.wait(others, timeout=0.01)
        await asyncio.sleep(0.01)  # a transport lets its socket go a turn after it is aborted
