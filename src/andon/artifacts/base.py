"""Artifacts and logs of runs: their records, and the interface of the places that keep them."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from typing import Literal, Protocol

import msgspec

from andon.model.errors import AndonError

MAX_NAME = 1_024
"""Characters in an artifact's name."""

MAX_LOG = 8 * 1024 * 1024
"""Bytes of log kept per run; what comes after is counted, not kept."""


class ArtifactNotFound(AndonError):
    """There is no such artifact, or no file that could be read for it.

    Example:
        from andon.errors import ArtifactNotFound

        handle = await charge.submit(7, 990)
        try:
            await handle.read_artifact("bill.pdf")
        except ArtifactNotFound as error:
            assert error.name == "bill.pdf"
        else:
            raise AssertionError("it was found")
    """

    def __init__(self, task: str, name: str, why: str = "") -> None:
        super().__init__(
            f"Artifact {name!r} of task {task!r} {why}"
            if why
            else f"Task {task!r} has no artifact {name!r}. See: andon artifacts list {task}."
        )
        self.task = task  #: id of the task
        self.name = name  #: the name asked for


class ArtifactConflict(AndonError):
    """There is an artifact of that name and run already, and it is another.

    Example:
        from andon.errors import ArtifactConflict

        def told(error: ArtifactConflict) -> str:
            return f"{error.name} of run {error.run} is there already"
    """

    def __init__(self, artifact: "Artifact", why: str) -> None:
        super().__init__(
            f"Run {artifact.run} of task {artifact.task!r} has an artifact {artifact.name!r} "
            f"already, and it {why}. Choose another name."
        )
        self.task = artifact.task  #: id of the task
        self.run = artifact.run  #: number of the run
        self.name = artifact.name  #: of the artifact


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One file that one run left behind, or what stands in the place of one.

    Example:
        handle = await remind.submit("ann")
        await handle.result(timeout=60)
        [artifact] = await handle.artifacts()
        assert artifact.name == "mail.txt" and artifact.content_type == "text/plain"
        assert artifact.is_present and not artifact.is_over(artifact.created_at)
    """

    task: str  #: id of the task
    run: int  #: number of the run
    name: str  #: unique within its run
    size: int = 0  #: bytes, as they are kept
    sha256: str = ""  #: of the bytes, hex; empty where there are none
    content_type: str  #: media type, sent as Content-Type
    created_at: int  #: ms UTC
    expires_at: int | None = None  #: ms UTC; None: goes with its task
    data: str = ""  #: where its content is; means something to the place alone
    kind: Literal["file", "reference", "link", "error"] = "file"
    """What it is: bytes of its own, a URL elsewhere, another artifact of the same run, or the
    reason why there is nothing."""
    encoding: str = ""
    """What the bytes are encoded with, `gzip` for example, sent as Content-Encoding; empty: with
    nothing."""
    url: str = ""  #: of a reference: where it leads
    target: str = ""  #: of a link: name of the artifact that it stands for
    reason: str = ""  #: of an error: why, in a word
    message: str = ""  #: of an error: why, for people
    upload: str = ""
    """With an id, the file is shown only when it was finished with that id; without one it is shown
    before its bytes have come."""
    is_finished: bool = False  #: it was finished

    @property
    def is_present(self) -> bool:
        """Whether there is something to read: the bytes of a file have come, and it is complete."""
        if self.kind != "file":
            return True
        return bool(self.data or self.sha256) and (self.is_finished or not self.upload)

    @property
    def is_shown(self) -> bool:
        """Whether lists have it."""
        return self.is_finished or not self.upload

    def is_over(self, now: int) -> bool:
        """Whether it has expired at `now` (ms UTC)."""
        return self.expires_at is not None and self.expires_at <= now


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    """One line that a run logged.

    Example:
        handle = await remind.submit("ann")
        await handle.result(timeout=60)
        async for line in handle.logs():
            print(line.at, line.level, line.text)
    """

    at: int  #: ms UTC, by the worker's clock
    level: str  #: debug, info, warning, error, critical
    text: str  #: what was logged, without time and level


class LogPage(msgspec.Struct, frozen=True):
    """Lines after a cursor, in the order they were logged. An empty page means: none yet."""

    lines: tuple[LogLine, ...]
    cursor: str


class ArtifactPage(msgspec.Struct, frozen=True):
    """Artifacts of one run after a name, by name."""

    artifacts: tuple[Artifact, ...]
    after: str  #: the name that the next page comes after; empty: there is none


class Artifacts(Protocol):
    """The artifacts and logs of all tasks."""

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
        """Store a file under a run, as a stream. It is there when this has returned, whole or not
        at all; a file of the same name and run is replaced. Raises `InvalidSubmission` for a name
        that cannot be, `ArtifactConflict` where the name is that of no file."""
        ...

    async def find(self, task: str, run: int | None = None) -> list[Artifact]:
        """Artifacts of a task, or of one of its runs, by run and name; without the expired."""
        ...

    async def latest(self, task: str, name: str) -> Artifact:
        """The artifact of that name of the newest run that has one. Raises `ArtifactNotFound`."""
        ...

    def read(self, artifact: Artifact, start: int = 0) -> AsyncIterator[bytes]:
        """Its content from a byte on, in pieces of at most a few MiB. Raises
        `ArtifactNotFound`."""
        ...

    async def append_log(self, task: str, run: int, number: int, lines: Sequence[LogLine]) -> None:
        """Add lines to a run's log. Each piece has a number greater than those before it, given by
        the worker; a repeat of a number replaces that piece."""
        ...

    async def read_log(self, task: str, run: int, cursor: str = "") -> LogPage:
        """A run's log lines after a cursor."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class ArtifactEntries(Artifacts, Protocol):
    """The artifacts where they are kept: one by one, and registered before their bytes come."""

    async def register(self, entry: Artifact) -> Artifact:
        """Make an entry, without bytes if it is a file; an equal one again is the same, with the
        later of both expiries (`entries.again`). Raises `InvalidSubmission` for an invalid entry,
        `ArtifactConflict` for one that differs."""
        ...

    async def fill(
        self,
        task: str,
        run: int,
        name: str,
        content: AsyncIterable[bytes],
        *,
        encoding: str = "",
    ) -> Artifact:
        """Store the bytes of a file that is registered, whole or not at all; those before are
        replaced. Raises `ArtifactNotFound` where no file is registered."""
        ...

    async def finish(self, task: str, run: int, name: str, upload: str) -> Artifact:
        """Mark a file that was registered with this upload id as complete. Repeatable. Raises
        `ArtifactNotFound`, and `InvalidSubmission` for another id or a file without bytes."""
        ...

    async def get(self, task: str, run: int, name: str) -> Artifact | None:
        """The artifact of that name and run, whether lists show it or not, also if it has expired
        and is not swept yet; None where there is none."""
        ...

    async def runs(self, task: str) -> list[int]:
        """Numbers of the runs that left anything behind, logs included, ascending."""
        ...

    async def page(
        self, task: str, run: int, *, after: str = "", limit: int = 1_000
    ) -> ArtifactPage:
        """Artifacts of a run whose names come after one, by name, at most `limit` of them; without
        the expired. Costs one listing of the run's names, and what is read of the page."""
        ...

    async def follow(
        self, artifact: Artifact, passing: Callable[[Artifact], object] = ...
    ) -> Artifact:
        """Follow links to the artifact at their end; one that is no link is that itself. Calls
        `passing` with each artifact on the way, first and last included; it may raise. Raises
        `ArtifactNotFound` where they lead nowhere, `ArtifactConflict` where they lead back."""
        ...
