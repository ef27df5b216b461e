"""What a run leaves behind: `ctx.artifact` on its way to where artifacts are kept."""

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from andon.artifacts.base import Artifact
from andon.model.errors import LeaseLost

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.worker.context import Context

Content = bytes | str | os.PathLike[str] | AsyncIterable[bytes]
"""What can be kept: bytes, text (as UTF-8), the file at a path, or a stream."""

PIECE = 1024 * 1024


class NewArtifact(msgspec.Struct, frozen=True):
    """What a run asks to be kept."""

    name: str
    content: Content
    content_type: str = ""  #: guessed from the name if it is empty
    expires_in: float | None = None  #: seconds; as long as the task if it is None


class RunFiles(Protocol):
    """Keeps artifacts for the runs of one process."""

    async def put(self, context: "Context", new: NewArtifact) -> Artifact:
        """Keep one; it is there when this returns."""
        ...

    def put_blocking(self, context: "Context", new: NewArtifact) -> Artifact:
        """The same from a thread that is not the loop's."""
        ...


class WorkerFiles:
    """In the worker itself: straight to the engine."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()

    async def put(self, context: "Context", new: NewArtifact) -> Artifact:
        if context.stop_reason == "lease-lost":
            raise LeaseLost(context.task_id, context.task.status.run)
        artifacts = await self._engine.artifacts()
        expires_at = None
        if new.expires_in is not None:
            expires_at = self._engine.now() + round(new.expires_in * 1000)
        return await artifacts.put(
            context.task_id,
            context.run,
            new.name,
            pieces_of(new.content),
            content_type=new.content_type or guessed_type(new.name),
            expires_at=expires_at,
        )

    def put_blocking(self, context: "Context", new: NewArtifact) -> Artifact:
        put = self.put(context, new)
        return asyncio.run_coroutine_threadsafe(put, self._loop).result()


def guessed_type(name: str) -> str:
    """The content type that a name's ending suggests."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


async def pieces_of(content: Content) -> AsyncIterator[bytes]:
    """The content piece by piece; files are read in threads."""
    if isinstance(content, str):
        yield content.encode()
    elif isinstance(content, bytes):
        yield content
    elif isinstance(content, os.PathLike):
        with await asyncio.to_thread(Path(content).open, "rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE):
                yield piece
    else:
        async for piece in content:
            yield piece
