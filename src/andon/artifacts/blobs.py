"""The interface of a place for artifacts: whole files by path, nothing else."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Protocol

PIECE = 1024 * 1024
"""Bytes read or written at once."""


class Blobs(Protocol):
    """Files by path; segments are separated by `/`."""

    async def put(self, path: str, content: AsyncIterable[bytes]) -> None:
        """Write a file; readers see it whole or not at all."""
        ...

    async def create(self, path: str, content: bytes) -> bool:
        """Write a small file if there is none of that path; False if there is. Of concurrent
        writers one succeeds."""
        ...

    def read(self, path: str, start: int = 0) -> AsyncIterator[bytes]:
        """The content from a byte on. Raises `FileNotFoundError`."""
        ...

    async def files(self, folder: str) -> list[str]:
        """Names of the files directly in a folder, sorted; none if it is not there."""
        ...

    async def folders(self, folder: str) -> list[str]:
        """Names of the folders directly in a folder, sorted."""
        ...

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete files; those that are not there are no error."""
        ...

    async def clear(self, folder: str) -> None:
        """Delete everything below a folder."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


async def once(content: bytes) -> AsyncIterator[bytes]:
    """A content that is one piece."""
    yield content
