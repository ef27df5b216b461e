"""The follow-ups of a command: JSON lines that it writes to the file named by `ANDON_FOLLOW_UPS`.

    echo '{"name": "resize", "args": {"path": "/in/1.png"}}' >> "$ANDON_FOLLOW_UPS"

The file is not there before the command writes it. It is read when the command has exited with
status 0, and removed in any case. A line that is no task fails the run, and nothing is borne.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

import msgspec

from andon.engine.base import Submission
from andon.lifecycle.births import FIELD, MOST_BIRTHS, MOST_BIRTHS_BYTES, birth_id, too_many
from andon.model.errors import InvalidSubmission

VARIABLE = "ANDON_FOLLOW_UPS"

_MOST_BYTES = 4 * MOST_BIRTHS_BYTES
"""Bytes of the file. The bound on follow-ups is lower, and has an error of its own."""


class Line(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One task, with the names that `POST /api/v1/tasks` has for these fields. Times are seconds
    from the end of the run."""

    name: str
    args: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    id: str | None = None
    version: int = 0
    queue: str | None = None
    priority: int = 0
    delay: float | None = None
    deadline_in: float | None = None
    depends_on: list[str] = []
    requires: Literal["all-completed", "all-resolved"] = "all-completed"
    needs: int | None = None
    load_dependencies: bool = False
    unique_key: str | None = None
    key: str | None = None
    group: str | None = None
    tags: list[str] = []
    headers: dict[str, str] = {}
    scopes: list[str] = []
    options: dict[str, Any] = {}

    def submission(self, run: str, place: int) -> Submission:
        """The submission made with the end of the run, whose random id is given."""
        return Submission(
            id=birth_id(run, place) if self.id is None else self.id,
            name=self.name,
            version=self.version,
            queue=self.queue,
            args=bytes(self.args),
            priority=self.priority,
            delay=self.delay,
            deadline_in=self.deadline_in,
            dependencies=tuple(self.depends_on),
            requires=self.requires,
            needs=self.needs,
            load_dependencies=self.load_dependencies,
            unique_key=self.unique_key,
            key=self.key,
            group=self.group,
            tags=tuple(self.tags),
            headers=self.headers,
            scopes=tuple(self.scopes),
            options=self.options,
        )


_decode = msgspec.json.Decoder(Line).decode


class FollowUpFiles:
    """The files of the runs of one executor, in a folder that only this user can enter."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def path(self, run: str) -> Path:
        """Where the command of this run may write."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="andon-follow-ups-"))
        return self._folder / f"{run}.jsonl"

    async def read(self, run: str) -> tuple[Submission, ...]:
        """What the command of this run has written. Raises `InvalidSubmission`."""
        path = self.path(run)
        if not path.exists():  # nearly always: not worth a thread
            return ()
        return parsed(await asyncio.to_thread(_content, path), run)

    def forget(self, run: str) -> None:
        """Remove what a run has written."""
        self.path(run).unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def parsed(content: bytes, run: str) -> tuple[Submission, ...]:
    """The tasks of some JSON lines; empty ones are skipped. Raises `InvalidSubmission`, naming the
    line."""
    if len(content) > _MOST_BYTES:
        raise InvalidSubmission(
            f"The command wrote more than {_MOST_BYTES:,} bytes of follow-ups. Let one follow-up "
            "submit the others.",
            field=FIELD,
        )
    found: list[Submission] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(_decode(line).submission(run, len(found)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidSubmission(
                f"Line {number} of ${VARIABLE} is no task: {error}. A line is a JSON object such "
                'as {"name": "resize", "args": {}}.',
                field=FIELD,
            ) from None
    if len(found) > MOST_BIRTHS:
        raise too_many(len(found))
    return tuple(found)
