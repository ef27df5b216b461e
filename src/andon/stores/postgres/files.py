"""Files in the database: the place for artifacts and logs of runs where no other was named.

What `andon.artifacts.blobs.Blobs` asks for. A file is written in pieces, each in a statement of its
own, so that a slow upload holds no transaction open; it is there when its last piece is. A task may
have so many bytes here and no more: a database is no store for videos.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Sequence

from andon.model.errors import InvalidSubmission, StoreError
from andon.stores.postgres.server import Server
from andon.stores.postgres.statements import Statements

PIECE = 1024 * 1024
"""Bytes of each piece but the last. Not to be changed: stored files depend on it."""

MOST_PER_TASK = 64 * 1024 * 1024
"""Bytes of files and logs that a task may have here, about: concurrent writes may exceed it by what
is under way."""

_TASK_SEGMENTS = 3  # of a path: the namespace's folder, the shard, the task


class PostgresFiles:
    """Files by path in the store's schema."""

    def __init__(self, server: Server) -> None:
        self._run = server.run
        self._sql = Statements("files", server.location.namespace)

    async def put(self, path: str, content: AsyncIterable[bytes]) -> None:
        task = "/".join(path.split("/")[:_TASK_SEGMENTS])
        [[held]] = await self._run(self._sql.held, task)
        draft = f"~/{secrets.token_hex(12)}"
        number, rest = 0, bytearray()
        try:
            async for piece in content:
                rest += piece
                held += len(piece)
                if held > MOST_PER_TASK:
                    raise _too_much(held)
                while len(rest) > PIECE:
                    if not number:
                        await self._run(self._sql.drop_unfinished)
                    await self._run(self._sql.put_piece, draft, number, bytes(rest[:PIECE]))
                    number += 1
                    del rest[:PIECE]
            if not number:
                await self._run(self._sql.put, path, bytes(rest))
                return
            await self._run(self._sql.put_piece, draft, number, bytes(rest))
            await self._run(self._sql.finish, draft, path)
        except BaseException:
            if number:
                # Pieces that cannot be deleted now are deleted after a day, by the next write.
                with contextlib.suppress(StoreError, asyncio.CancelledError):
                    await self.delete([draft])
            raise

    async def create(self, path: str, content: bytes) -> bool:
        return bool(await self._run(self._sql.create, path, content))

    async def read(self, path: str, start: int = 0) -> AsyncIterator[bytes]:
        [[last]] = await self._run(self._sql.last_piece, path)
        if last is None:
            raise FileNotFoundError(path)
        for number in range(start // PIECE, last + 1):
            rows = await self._run(self._sql.piece, path, number)
            if not rows:
                raise FileNotFoundError(path)  # deleted meanwhile; half a file is none
            skipped = max(start - number * PIECE, 0)
            content: bytes = rows[0][0]
            if len(content) > skipped:
                yield content[skipped:]

    async def files(self, folder: str) -> list[str]:
        return [row[0] for row in await self._run(self._sql.files, folder)]

    async def folders(self, folder: str) -> list[str]:
        return sorted(row[0] for row in await self._run(self._sql.folders, folder))

    async def delete(self, paths: Sequence[str]) -> None:
        await self._run(self._sql.delete, list(paths))

    async def clear(self, folder: str) -> None:
        await self._run(self._sql.clear, folder)

    async def close(self) -> None:
        """The connections are the store's."""


def _too_much(size: int) -> InvalidSubmission:
    return InvalidSubmission(
        f"The files and logs of this task would take {size:,} bytes, and the database keeps "
        f"{MOST_PER_TASK:,} of a task. Name a place for more: "
        "andon storage configure --artifacts s3://bucket/prefix (or file:///folder).",
        field="content",
    )
