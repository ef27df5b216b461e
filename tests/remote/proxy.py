"""A proxy that loses replies: the service has done what was asked, and nobody hears of it."""

import asyncio
import contextlib
import random
from typing import Self

from servers.entrance import CHUNK, Entrance


class LossyProxy(Entrance):
    """Forwards connections to a port. A reply is lost by ending the connection in its place.

    `lose(path)` says how many of the next replies to requests for the path are lost; `share` is
    the part of all other replies that is.
    """

    def __init__(self, port: int, *, share: float = 0.0, seed: int = 0) -> None:
        super().__init__("lossy proxy")
        self._port = port
        self._share = share
        self._rng = random.Random(seed)
        self._losing: dict[str, int] = {}
        self.lost: list[str] = []  #: paths of the requests whose replies were lost

    def lose(self, path: str, times: int = 1) -> None:
        """Lose the next replies to requests for this path."""
        self._losing[path] = times

    @property
    def url(self) -> str:
        """Where it stands."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self.__exit__, None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, upstream = await self._connect(self._port)
        with contextlib.suppress(asyncio.IncompleteReadError):
            try:
                while await self._one(reader, writer, answers, upstream):
                    pass
            finally:
                self._hang_up(upstream)

    async def _one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> bool:
        """One request and its reply; False when the connection is to end."""
        head, body = await _message(reader)
        path = head.split(b" ", 2)[1].decode()
        upstream.write(head + body)
        if path.endswith("/attend"):  # goes on until one end has enough
            while chunk := await answers.read(CHUNK):
                writer.write(chunk)
                await writer.drain()
            return False
        head, body = await _message(answers)
        if self._loses(path):
            self.lost.append(path)
            return False
        writer.write(head + body)
        await writer.drain()
        return True

    def _loses(self, path: str) -> bool:
        left = self._losing.get(path, 0)
        if left:
            self._losing[path] = left - 1
            return True
        return self._rng.random() < self._share


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The head and the body of a request or a reply; a body without a length is chunked."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length:" in lower:
        length = int(lower.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        return head, await reader.readexactly(length)
    if b"transfer-encoding: chunked" in lower:
        return head, await reader.readuntil(b"0\r\n\r\n")
    return head, b""
