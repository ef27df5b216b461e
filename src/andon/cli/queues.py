"""`andon queues`: what waits where, and under which limits."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from andon.cli.layout import Column
from andon.cli.output import STYLES, Cell, Output, Word
from andon.cli.people import person_present
from andon.cli.queue_history import history
from andon.cli.session import Session, common, fail
from andon.cli.values import COUNT_OR_NONE, RATE_OR_NONE, cleared
from andon.engine.emptying import ENDED, delete_queue, emptied_of, purge_queue
from andon.engine.filtering import check_queue
from andon.engine.fleet import counts_in, known_queues, queue_document
from andon.lifecycle.waiting import Why, spoken
from andon.model.errors import ConfigurationError, QueueNotEmpty
from andon.model.rates import rate_text
from andon.model.wording import plural, span
from andon.model.words import State

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.engine.emptying import Emptied
    from andon.engine.waiting import KindWait
    from andon.lifecycle.profiles import Profile
    from andon.model.fleet import QueueConfig, QueueStats

_STORED = [state for state in State if state is not State.UNSUBMITTED]


@click.group()
def queues() -> None:
    """List, make, pause and delete queues."""


@queues.command("list")
@common
async def list_queues(session: Session) -> None:
    """List queues with the number of tasks in each state."""
    async with session.engine() as engine:
        rows, now, waits = await known_queues(engine), engine.now(), await engine.waits()
    out = session.out
    if out.json:
        out.document([queue_document(config, stats, waits) for config, stats in rows])
        return
    out.table(
        columns(session.profile, out, rows),
        [cells(session.profile, out, rows, row, now) for row in rows],
        empty="There is no queue yet: the first task makes one.",
    )
    for wait in waits:
        if wait.why in (Why.NO_CODE, Why.NO_WORKER):
            out.note(f"{wait.queue}: {_said(wait, now)}")


@queues.command()
@click.argument("name")
@common
async def show(session: Session, *, name: str) -> None:
    """Show one queue: its settings and its counts."""
    async with session.engine() as engine:
        await check_queue(engine, name)
        [(config, stats)] = [row for row in await known_queues(engine) if row[0].name == name]
        now, waits = engine.now(), await engine.waits([name])
    _print_one(session, config, stats, waits, now)


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@common
async def pause(session: Session, *, names: tuple[str, ...]) -> None:
    """Claim nothing from queues; what runs goes on, and timers too."""
    await _set_paused(session, names, paused=True)


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@common
async def resume(session: Session, *, names: tuple[str, ...]) -> None:
    """Claim from queues again."""
    await _set_paused(session, names, paused=False)


_SETTINGS = (
    click.option(
        "--max-concurrent", type=COUNT_OR_NONE, metavar="N", help="Runs at once, fleet-wide."
    ),
    click.option(
        "--max-concurrent-per-key",
        "--per-key",
        "per_key",
        type=COUNT_OR_NONE,
        metavar="N",
        help="Runs at once of one concurrency key, fleet-wide.",
    ),
    click.option("--rate-limit", type=RATE_OR_NONE, metavar="RATE", help="Claims: 5 (/s), 300/m."),
    click.option("--rate-burst", type=COUNT_OR_NONE, metavar="N", help="Claims in one go."),
    click.option("--max-size", type=COUNT_OR_NONE, metavar="N", help="Most pending tasks."),
    click.option("--on-full", type=click.Choice(["reject", "discard-old"]), help="What gives way."),
    click.option(
        "--weight", type=int, metavar="N", help="Share of claims among a worker's queues."
    ),
    click.option(
        "--policy",
        multiple=True,
        metavar="NAME=JSON",
        help="A default of its tasks' policy; NAME=unset takes it away. May be repeated.",
    ),
)


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the settings of a queue as options."""
    for option in reversed(_SETTINGS):
        command = option(command)
    return command


@queues.command()
@click.argument("name")
@_settings
@common
async def create(session: Session, *, name: str, **settings: Any) -> None:
    """Make a queue, with settings if you like.

    Its first task makes a queue too. One that there is already is refused: configure it.
    """
    async with session.engine(creates=True) as engine:
        if any(config.name == name for config, _ in await known_queues(engine)):
            raise ConfigurationError(
                f"There is a queue {name!r} already. Change it with: andon queues configure {name}."
            )
        await _configure(session, engine, name, settings)


