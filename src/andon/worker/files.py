"""The files that runs keep as artifacts, and their bytes piece by piece."""

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import msgspec

Content = bytes | str | os.PathLike[str] | AsyncIterable[bytes]
"""What can be kept: bytes, text (as UTF-8), the file at a path, or a stream."""

PIECE = 1024 * 1024


class NewArtifact(msgspec.Struct, frozen=True):
    """A file that a run asks to keep."""

    name: str
    content: Content
    content_type: str = ""  #: guessed from the name if it is empty
    expires_in: float | None = None  #: seconds; as long as the task if it is None


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
