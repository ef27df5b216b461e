"""Artifacts in this process, beside a store in memory."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence

from andon.artifacts.blobs import PIECE


class MemoryBlobs:
    """Files in a dictionary."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    async def put(self, path: str, content: AsyncIterable[bytes]) -> None:
        self._files[path] = b"".join([piece async for piece in content])

    async def create(self, path: str, content: bytes) -> bool:
        if path in self._files:
            return False
        self._files[path] = content
        return True

    async def read(self, path: str, start: int = 0) -> AsyncIterator[bytes]:
        if path not in self._files:
            raise FileNotFoundError(path)
        content = self._files[path]
        for at in range(start, len(content), PIECE):
            yield content[at : at + PIECE]

    async def files(self, folder: str) -> list[str]:
        return [name for name, is_file in self._entries(folder) if is_file]

    async def folders(self, folder: str) -> list[str]:
        return [name for name, is_file in self._entries(folder) if not is_file]

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        start = f"{folder}/"
        below = [path.removeprefix(start) for path in self._files if path.startswith(start)]
        return sorted({(path.partition("/")[0], "/" not in path) for path in below})

    async def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._files.pop(path, None)

    async def clear(self, folder: str) -> None:
        await self.delete([path for path in self._files if path.startswith(f"{folder}/")])

    async def close(self) -> None: ...
