"""`andon policies`: retry policies by name."""

from typing import Any

import click
import msgspec

from andon.cli.layout import Column
from andon.cli.session import Session, common
from andon.lifecycle.named import unknown


@click.group()
def policies() -> None:
    """List, set and delete named retry policies.

    A name is used wherever options are given: `retry="gentle"` in code, `andon submit --retry
    gentle`, `andon queues configure mail --policy retry=gentle`. It is resolved when a task is
    submitted.
    """


@policies.command("list")
@common
async def list_policies(session: Session) -> None:
    """List named retry policies."""
    async with session.engine() as engine:
        named = sorted((await engine.policies()).items())
    out = session.out
    if out.json:
        out.document(dict(named))
        return
    out.table(
        [Column("policy"), Column("options")],
        [[name, _shown(options)] for name, options in named],
        empty="There is no retry policy yet. Make one: andon policies set NAME max_retries=5.",
    )


@policies.command()
@click.argument("name")
@common
async def show(session: Session, *, name: str) -> None:
    """Show what a name stands for."""
    async with session.engine() as engine:
        named = await engine.policies()
    if name not in named:
        raise unknown(name, named)
    _print_one(session, name, named[name])


@policies.command("set")
@click.argument("name")
@click.argument("options", nargs=-1, required=True, metavar="OPTION=JSON...")
@common
async def set_policy(session: Session, *, name: str, options: tuple[str, ...]) -> None:
    """Set what a name stands for, in place of what it was.

    `andon policies set gentle max_retries=10 retry_delay=60 backoff=linear`. Lists are JSON:
    `retry_on='["TIMEOUT"]'`. Tasks that were submitted keep what they were promised.
    """
    from andon.cli.arguments import json_or_text

    given: dict[str, Any] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key:
            raise click.UsageError(f"Give OPTION=JSON, not {option!r}.")
        given[key] = json_or_text(value)
    async with session.engine(creates=True) as engine:
        stored = await engine.put_policy(name, given)
    _print_one(session, name, stored)


@policies.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@common
async def delete(session: Session, *, names: tuple[str, ...]) -> None:
    """Forget names. One that a queue uses is refused."""
    async with session.engine() as engine:
        for name in names:
            if not await engine.delete_policy(name):
                raise unknown(name, await engine.policies())
            session.out.words([name, "deleted"])


def _print_one(session: Session, name: str, options: Any) -> None:
    out = session.out
    if out.json:
        out.document({"name": name, **options})
    else:
        out.pairs([("policy", name), *((key, _json(value)) for key, value in options.items())])


def _shown(options: Any) -> str:
    return ", ".join(f"{key}={_json(value)}" for key, value in options.items())


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