@queues.command()
@click.argument("name")
@_settings
@common
async def configure(session: Session, *, name: str, **settings: Any) -> None:
    """Change settings of a queue; make it if there is none.

    Running workers follow within seconds. `none` takes a limit away.
    """
    async with session.engine(creates=True) as engine:
        await _configure(session, engine, name, settings)


async def _configure(
    session: Session, engine: "Engine", name: str, settings: dict[str, Any]
) -> None:
    policy = settings.pop("policy")
    settings["max_concurrent_per_key"] = settings.pop("per_key")
    changes = {key: cleared(value) for key, value in settings.items() if value is not None}
    if policy:
        configs = {config.name: config for config in await engine.queues()}
        before = configs[name].policy if name in configs else {}
        changes["policy"] = _policy(before, policy)
    await engine.configure_queue(name, changes)
    found = {config.name: (config, stats) for config, stats in await known_queues(engine)}
    now, waits = engine.now(), await engine.waits([name])
    _print_one(session, *found[name], waits, now)


_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--force", is_flag=True, help="Running tasks too, and what others still need.")
@_yes
@common
async def purge(session: Session, *, names: tuple[str, ...], force: bool, yes: bool) -> None:
    """Cancel and remove the tasks that wait in queues.

    The queues stay, their settings too, and what has ended or is running.
    """
    async with session.engine() as engine:
        states = emptied_of(force=force)
        found = await _found(engine, names)
        for name, counts in found:
            doomed = sum(number for state, number in counts.items() if State(state) in states)
            if not _agreed(f"{plural(doomed, 'task')} of queue {name} will be removed.", yes=yes):
                session.out.note("Nothing was done.")
                fail()
        refused = 0
        for name, _ in found:
            emptied = await purge_queue(engine, name, force=force)
            refused += emptied.refused
            _tell(session, name, emptied, deleted=False)
    if refused:
        fail()


@queues.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--force", is_flag=True, help="Cancel and remove its live tasks too.")
@_yes
@common
async def delete(session: Session, *, names: tuple[str, ...], force: bool, yes: bool) -> None:
    """Delete queues: their settings, and the records of what has ended in them.

    A queue with live tasks is refused; purge it first, or give --force. A task that enters it later
    makes it a queue again.
    """
    async with session.engine() as engine:
        found = await _found(engine, names)
        for name, counts in found:
            live = {s: n for s, n in counts.items() if State(s) not in ENDED}
            if live and not force:
                raise QueueNotEmpty(
                    name, live, f"Wait for them, or: andon queues delete {name} --force."
                )
            records = plural(sum(counts.values()), "task")
            if not _agreed(f"Queue {name} and {records} in it will be deleted.", yes=yes):
                session.out.note("Nothing was done.")
                fail()
        for name, _ in found:
            _tell(session, name, await delete_queue(engine, name, force=force), deleted=True)


async def _found(engine: "Engine", names: Sequence[str]) -> list[tuple[str, dict[str, int]]]:
    """The queues, once each, and how many tasks each has by state. All of them must be there."""
    for name in names:
        await check_queue(engine, name)
    stats = await engine.stats()
    return [(name, counts_in(stats, name)) for name in dict.fromkeys(names)]


def _agreed(what: str, *, yes: bool) -> bool:
    """Whether the user confirms; where no user can be asked, only with --yes."""
    if yes:
        return True
    if not person_present():
        raise click.UsageError(f"{what} Nobody can be asked here: add --yes.")
    return click.confirm(f"{what} Go on?", err=True)


def _tell(session: Session, name: str, emptied: "Emptied", *, deleted: bool) -> None:
    out = session.out
    if out.json:
        counts = {"removed": emptied.removed, "refused": emptied.refused}
        out.record({"queue": name, **counts, "deleted": deleted})
        return
    parts = ["deleted"] if deleted else []
    parts.append(f"{plural(emptied.removed, 'task')} removed")
    if emptied.refused:
        parts.append(f"{emptied.refused:,} left, which others need: --force removes them")
    out.words([name, ", ".join(parts)])


def _policy(before: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    from andon.cli.arguments import json_or_text

    after = dict(before)
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"--policy takes NAME=JSON, not {change!r}.")
        if value == "unset":
            after.pop(key, None)
        else:
            after[key] = json_or_text(value)
    return after


