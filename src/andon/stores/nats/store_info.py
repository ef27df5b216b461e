"""Describes the store for `info`."""

import asyncio
from urllib.request import urlopen

import msgspec

from andon.model.fleet import StoreInfo
from andon.stores.nats.context import StoreContext
from andon.stores.nats.index import Index
from andon.stores.nats.opening import SCHEMA


async def describe(context: StoreContext, index: Index) -> StoreInfo:
    """What the store is, holds and promises."""
    await index.sync(whole=True)
    size, replicas, storage = 0, 1, "file"
    created = ""
    for records in context.records:
        found = await context.js.api(f"STREAM.INFO.{records.subjects.stream}")
        size += int(found["state"]["bytes"])
        replicas = int(found["config"]["num_replicas"])
        storage = str(found["config"]["storage"])
        created = str(found["created"])
    sync = await _sync_interval(context)
    value = await context.fleet.setting("retention")
    version = context.js.client.connected_server_version
    return StoreInfo(
        kind="nats",
        location=f"{context.location.shown} {context.location.namespace}",
        schema_version=SCHEMA,
        min_writer=1,
        partitions=len(context.records),
        entries=len(index.tables.rows),
        bytes=size,
        in_memory=storage == "memory",
        replicas=replicas,
        retention=float(value) if value else None,
        durability=_durability(storage, replicas, sync),
        settings={
            "server": f"{version.major}.{version.minor}.{version.patch}",
            "storage": storage,
            "sync_interval": sync
            or "not told (the server's default is 2m); add monitor=http://host:8222 to the URL",
            "created": created,
        },
    )


class _Config(msgspec.Struct, frozen=True):
    sync_interval: int = 0
    sync_always: bool = False


class _Jetstream(msgspec.Struct, frozen=True):
    config: _Config = _Config()


async def _sync_interval(context: StoreContext) -> str:
    """How often the server flushes to disk; only its monitoring port says so."""
    if not context.location.monitor:
        return ""
    try:
        body = await asyncio.to_thread(_fetch, f"{context.location.monitor}/jsz")
        config = msgspec.json.decode(body, type=_Jetstream).config
    except (OSError, msgspec.DecodeError):
        return ""
    if config.sync_always:
        return "always"
    return f"{config.sync_interval / 1e9:g}s" if config.sync_interval else ""


def _fetch(url: str) -> bytes:
    with urlopen(url, timeout=3) as answer:  # noqa: S310 - `parse` lets http and https through
        body: bytes = answer.read()
        return body


def _durability(storage: str, replicas: int, sync: str) -> dict[str, str]:
    """What survives, by kind of accident."""
    if storage == "memory":
        kept = (
            "nothing: the store is kept in memory"
            if replicas == 1
            else f"everything while {replicas // 2 + 1} of {replicas} servers go on"
        )
        return {"process_crash": kept, "os_crash": kept, "power_cut": kept}
    if sync == "always":
        whole = "everything that was acknowledged"
        return {"process_crash": whole, "os_crash": whole, "power_cut": whole}
    lost = (
        f"what was acknowledged in the last sync_interval ({sync or 'default 2m'}) may be lost; "
        "set sync_interval: always in the server's jetstream block"
    )
    if replicas > 1:
        lost = (
            f"everything while {replicas // 2 + 1} of {replicas} servers go on; if all lose power "
            f"at once, {lost}"
        )
    return {
        "process_crash": "everything that was acknowledged",
        "os_crash": lost,
        "power_cut": lost,
    }
