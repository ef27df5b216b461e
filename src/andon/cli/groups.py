"""`andon groups`: groups of which a record is kept, looked at and sealed."""

from typing import TYPE_CHECKING

import click

from andon.cli.session import Session, common

if TYPE_CHECKING:
    from andon.model.groups import GroupRecord


@click.group()
def groups() -> None:
    """Show and seal groups of tasks.

    A record of a group is kept where its tasks are submitted with an owner (`group_owner`). How far
    the tasks are is shown by andon flows show.
    """


@groups.command()
@click.argument("group", metavar="ID")
@common
async def show(session: Session, *, group: str) -> None:
    """Show what is kept of a group."""
    async with session.engine() as engine:
        _print(session, group, await engine.group(group), engine.now())


@groups.command()
@click.argument("group", metavar="ID")
@common
async def seal(session: Session, *, group: str) -> None:
    """Let no task into a group any more, for good.

    Submits that were let in before may be stored until the moment that is shown.
    """
    async with session.engine() as engine:
        _print(session, group, await engine.seal_group(group), engine.now())


def _print(session: Session, group: str, record: "GroupRecord", now: int) -> None:
    from andon.lifecycle.faces.fields import iso, maybe_iso

    out = session.out
    times = {
        "created_at": record.created_at,
        "sealed_at": record.sealed_at,
        "open_until": record.open_until,
        "expires_at": record.expires_at,
    }
    if out.json:
        shown = {name: maybe_iso(at) for name, at in times.items()}
        out.document({"id": group, "owner": record.owner, **shown})
        return
    rows = [(name.replace("_", " "), iso(at)) for name, at in times.items() if at is not None]
    out.pairs([("group", group), ("owner", record.owner), *rows])