async def _set_paused(session: Session, names: tuple[str, ...], *, paused: bool) -> None:
    async with session.engine() as engine:
        for name in names:
            await check_queue(engine, name)
        for name in names:
            config = await engine.configure_queue(name, {"paused": paused})
            if session.out.json:
                session.out.record(config)
            else:
                word = Word("paused", "yellow") if paused else Word("running", "green")
                session.out.words([name, word])


queues.add_command(history)


# --- what is shown ---


def states_shown(
    profile: "Profile", out: Output, rows: "Iterable[tuple[QueueConfig, QueueStats]]"
) -> dict[str, list[State]]:
    """The columns of counts: a profile's names, each with the native states behind it.

    A state that goes by several names is shown under all of them (`new/retry`). On a terminal,
    columns without any task are left out.
    """
    from andon.lifecycle.rendering import names_of

    used = {name for _, stats in rows for name, count in stats.counts.items() if count}
    shown: dict[str, list[State]] = {}
    for state in _STORED:
        if out.terminal and state.value not in used and state is not State.PENDING:
            continue
        shown.setdefault("/".join(names_of(profile, state)) or state.value, []).append(state)
    return shown


def columns(
    profile: "Profile", out: Output, rows: "Sequence[tuple[QueueConfig, QueueStats]]"
) -> list[Column]:
    """The columns of a list of queues."""
    names = states_shown(profile, out, rows)
    return [
        Column("queue", named=True),
        Column("state", keeps=True),
        *(Column(name, right=True) for name in names),
        Column("dead", right=True),
        Column("oldest", right=True),
        Column("settings", wraps=True, spare=True),
    ]


def cells(
    profile: "Profile",
    out: Output,
    rows: "Sequence[tuple[QueueConfig, QueueStats]]",
    row: "tuple[QueueConfig, QueueStats]",
    now: int,
) -> list[Cell]:
    """One queue in a list."""
    config, stats = row
    counted: list[Cell] = []
    for states in states_shown(profile, out, rows).values():
        count = sum(stats.counts.get(state.value, 0) for state in states)
        counted.append(Word(f"{count}", STYLES[states[0].value] if count else "dim"))
    oldest = stats.oldest_pending_at
    return [
        config.name,
        Word("paused", "yellow") if config.paused else Word("running", "dim"),
        *counted,
        stats.dead_letters,
        "" if oldest is None else span(max(now - oldest, 0) / 1000),
        " ".join(f"{name}={value}" for name, value in settings_of(config)),
    ]


def settings_of(config: "QueueConfig") -> list[tuple[str, str]]:
    """The settings that differ from the defaults."""
    settings: list[tuple[str, str]] = []
    for name in (
        "max_concurrent",
        "max_concurrent_per_key",
        "rate_limit",
        "rate_burst",
        "max_size",
    ):
        value = getattr(config, name)
        if value is not None:
            shown = rate_text(value) if name == "rate_limit" else f"{value:g}"
            settings.append((name, shown))
    if config.max_size is not None:
        settings.append(("on_full", config.on_full))
    if config.weight != 1:
        settings.append(("weight", str(config.weight)))
    settings += [(f"policy.{name}", str(value)) for name, value in config.policy.items()]
    return settings


def _said(wait: "KindWait", now: int) -> str:
    """What a kind waits for, as a line."""
    kind, text = spoken(wait.kind), wait.text
    if wait.oldest_at is not None:
        text = f"{text} (for {span(max(now - wait.oldest_at, 0) / 1000)})"
    return f"{kind} {text}" if wait.why is Why.NO_CODE else f"{kind}: {text}"


def _print_one(
    session: Session,
    config: "QueueConfig",
    stats: "QueueStats",
    waits: "Sequence[KindWait]",
    now: int,
) -> None:
    out = session.out
    if out.json:
        out.document(queue_document(config, stats, waits))
        return
    shown = states_shown(session.profile, out, [(config, stats)])
    counts = {
        name: sum(stats.counts.get(state.value, 0) for state in states)
        for name, states in shown.items()
    }
    oldest = stats.oldest_pending_at
    pairs: list[tuple[str, Cell]] = [
        ("queue", config.name),
        ("state", Word("paused", "yellow") if config.paused else Word("running", "green")),
        *settings_of(config),
        *((name, count) for name, count in counts.items()),
        ("parked", stats.parked or None),
        ("dead letters", stats.dead_letters or None),
        ("oldest pending", None if oldest is None else f"{span(max(now - oldest, 0) / 1000)} old"),
        *(("waits", _said(wait, now)) for wait in waits),
    ]
    out.pairs(pairs)
