"""`andon flows`: tasks that depend on one another, seen and acted on as one."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from andon.cli import people
from andon.cli.errors import CommandFailed
from andon.cli.layout import Column
from andon.cli.session import Session, common, fail
from andon.cli.values import DURATION
from andon.model.wording import plural

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.engine.bulk import Tally
    from andon.engine.flows import Flow

_STILL_S = 2.0
_ANEW_S = 30.0
"""How often a watched flow is read whole again: progress of runs makes no event."""

Command = Callable[..., Any]


@click.group()
def flows() -> None:
    """List, show, cancel and rerun flows.

    A flow is a group of tasks that depend on one another. Any other group can be shown and acted on
    by its name, too.
    """


@flows.command("list")
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True)
@common
async def list_them(session: Session, *, limit: int) -> None:
    """List the newest flows, by their first tasks; only the newest tasks are looked at."""
    from andon.engine.flows import list_flows

    async with session.engine() as engine:
        found = await list_flows(engine, limit=limit)
        now = engine.now()
    out = session.out
    if out.json:
        for flow in found:
            out.record(flow)
        return
    out.table(
        [
            Column("flow", named=True),
            Column("name"),
            Column("tasks", right=True),
            Column("submitted", keeps=True),
        ],
        [[f.id, f.name, f.members, out.when(f.created_at, now)] for f in found],
        empty="No flow is among the newest tasks. See docs/flows.md for how to make one.",
    )


@flows.command()
@click.argument("flow_id", metavar="ID")
@click.option("--watch", is_flag=True, help="Redraw it until all of it has ended.")
@click.option("--every", type=DURATION, default=0.5, help="Redraw at most this often (0.5s).")
@click.option("--mermaid", "language", flag_value="mermaid", help="Print it as a Mermaid chart.")
@click.option("--graphviz", "language", flag_value="graphviz", help="Print it as a Graphviz graph.")
@common
async def show(
    session: Session, *, flow_id: str, watch: bool, every: float, language: str | None
) -> None:
    """Show a flow as a tree: how far it is, and what has failed.

    Tasks that are alike are one line.
    """
    from andon.cli import flow_drawing
    from andon.engine.flows import read_flow

    out = session.out
    if watch and (language or not out.terminal):
        raise CommandFailed(
            "--watch draws a tree on a terminal, and this is none. Use: andon events --follow, or "
            "andon flows show without --watch."
        )
    async with session.engine() as engine:
        if watch:
            await _watch(session, engine, flow_id, every)
            return
        document = (await read_flow(engine, flow_id)).document
    if language is not None:
        for line in getattr(flow_drawing, language)(document):
            out.line(line)
    elif out.json:
        out.document(document)
    elif out.terminal:
        out.console.print(flow_drawing.drawn(document), soft_wrap=True)
    else:
        for words in flow_drawing.lines(document):
            out.line("".join(word.text for word in words))


async def _watch(session: Session, engine: "Engine", flow_id: str, every: float) -> None:
    """Draw it, and again when something has happened to it: by the events of the store, since the
    flow is read whole only now and then."""
    from rich.live import Live

    from andon.cli.flow_drawing import drawn
    from andon.contract.topics import EVENTS_TOPIC
    from andon.engine.flows import news, read_flow

    loop = asyncio.get_running_loop()
    with (
        engine.listen([EVENTS_TOPIC]) as hints,
        Live(console=session.out.console, auto_refresh=False) as live,
    ):
        flow: Flow | None = None
        cursor, read_at = "", 0.0
        while True:
            if flow is None or loop.time() - read_at > _ANEW_S:
                cursor, read_at = await engine.events_end(), loop.time()
                flow = await read_flow(engine, flow_id)
            cursor, has_gap = await news(engine, flow, cursor)
            live.update(drawn(flow.document), refresh=True)
            if flow.is_over:
                return
            if has_gap:
                flow = None
            await hints.wait(_STILL_S)
            await asyncio.sleep(max(every, 0.05))


@flows.command()
@click.argument("flow_id", metavar="ID")
@click.option("--force", is_flag=True, help="Running tasks too, without waiting for them.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
async def cancel(session: Session, *, flow_id: str, force: bool, yes: bool) -> None:
    """Cancel all tasks of a flow that have not ended."""
    from andon.engine.flows import cancel_flow, read_flow

    async with session.engine() as engine:
        flow = await read_flow(engine, flow_id)
        live = sum(not member.is_over for member in flow.members.values())
        _ask(session, f"{plural(live, 'task')} of {flow_id} will be cancelled. Go on?", yes)
        tally = await cancel_flow(engine, flow, force=force)
    _sum_up(session, tally, "cancelled")


@flows.command()
@click.argument("flow_id", metavar="ID")
@click.option("--all", "every", is_flag=True, help="What has completed, too.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
async def rerun(session: Session, *, flow_id: str, every: bool, yes: bool) -> None:
    """Run again what did not complete, and all that follows it.

    Each task waits for those it depends on, as it did at first. If it is interrupted, repeat it.
    """
    from andon.engine.flows import read_flow, rerun_flow
    from andon.lifecycle.flows import to_rerun

    async with session.engine() as engine:
        flow = await read_flow(engine, flow_id)
        taken = len(to_rerun(list(flow.members.values()), failed_only=not every))
        _ask(session, f"{plural(taken, 'task')} of {flow_id} will run again. Go on?", yes)
        tally = await rerun_flow(engine, flow, failed_only=not every)
    _sum_up(session, tally, "started again")


def _ask(session: Session, question: str, yes: bool) -> None:
    if yes:
        return
    if not people.person_present():
        raise click.UsageError("Nobody can be asked here: add --yes.")
    if not click.confirm(question, err=True):
        session.out.note("Nothing was done.")
        fail()


def _sum_up(session: Session, tally: "Tally", done: str) -> None:
    out = session.out
    if out.json:
        out.document(tally)
    else:
        parts = [f"{plural(tally.changed, 'task')} {done}"]
        parts += [f"{tally.unchanged:,} with nothing to do"] if tally.unchanged else []
        parts += [f"{tally.refused:,} refused"] if tally.refused else []
        out.note(", ".join(parts) + ".")
    if tally.refused:
        fail()
