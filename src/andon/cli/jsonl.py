"""Submits a file of tasks: one JSON object per line.

The whole file is read and checked before anything is submitted. Then each line stands alone, but
for dependencies inside the file: a child of a refused parent is refused, and so is a circle.
"""

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from andon.cli.arguments import checked_args
from andon.cli.session import Session, fail
from andon.cli.values import when_of
from andon.model.durations import seconds_of
from andon.model.errors import AndonError, InvalidSubmission, SubmissionsRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from andon.client.app import Andon
    from andon.client.drafts import Draft

_CHUNK = 2_000
_TIMES = {"run_at": "delay", "deadline": "deadline_in"}
_DURATIONS = ("delay", "deadline_in")


async def submit_file(
    session: Session, app: "Andon", file: str, name: str | None, defaults: dict[str, Any]
) -> None:
    """Submit every line; exit code 1 if any was refused."""
    drafts = _read(app, file, name, defaults)
    refused = await _submit(session, app, [draft for _, draft in drafts])
    for number, draft in drafts:
        error = refused.get(draft.id)
        if error is not None:
            session.out.note(f"{file}, line {number}: {error}")
        if session.out.json:
            session.out.record(
                {"line": number, "id": draft.id, "error": None if error is None else str(error)}
            )
        elif error is None and not session.out.terminal:
            session.out.line(draft.id)
    accepted = len(drafts) - len(refused)
    session.out.note(f"{accepted:,} submitted, {len(refused):,} refused.")
    if refused:
        fail()


def _read(
    app: "Andon", file: str, name: str | None, defaults: dict[str, Any]
) -> "list[tuple[int, Draft[Any]]]":
    """Every line's number and draft. Raises `InvalidSubmission` for the first that is none."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidSubmission(f"{file} is not UTF-8 text: {error}.") from error
    drafts: list[tuple[int, Draft[Any]]] = []
    lines_by_id: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            draft = _draft(app, line, name, defaults)
        except (AndonError, TypeError, ValueError) as error:
            raise InvalidSubmission(f"{file}, line {number}: {error}") from error
        if draft.id in lines_by_id:
            raise InvalidSubmission(
                f"{file}, line {number}: the id {draft.id!r} is that of line "
                f"{lines_by_id[draft.id]} too."
            )
        lines_by_id[draft.id] = number
        drafts.append((number, draft))
    return drafts


async def _submit(
    session: Session, app: "Andon", drafts: "Sequence[Draft[Any]]"
) -> dict[str, AndonError]:
    # What depends on one another must go in one call; otherwise slices, to show how far it is.
    size = _CHUNK
    if any(draft.submission.dependencies for draft in drafts):
        size = max(len(drafts), 1)
    refused: dict[str, AndonError] = {}
    with _bar(session, len(drafts)) as advance:
        for start in range(0, len(drafts), size):
            some = drafts[start : start + size]
            try:
                await app.submit_many(some)
            except SubmissionsRefused as error:
                refused.update(error.errors)
            advance(len(some))
    return refused


@contextmanager
def _bar(session: Session, total: int) -> "Generator[Callable[[int], object]]":
    if not sys.stderr.isatty() or session.out.json:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("submitting"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("submitting", total=total)
        yield lambda count: progress.advance(task, count)


def _draft(app: "Andon", line: str, name: str | None, defaults: dict[str, Any]) -> "Draft[Any]":
    """The draft of one line. Raises `AndonError`, `TypeError` or `ValueError`."""
    try:
        given = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}.") from error
    if not isinstance(given, dict):
        raise ValueError("not a JSON object.")
    fields: dict[str, Any] = {**defaults, **cast("dict[str, Any]", given)}
    name = fields.pop("name", name)
    if not isinstance(name, str):
        raise ValueError("no `name`; give one in the line, or as NAME for all lines.")
    args = fields.pop("args", None)
    if args is not None:
        checked_args(args, "`args`")
    version = fields.pop("version", 0)
    if type(version) is not int:
        raise ValueError(f"`version` is a number, not {version!r}.")
    return app.draft(name, args, version=version, **_timed(fields))


def _timed(fields: dict[str, Any]) -> dict[str, Any]:
    """Durations and times as text become what the client takes."""
    timed = dict(fields)
    for field in _DURATIONS:
        if isinstance(timed.get(field), str):
            timed[field] = seconds_of(timed[field])
    for absolute, relative in _TIMES.items():
        if isinstance(timed.get(absolute), str):
            when = when_of(timed.pop(absolute))
            timed[absolute if when.at is not None else relative] = (
                when.at if when.at is not None else when.after
            )
    return timed
