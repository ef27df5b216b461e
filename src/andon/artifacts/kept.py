"""Artifacts and logs kept as files in a place.

    <root>/<shard>/<task>/<run>/meta/<name>     what is known of an artifact, written last
    <root>/<shard>/<task>/<run>/data/<random>   its content
    <root>/<shard>/<task>/<run>/log/<number>    lines, JSON, one a line

The description is the artifact: it is written last and names the content, so a replaced artifact
changes in one step and a reader of the old one may finish. The root is the namespace's own, so that
two may share a place and neither sweeps away what is the other's. A shard is two hex digits of a
hash of the task's id, so that no folder grows with the number of tasks.
"""

import hashlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

from andon.artifacts.base import (
    MAX_NAME,
    Artifact,
    ArtifactNotFound,
    LogLine,
    LogPage,
)
from andon.artifacts.blobs import Blobs, once
from andon.model.errors import InvalidSubmission

SHARDS = 256
_LOG_PIECES_READ = 64
"""Pieces of a log in one page."""

_decode = msgspec.json.Decoder(Artifact).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
_encoder = msgspec.json.Encoder()


class KeptArtifacts:
    """`Artifacts` over a place. `now` gives ms UTC by the store's clock; `root` is the namespace's
    own folder."""

    def __init__(self, blobs: Blobs, now: Callable[[], int], root: str) -> None:
        self._blobs = blobs
        self._now = now
        self._root = root

    async def put(
        self,
        task: str,
        run: int,
        name: str,
        content: AsyncIterable[bytes],
        *,
        content_type: str = "application/octet-stream",
        expires_at: int | None = None,
    ) -> Artifact:
        check_artifact_name(name)
        folder = self._folder(task, run)
        before = await self._described(task, run, name)
        measured = _Measured(content)
        data = f"{folder}/data/{secrets.token_hex(8)}"
        await self._blobs.put(data, measured)
        artifact = Artifact(
            task=task,
            run=run,
            name=name,
            size=measured.size,
            sha256=measured.hash.hexdigest(),
            content_type=content_type,
            created_at=self._now(),
            expires_at=expires_at,
            data=data,
        )
        await self._blobs.put(f"{folder}/meta/{_segment(name)}", once(_encoder.encode(artifact)))
        if before is not None:
            await self._blobs.delete([before.data])
        return artifact

    async def find(self, task: str, run: int | None = None) -> list[Artifact]:
        runs = await self._runs(task) if run is None else [run]
        found: list[Artifact] = []
        for number in runs:
            folder = f"{self._folder(task, number)}/meta"
            for name in await self._blobs.files(folder):
                artifact = await self._read_description(f"{folder}/{name}")
                if artifact is not None and not self._is_over(artifact):
                    found.append(artifact)
        return found

    async def latest(self, task: str, name: str) -> Artifact:
        for run in reversed(await self._runs(task)):
            artifact = await self._described(task, run, name)
            if artifact is not None and not self._is_over(artifact):
                return artifact
        raise ArtifactNotFound(task, name)

    async def read(self, artifact: Artifact, start: int = 0) -> AsyncIterator[bytes]:
        try:
            async for piece in self._blobs.read(artifact.data, start):
                yield piece
        except FileNotFoundError:
            raise ArtifactNotFound(artifact.task, artifact.name) from None

    async def append_log(self, task: str, run: int, number: int, lines: Sequence[LogLine]) -> None:
        piece = b"".join(_encoder.encode(line) + b"\n" for line in lines)
        await self._blobs.put(f"{self._folder(task, run)}/log/{number:016d}", once(piece))

    async def read_log(self, task: str, run: int, cursor: str = "") -> LogPage:
        folder = f"{self._folder(task, run)}/log"
        pieces = [name for name in await self._blobs.files(folder) if name > cursor]
        lines: list[LogLine] = []
        for name in pieces[:_LOG_PIECES_READ]:
            content = b"".join([part async for part in self._blobs.read(f"{folder}/{name}")])
            lines.extend(_decode_line(line) for line in content.splitlines())
            cursor = name
        return LogPage(tuple(lines), cursor)

    async def forget(self, task: str) -> None:
        """Delete all that a task left behind."""
        await self._blobs.clear(self._task_folder(task))

    async def shards(self) -> list[str]:
        """Names of the shards that hold something, for `sweep`."""
        return await self._blobs.folders(self._root)

    async def sweep(
        self,
        shard: str,
        lives: Callable[[Sequence[str]], Awaitable[set[str]]],
        failed: Callable[[str, Exception], None],
    ) -> int:
        """Delete what has expired in a shard, and all of tasks that are no more (`lives` says which
        of some ids still are); how many tasks and artifacts went. A task of which something cannot
        be read or deleted is told to `failed`, and the others are swept."""
        root = f"{self._root}/{shard}"
        there = [unquote(name) for name in await self._blobs.folders(root)]
        alive = await lives(there) if there else set[str]()
        gone = 0
        for task in there:
            try:
                if task not in alive:
                    await self.forget(task)
                    gone += 1
                else:
                    gone += await self._drop_expired(task)
            except Exception as error:
                failed(task, error)
        return gone

    async def close(self) -> None:
        await self._blobs.close()

    # --- where things are ---

    def _task_folder(self, task: str) -> str:
        return f"{self._root}/{crc32(task.encode()) % SHARDS:02x}/{_segment(task)}"

    def _folder(self, task: str, run: int) -> str:
        return f"{self._task_folder(task)}/{run}"

    # --- descriptions ---

    async def _runs(self, task: str) -> list[int]:
        return sorted(int(name) for name in await self._blobs.folders(self._task_folder(task)))

    async def _described(self, task: str, run: int, name: str) -> Artifact | None:
        return await self._read_description(f"{self._folder(task, run)}/meta/{_segment(name)}")

    async def _read_description(self, path: str) -> Artifact | None:
        try:
            return _decode(b"".join([piece async for piece in self._blobs.read(path)]))
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    async def _drop_expired(self, task: str) -> int:
        dropped = 0
        for run in await self._runs(task):
            folder = f"{self._folder(task, run)}/meta"
            for name in await self._blobs.files(folder):
                artifact = await self._read_description(f"{folder}/{name}")
                if artifact is not None and self._is_over(artifact):
                    await self._blobs.delete([f"{folder}/{name}", artifact.data])
                    dropped += 1
        return dropped

    def _is_over(self, artifact: Artifact) -> bool:
        return artifact.expires_at is not None and artifact.expires_at <= self._now()


def check_artifact_name(name: str) -> None:
    """Refuse a name that is empty, too long, or holds control characters."""
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidSubmission(
            f"The artifact name {name[:MAX_NAME]!r} is not 1 to {MAX_NAME} printable characters.",
            field="name",
        )


def _segment(name: str) -> str:
    """The name as one segment of a path: what a path could mistake is escaped, dots too."""
    return quote(name, safe="").replace(".", "%2E")


class _Measured:
    """A content, measured as it passes."""

    def __init__(self, content: AsyncIterable[bytes]) -> None:
        self._content = content
        self.size = 0
        self.hash = hashlib.sha256()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._content:
            self.size += len(piece)
            self.hash.update(piece)
            yield piece
