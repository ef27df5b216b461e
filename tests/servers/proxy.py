"""A TCP proxy before a server, which cuts, holds, delays and loses what passes."""

import asyncio
import random
from urllib.parse import urlsplit, urlunsplit

from servers.entrance import CHUNK, Entrance


class Proxy(Entrance):
    """Stands before a port on loopback. A context manager; every harm lasts until `mend`."""

    def __init__(self, port: int, *, rng: random.Random | None = None) -> None:
        super().__init__("proxy")
        self.connections = 0  #: how often somebody connected, refused or not
        self.requests = 0  #: pieces of bytes that clients sent
        self.lost = 0  #: replies lost
        self._target = port
        self._rng = rng or random.Random(0)
        self._chance = 0.0
        self._delay = 0.0
        self._refusing = False
        self._passing = asyncio.Event()
        self._passing.set()

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

    def _admits(self) -> bool:
        self.connections += 1
        return not self._refusing

    async def _end(self) -> None:
        self._refusing = True
        self._passing.set()
        await super()._end()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            return
        await self._passing.wait()
        there, back = await self._connect(self._target)
        await self._both_ways(
            back,
            self._pump(reader, back, are_replies=False),
            self._pump(there, writer, are_replies=True),
        )

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_replies: bool
    ) -> None:
        while chunk := await reader.read(CHUNK):
            if are_replies and self._rng.random() < self._chance:
                self.lost += 1
                return
            self.requests += not are_replies
            if self._delay:
                await asyncio.sleep(self._delay)
            await self._passing.wait()
            writer.write(chunk)
            await writer.drain()
