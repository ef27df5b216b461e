"""Describes the store: its version, contents and durability, as the server is configured now."""

from andon.model.fleet import StoreInfo
from andon.model.task import RECORD_VERSION
from andon.stores.postgres.location import Location
from andon.stores.postgres.migrating import Facts
from andon.stores.postgres.names import Run
from andon.stores.postgres.statements import Statements

_ALL = "everything acknowledged survives"


async def describe(run: Run, sql: Statements, location: Location, facts: Facts) -> StoreInfo:
    """Ask the server."""
    ((entries,),) = await run(sql.entries)
    ((size,),) = await run(sql.size, location.namespace)
    settings = {row[0]: row[1] for row in await run(sql.settings)}
    standbys = [tuple(row) for row in await run(sql.standbys)]
    retention = await run(sql.setting, "retention")
    commit = settings["synchronous_commit"]
    if location.synchronous_commit == "off":
        commit = settings["synchronous_commit"] = "off"
    settings["standbys"] = ", ".join(f"{name} ({kind})" for name, kind in standbys) or "none"
    return StoreInfo(
        kind="postgres",
        location=f"{location.shown}, schema {location.namespace}",
        schema_version=facts.version,
        min_writer=facts.min_writer,
        partitions=facts.partitions,
        entries=entries,
        bytes=size,
        in_memory=False,
        replicas=1 + len(standbys),
        retention=float(retention[0][0]) if retention else None,
        durability={
            "process_crash": _ALL if commit != "off" else _late("the server process"),
            "os_crash": _of_machine(settings, commit),
            "power_cut": _of_machine(settings, commit, disk=True),
        },
        settings={**settings, "record_version": str(RECORD_VERSION)},
    )


def _late(what: str) -> str:
    return f"the last moments may be lost if {what} crashes (synchronous_commit=off)"


def _of_machine(settings: dict[str, str], commit: str, *, disk: bool = False) -> str:
    if settings["fsync"] == "off":
        return "the whole database may be lost (fsync=off)"
    if commit == "off":
        return _late("the server's machine")
    if settings["full_page_writes"] == "off":
        return "pages may be torn, and the database damaged (full_page_writes=off)"
    return f"{_ALL}, if the disk honours flushes" if disk else _ALL
