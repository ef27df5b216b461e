"""`andon storage`: set up the store, describe it, set how long it keeps ended tasks, copy it."""

from typing import TYPE_CHECKING

import click

from andon.artifacts.place import open_blobs
from andon.cli.copying import copy
from andon.cli.session import Session, common
from andon.cli.values import CLEARED, DURATION_OR_NONE
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.settings import PLACE_SETTING, RETENTION_SETTING
from andon.model.urls import shown
from andon.model.wording import ACCIDENTS, size_of, span

if TYPE_CHECKING:
    from andon.cli.output import Cell
    from andon.contract.store import Store
    from andon.model.fleet import StoreInfo

_MOST_TRIES = 20

_ON_SERVERS = frozenset({"nats", "tls"})
"""Schemes of stores whose server can keep a store in memory, or on several machines."""

_FLAGS = {"storage": "memory", "replicas": "replicas", "partitions": "partitions"}
Retention = float | object | None
"""Seconds, `CLEARED`, or None where nothing was said."""


@click.group()
def storage() -> None:
    """Set up, describe and copy the store."""


def _scheme(session: Session) -> str:
    return session.url.partition(":")[0]


def _refuse(session: Session, *, memory: bool, replicas: int | None) -> None:
    """Refuse settings that a kind of store does not have; a store on a server refuses them
    itself."""
    scheme = _scheme(session)
    if scheme in _ON_SERVERS:
        return
    if memory and scheme != "memory":
        raise ConfigurationError(
            f"{shown(session.url)} keeps its tasks in a file, so it cannot be memory based. "
            "For a store in memory, which ends with its process, use the URL memory://."
        )
    if (replicas or 1) > 1:
        raise ConfigurationError(
            f"A {scheme} store has one copy, on this machine; {replicas} replicas need a server "
            "that replicates. Use --replicas 1, and back the file up."
        )


def _with(url: str, name: str, value: int | str | None) -> str:
    """The URL with one option more."""
    if value is None:
        return url
    if f"{name}=" in url.partition("?")[2]:
        raise ConfigurationError(f"The URL says {name} already; leave --{_FLAGS[name]} out.")
    return f"{url}{'&' if '?' in url else '?'}{name}={value}"


def _on_server(session: Session, *, memory: bool, replicas: int | None) -> str:
    """The URL, with the options for a server."""
    if _scheme(session) not in _ON_SERVERS:
        return session.url
    url = _with(session.url, "storage", "memory" if memory else None)
    return _with(url, "replicas", replicas)


@storage.command()
@click.option("--retention", type=DURATION_OR_NONE, help="How long ended tasks are kept: 1h, 7d.")
@click.option("--memory", is_flag=True, help="Kept in memory; for memory:// and nats://.")
@click.option("--replicas", type=click.IntRange(1), help="Copies on servers; for nats://.")
@click.option("--partitions", type=click.IntRange(1, 256), help="Fixed once the store is made.")
@common
async def init(
    session: Session,
    *,
    retention: Retention,
    memory: bool,
    replicas: int | None,
    partitions: int | None,
) -> None:
    """Make the store, if it is not there, and say how it is set up.

    Harmless when repeated. What a kind of store cannot do is refused.
    """
    _refuse(session, memory=memory, replicas=replicas)
    url = _on_server(session, memory=memory, replicas=replicas)
    session.given_url = _with(url, "partitions", partitions)
    async with session.local_engine(creates=True, memory=True) as engine:
        if retention is not None:
            await _set_retention(engine.store, retention)
        _print(session, await engine.info())
    if _scheme(session) == "memory":
        session.out.note("A store in memory ends with its process: nothing of this was kept.")


