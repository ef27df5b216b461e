"""Artifacts in a local folder."""

import asyncio
import contextlib
import os
import secrets
import shutil
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from pathlib import Path
from typing import BinaryIO

from andon.artifacts.blobs import PIECE

_UNFINISHED = ".unfinished"


class FolderBlobs:
    """Files below `root`, written beside their place and moved into it. File work is done in
    threads: a slow disk must not hold up the loop."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, path: str, content: AsyncIterable[bytes]) -> None:
        place = self._root / path
        draft = self._root / _UNFINISHED / secrets.token_hex(8)
        file = await asyncio.to_thread(_create, draft)
        try:
            async for piece in content:
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(_finish, file, draft, place)
        except BaseException:
            file.close()
            draft.unlink(missing_ok=True)
            raise

    async def create(self, path: str, content: bytes) -> bool:
        draft = self._root / _UNFINISHED / secrets.token_hex(8)
        return await asyncio.to_thread(_create_new, draft, self._root / path, content)

    async def read(self, path: str, start: int = 0) -> AsyncIterator[bytes]:
        file = await asyncio.to_thread((self._root / path).open, "rb")
        try:
            file.seek(start)
            while piece := await asyncio.to_thread(file.read, PIECE):
                yield piece
        finally:
            file.close()

    async def files(self, folder: str) -> list[str]:
        return await asyncio.to_thread(_entries, self._root / folder, folders=False)

    async def folders(self, folder: str) -> list[str]:
        return await asyncio.to_thread(_entries, self._root / folder, folders=True)

    async def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                await asyncio.to_thread(os.unlink, self._root / path)

    async def clear(self, folder: str) -> None:
        await asyncio.to_thread(shutil.rmtree, self._root / folder, ignore_errors=True)

    async def close(self) -> None: ...


def _create(draft: Path) -> BinaryIO:
    draft.parent.mkdir(parents=True, exist_ok=True)
    return draft.open("xb")


def _create_new(draft: Path, place: Path, content: bytes) -> bool:
    """A file that is whole from the moment it has its name, if no other has that name."""
    with _create(draft) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(draft, place)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
    return True


def _finish(file: BinaryIO, draft: Path, place: Path) -> None:
    """Make the file durable, then visible."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    place.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(place)


def _entries(folder: Path, *, folders: bool) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_dir() is folders and entry.name != _UNFINISHED
            )
    except (FileNotFoundError, NotADirectoryError):
        return []
