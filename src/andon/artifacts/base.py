"""Artifacts and logs of runs: what they are, and all that can be asked about them."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Protocol

import msgspec

from andon.model.errors import AndonError

MAX_NAME = 128
"""Characters in an artifact's name."""

MAX_LOG = 8 * 1024 * 1024
"""Bytes of log kept per run; what comes after is counted, not kept."""


class ArtifactNotFound(AndonError):
    """There is no such artifact.

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

    def __init__(self, task: str, name: str) -> None:
        super().__init__(
            f"Task {task!r} has no artifact {name!r}. See: andon artifacts list {task}."
        )
        self.task = task  #: id of the task
        self.name = name  #: the name asked for


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One file that one run left behind.

    Example:
        handle = await remind.submit("ann")
        await handle.result(timeout=60)
        [artifact] = await handle.artifacts()
        assert artifact.name == "mail.txt" and artifact.content_type == "text/plain"
    """

    task: str  #: id of the task
    run: int  #: number of the run
    name: str  #: unique within its run
    size: int  #: bytes
    sha256: str  #: of the content, hex
    content_type: str  #: media type, sent as Content-Type
    created_at: int  #: ms UTC
    expires_at: int | None = None  #: ms UTC; None: goes with its task
    data: str = ""  #: where its content is; means something to the place alone


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
        expires_at: int | None = None,
    ) -> Artifact:
        """Store a file under a run, as a stream. It is there when this has returned, whole or not
        at all; one of the same name and run is replaced. Raises `InvalidSubmission` for a name
        that cannot be."""
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
        whoever runs it; a repeat of a number replaces that piece."""
        ...

    async def read_log(self, task: str, run: int, cursor: str = "") -> LogPage:
        """A run's log lines after a cursor."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