@storage.command()
@click.argument("archive_period", type=DURATION_OR_NONE, required=False, metavar="[DURATION]")
@click.option("--retention", type=DURATION_OR_NONE, help="The same, by name.")
@click.option("--artifacts", metavar="URL", help="Where artifacts and logs of runs are kept.")
@click.option("--memory", is_flag=True, help="Kept in memory; cannot be changed.")
@click.option("--replicas", type=click.IntRange(1), help="Copies on servers; for nats://.")
@click.option("--partitions", type=click.IntRange(1), help="Cannot be changed.")
@common
async def configure(
    session: Session,
    *,
    archive_period: Retention,
    retention: Retention,
    artifacts: str | None,
    memory: bool,
    replicas: int | None,
    partitions: int | None,
) -> None:
    """Change how long the store keeps tasks that have ended.

    The default of every terminal state, for tasks submitted from now on; queues, task types and
    submissions may say otherwise. `none` leaves it to them and to the profile. Never removes a
    live task.

    `--artifacts` names, for everybody who uses the store, where runs keep their artifacts and
    logs: file:///folder, s3://bucket/prefix, gs://… or az://…. What is kept elsewhere stays there.
    """
    if artifacts is not None:
        open_blobs(artifacts)
    _refuse(session, memory=memory, replicas=replicas)
    session.given_url = _on_server(session, memory=memory, replicas=replicas)
    chosen = retention if retention is not None else archive_period
    if chosen is None and partitions is None and artifacts is None:
        raise click.UsageError("Say for how long: andon storage configure 7d.")
    async with session.local_engine() as engine:
        if partitions not in (None, engine.store.partitions):
            raise ConfigurationError(
                f"The store has {engine.store.partitions} partitions, and that is fixed when it is "
                "made. Make another with: andon storage init --partitions N."
            )
        if chosen is not None:
            await _set_retention(engine.store, chosen)
        if artifacts is not None:
            await _set(engine.store, PLACE_SETTING, artifacts.encode())
        _print(session, await engine.info())


@storage.command()
@common
async def info(session: Session) -> None:
    """Say what the store is, holds and promises."""
    async with session.engine(memory=True) as engine:
        _print(session, await engine.info())


@storage.command()
@common
async def migrate(session: Session) -> None:
    """Bring the store's schema to what this release writes.

    Every command does that when it opens the store; this one does nothing else.
    """
    async with session.local_engine() as engine:
        found = await engine.info()
    if session.out.json:
        session.out.document({"schema_version": found.schema_version})
    else:
        session.out.line(f"{found.location} has schema {found.schema_version}, the newest known.")


storage.add_command(copy)


async def _set_retention(store: "Store", retention: Retention) -> None:
    value = b"" if retention is CLEARED else f"{retention:g}".encode()
    await _set(store, RETENTION_SETTING, value)


async def _set(store: "Store", name: str, value: bytes) -> None:
    from andon.engine.audit import Audit

    if await store.setting(name) != value:
        await Audit(store).asked("set-storage", name, set=shown(value.decode()))
    for _ in range(_MOST_TRIES):
        before = await store.setting(name)
        if before == value or await store.put_setting(name, value, expect=before):
            return
    raise StoreUnavailable(f"Somebody else keeps changing the setting {name}; try again.")


def archive_period(found: "StoreInfo") -> str:
    """How long ended tasks are kept, in words."""
    return "as each task's policy says" if found.retention is None else span(found.retention)


def _print(session: Session, found: "StoreInfo") -> None:
    out = session.out
    if out.json:
        out.document(found)
        return
    rows: list[tuple[str, Cell]] = [
        ("Kind", found.kind),
        ("Location", found.location),
        ("Entries", f"{found.entries:,} @ {size_of(found.bytes)}"),
        ("Memory Based", str(found.in_memory).lower()),
        ("Replicas", found.replicas),
        ("Archive Period", archive_period(found)),
        ("Partitions", found.partitions),
        ("Schema Version", f"{found.schema_version} (writers from record version "
         f"{found.min_writer})"),
        *(
            (ACCIDENTS.get(accident, accident), what)
            for accident, what in found.durability.items()
        ),
        *((name, value) for name, value in found.settings.items()),
    ]  # fmt: skip
    out.pairs(rows, title="Tasks Storage")
