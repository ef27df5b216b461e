"""`andon artifacts`: list, fetch and add what runs left behind."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from andon.cli.ids import one_named
from andon.cli.layout import Column
from andon.cli.session import Session, common
from andon.lifecycle.faces.fields import iso
from andon.model.errors import TaskNotFound
from andon.model.wording import size_of

if TYPE_CHECKING:
    from andon.artifacts.base import Artifact, Artifacts
    from andon.cli.output import Cell

_COLUMNS = (
    Column("run", right=True),
    Column("name", named=True),
    Column("size", right=True),
    Column("type"),
    Column("created", keeps=True),
    Column("sha256", named=True, spare=True),
    Column("is", named=True),
)


@click.group()
def artifacts() -> None:
    """List and fetch what runs left behind."""


@artifacts.command("list")
@click.argument("task_id", metavar="ID")
@click.option("--run", type=click.IntRange(0), metavar="N", help="Of this run only.")
@common
async def list_(session: Session, *, task_id: str, run: int | None) -> None:
    """List the artifacts of a task, by run and name."""
    async with session.engine() as engine:
        task_id = await one_named(session, engine, task_id)
        found = await (await engine.artifacts()).find(task_id, run)
        if not found and await engine.get([task_id]) == [None]:
            raise TaskNotFound(task_id)
    out = session.out
    if out.json:
        out.document([_shown(artifact) for artifact in found])
        return
    rows: list[list[Cell]] = [
        [
            a.run,
            a.name,
            size_of(a.size),
            a.content_type,
            iso(a.created_at),
            a.sha256,
            _what(a),
        ]
        for a in found
    ]
    out.table(_COLUMNS, rows, empty="Its runs left nothing behind.")


@artifacts.command()
@click.argument("task_id", metavar="ID")
@click.argument("name")
@click.option("--run", type=click.IntRange(0), metavar="N", help="Default: the newest that has it.")
@click.option(
    "--output", "-o", metavar="FILE", help="Where to; - is stdout. Default: its own name, here."
)
@common
async def get(
    session: Session, *, task_id: str, name: str, run: int | None, output: str | None
) -> None:
    """Fetch an artifact, as it is kept: encoded, if it is.

    The file appears when it is whole and its checksum is right. An existing one is replaced only
    if --output names it.
    """
    from andon.artifacts.links import file_behind

    async with session.engine() as engine:
        task_id = await one_named(session, engine, task_id)
        kept = await engine.artifacts()
        artifact = await file_behind(kept, await _find(kept, task_id, name, run))
        if output == "-":
            async for piece in kept.read(artifact):
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        place = _place(name, output)
        await _fetch(kept.read(artifact), artifact, place)
    session.out.note(f"{place}: {size_of(artifact.size)}, {artifact.content_type}")


async def _find(kept: "Artifacts", task_id: str, name: str, run: int | None) -> "Artifact":
    from andon.artifacts.base import ArtifactNotFound

    if run is None:
        return await kept.latest(task_id, name)
    for artifact in await kept.find(task_id, run):
        if artifact.name == name:
            return artifact
    raise ArtifactNotFound(task_id, name)


def _what(artifact: "Artifact") -> str:
    """What it is, for a list."""
    if artifact.kind == "reference":
        return f"reference to {artifact.url}"
    if artifact.kind == "link":
        return f"link to {artifact.target}"
    if artifact.kind == "error":
        return f"error: {artifact.reason}"
    if not artifact.is_present:
        return "file, not there yet"
    return f"file, {artifact.encoding}" if artifact.encoding else "file"


def _place(name: str, output: str | None) -> Path:
    if output is not None:
        return Path(output)
    place = Path(Path(name).name)
    if place.exists():
        raise click.UsageError(f"{place} is there already; name a file with --output.")
    return place


async def _fetch(content: AsyncIterator[bytes], artifact: "Artifact", place: Path) -> None:
    import hashlib

    draft = place.with_name(f".{place.name}.{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with draft.open("xb") as file:
            async for piece in content:
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != artifact.sha256:
            raise click.ClickException(
                f"What came of {artifact.name} is not what was kept (its checksum differs); "
                "nothing was written. Try again."
            )
        draft.replace(place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()


def _shown(artifact: "Artifact") -> dict[str, object]:
    shown = msgspec.to_builtins(artifact)
    for private in ("data", "upload", "is_finished"):
        shown.pop(private)
    ends = None if artifact.expires_at is None else iso(artifact.expires_at)
    return {**shown, "created_at": iso(artifact.created_at), "expires_at": ends}
