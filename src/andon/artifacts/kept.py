"""Artifacts and logs kept as files in a place.

    <root>/<shard>/<task>/<run>/meta/<name>     what an artifact is
    <root>/<shard>/<task>/<run>/bytes/<name>    what is known of the content of a registered one
    <root>/<shard>/<task>/<run>/data/<random>   its content
    <root>/<shard>/<task>/<run>/log/<number>    lines, JSON, one a line

What is known of a content is written last and names it, so a replaced artifact changes in one step
and a reader of the old one may finish. A file that is put whole has that in its `meta`. One that is
registered first has it in a file of its own: a late repeat of the registration does not overwrite
it. The root is the namespace's own, so that two may share a place and neither deletes the other's
files. A shard is two hex digits of a hash of the task's id, so that no folder grows with the number
of tasks.
"""

import asyncio
import hashlib
import secrets
from bisect import bisect_right
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from urllib.parse import quote, unquote
from zlib import crc32

import msgspec

from andon.artifacts import entries
from andon.artifacts.base import (
    Artifact,
    ArtifactConflict,
    ArtifactNotFound,
    ArtifactPage,
    LogLine,
    LogPage,
)
from andon.artifacts.blobs import Blobs, once
from andon.model.errors import InvalidSubmission

SHARDS = 256
_LOG_PIECES_READ = 64
"""Pieces of a log in one page."""

_MOST_TRIES = 4
"""How often an entry is read that another client makes or deletes at the same moment."""

_READ_AT_ONCE = 16
"""Descriptions that are read side by side."""

_LONGEST_SEGMENT = 200
"""Characters of a name in a path: file systems take 255 bytes in a segment."""

_HASHED = "="
"""What stands before the hash of a longer name, and in no name that is written out."""


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of the bytes of a registered file."""

    size: int
    sha256: str
    data: str
    encoding: str = ""


_decode = msgspec.json.Decoder(Artifact).decode
_decode_content = msgspec.json.Decoder(_Content).decode
_decode_line = msgspec.json.Decoder(LogLine).decode
_encoder = msgspec.json.Encoder()


class KeptArtifacts:
    """`ArtifactEntries` over a place. `now` gives ms UTC by the store's clock; `root` is the
    namespace's own folder."""

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
        encoding: str = "",
        expires_at: int | None = None,
    ) -> Artifact:
        folder = self._folder(task, run)
        artifact = Artifact(
            task=task,
            run=run,
            name=name,
            content_type=content_type,
            created_at=self._now(),
            expires_at=expires_at,
        )
        entries.check(artifact)
        before = await self.get(task, run, name)
        if before is not None and before.kind != "file" and not before.is_over(self._now()):
            raise ArtifactConflict(before, f"is no file but a kind of its own, {before.kind}")
        artifact = _with(artifact, await self._put_data(folder, content, encoding))
        artifact = msgspec.structs.replace(artifact, created_at=self._now())
        await self._blobs.put(self._meta(task, run, name), once(_encoder.encode(artifact)))
        if before is not None:
            await self._delete_data(before, self._bytes(task, run, name))
        return artifact

    async def register(self, entry: Artifact) -> Artifact:
        entries.check(entry)
        path = self._meta(entry.task, entry.run, entry.name)
        for _ in range(_MOST_TRIES):
            before = await self._read_entry(path)
            if before is None:
                if await self._blobs.create(path, _encoder.encode(entry)):
                    return entry
                continue  # another client was first
            if before.is_over(self._now()):
                await self._drop(before)
                continue
            changed = entries.again(before, entry)
            if changed != before:
                await self._blobs.put(path, once(_encoder.encode(changed)))
            return await self._with_content(changed)
        # The existing entry cannot be read: it is damaged, and counts as absent.
        await self._blobs.put(path, once(_encoder.encode(entry)))
        return entry

    async def fill(
        self,
        task: str,
        run: int,
        name: str,
        content: AsyncIterable[bytes],
        *,
        encoding: str = "",
    ) -> Artifact:
        before = await self.get(task, run, name)
        if before is None or before.kind != "file" or before.is_over(self._now()):
            raise ArtifactNotFound(task, name)
        made = await self._put_data(self._folder(task, run), content, encoding)
        entry = await self._read_entry(self._meta(task, run, name))
        if entry is None:  # its task has gone meanwhile
            await self._blobs.delete([made.data])
            raise ArtifactNotFound(task, name)
        if entry.data:  # it was put whole before
            entry = _with(entry, made)
            await self._blobs.put(self._meta(task, run, name), once(_encoder.encode(entry)))
        else:
            await self._blobs.put(self._bytes(task, run, name), once(_encoder.encode(made)))
        await self._delete_data(before)
        return _with(entry, made)

    async def finish(self, task: str, run: int, name: str, upload: str) -> Artifact:
        found = await self.get(task, run, name)
        if found is None or found.kind != "file" or found.is_over(self._now()):
            raise ArtifactNotFound(task, name)
        if not upload or found.upload != upload:
            raise InvalidSubmission(
                f"Artifact {name!r} of task {task!r} was not registered with this upload id.",
                field="upload",
            )
        if found.is_finished:
            return found
        if not found.data:
            raise InvalidSubmission(
                f"The bytes of artifact {name!r} of task {task!r} have not come; upload them.",
                field="upload",
            )
        path = self._meta(task, run, name)
        entry = await self._read_entry(path)
        if entry is None:
            raise ArtifactNotFound(task, name)
        entry = msgspec.structs.replace(entry, is_finished=True)
        await self._blobs.put(path, once(_encoder.encode(entry)))
        return await self._with_content(entry)

    async def get(self, task: str, run: int, name: str) -> Artifact | None:
        entry = await self._read_entry(self._meta(task, run, name))
        return None if entry is None else await self._with_content(entry)

    async def find(self, task: str, run: int | None = None) -> list[Artifact]:
        runs = await self.runs(task) if run is None else [run]
        found: list[Artifact] = []
        for number in runs:
            paths = [path for _, path in await self._names(task, number)]
            found += await self._read_shown(paths)
        return found

    async def page(
        self, task: str, run: int, *, after: str = "", limit: int = 1_000
    ) -> ArtifactPage:
        names = await self._names(task, run)
        place = bisect_right(names, after, key=lambda named: named[0]) if after else 0
        found: list[Artifact] = []
        while place < len(names) and len(found) < limit:
            read = names[place : place + min(limit - len(found), _READ_AT_ONCE)]
            found += await self._read_shown([path for _, path in read])
            place += len(read)
        last = names[place - 1][0] if 0 < place < len(names) else ""
        return ArtifactPage(tuple(found), last)

    async def latest(self, task: str, name: str) -> Artifact:
        for run in reversed(await self.runs(task)):
            artifact = await self.get(task, run, name)
            if artifact is not None and artifact.is_shown and not artifact.is_over(self._now()):
                return artifact
        raise ArtifactNotFound(task, name)

    async def follow(
        self, artifact: Artifact, passing: Callable[[Artifact], object] = entries.passed_by
    ) -> Artifact:
        async def found(name: str) -> Artifact | None:
            target = await self.get(artifact.task, artifact.run, name)
            is_there = target is not None and target.is_shown and not target.is_over(self._now())
            return target if is_there else None

        return await entries.followed(artifact, found, passing)

    async def read(self, artifact: Artifact, start: int = 0) -> AsyncIterator[bytes]:
        if not artifact.data:
            raise ArtifactNotFound(artifact.task, artifact.name)
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
        """Delete what has expired in a shard, and all of tasks that no longer exist (`lives`
        returns which of some ids do). Returns how many tasks and artifacts were deleted. A task of
        which something cannot be read or deleted is passed to `failed`, and the others are
        swept."""
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

    def _meta(self, task: str, run: int, name: str) -> str:
        return f"{self._folder(task, run)}/meta/{_name_segment(name)}"

    def _bytes(self, task: str, run: int, name: str) -> str:
        return f"{self._folder(task, run)}/bytes/{_name_segment(name)}"

    # --- contents ---

    async def _put_data(
        self, folder: str, content: AsyncIterable[bytes], encoding: str
    ) -> _Content:
        entries.check_encoding(encoding)
        measured = _Measured(content)
        data = f"{folder}/data/{secrets.token_hex(8)}"
        await self._blobs.put(data, measured)
        return _Content(measured.size, measured.hash.hexdigest(), data, encoding)

    # --- descriptions ---

    async def runs(self, task: str) -> list[int]:
        return sorted(int(name) for name in await self._blobs.folders(self._task_folder(task)))

    async def _names(self, task: str, run: int) -> list[tuple[str, str]]:
        """The names of a run's artifacts with the paths of what they are, by name. Those that are
        too long for a path are read."""
        folder = f"{self._folder(task, run)}/meta"
        found: list[tuple[str, str]] = []
        for segment in await self._blobs.files(folder):
            path = f"{folder}/{segment}"
            if not segment.startswith(_HASHED):
                found.append((unquote(segment), path))
            elif (entry := await self._read_entry(path)) is not None:
                found.append((entry.name, path))
        return sorted(found)

    async def _read_shown(self, paths: Sequence[str]) -> list[Artifact]:
        """The descriptions of some artifacts, in their order."""
        now = self._now()
        found: list[Artifact] = []
        for start in range(0, len(paths), _READ_AT_ONCE):
            some = paths[start : start + _READ_AT_ONCE]
            read = await asyncio.gather(*map(self._read_artifact, some))
            found += [a for a in read if a is not None and a.is_shown and not a.is_over(now)]
        return found

    async def _read_artifact(self, path: str) -> Artifact | None:
        entry = await self._read_entry(path)
        return None if entry is None else await self._with_content(entry)

    async def _with_content(self, entry: Artifact) -> Artifact:
        """The entry with what is known of its bytes, if they came apart."""
        if entry.kind != "file" or entry.data:
            return entry
        try:
            read = await self._whole(self._bytes(entry.task, entry.run, entry.name))
            return _with(entry, _decode_content(read))
        except (FileNotFoundError, msgspec.DecodeError):
            return entry

    async def _read_entry(self, path: str) -> Artifact | None:
        try:
            return _decode(await self._whole(path))
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    async def _whole(self, path: str) -> bytes:
        return b"".join([piece async for piece in self._blobs.read(path)])

    async def _drop_expired(self, task: str) -> int:
        dropped = 0
        for run in await self.runs(task):
            folder = f"{self._folder(task, run)}/meta"
            for name in await self._blobs.files(folder):
                entry = await self._read_entry(f"{folder}/{name}")
                if entry is not None and entry.is_over(self._now()):
                    await self._drop(entry)
                    dropped += 1
        return dropped

    async def _drop(self, entry: Artifact) -> None:
        whole = await self._with_content(entry)
        of = (entry.task, entry.run, entry.name)
        await self._delete_data(whole, self._meta(*of), self._bytes(*of))

    async def _delete_data(self, of: Artifact, *paths: str) -> None:
        """Delete some paths, and after them the content, if there is one."""
        await self._blobs.delete([*paths, *([of.data] if of.data else [])])


def _with(entry: Artifact, content: _Content) -> Artifact:
    return msgspec.structs.replace(
        entry,
        size=content.size,
        sha256=content.sha256,
        data=content.data,
        encoding=content.encoding,
    )


def _name_segment(name: str) -> str:
    """The name of an artifact as one segment of a path; its hash, if that would be too long."""
    segment = _segment(name)
    if len(segment) <= _LONGEST_SEGMENT:
        return segment
    return f"{_HASHED}{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()}"


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
