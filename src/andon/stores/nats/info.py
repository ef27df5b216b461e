"""What the store says of itself."""

from andon.model.fleet import StoreInfo
from andon.stores.nats.core import Core
from andon.stores.nats.index import Index
from andon.stores.nats.opening import SCHEMA


async def describe(core: Core, index: Index) -> StoreInfo:
    """What it is, holds and promises."""
    await index.sync()
    size, replicas, storage = 0, 1, "file"
    created = ""
    for heads in core.heads:
        found = await core.wire.api(f"STREAM.INFO.{heads.names.stream}")
        size += int(found["state"]["bytes"])
        replicas = int(found["config"]["num_replicas"])
        storage = str(found["config"]["storage"])
        created = str(found["created"])
    sync = await _sync_interval(core)
    value = await core.fleet.setting("retention")
    version = core.wire.client.connected_server_version
    return StoreInfo(
        kind="nats",
        location=f"{core.location.shown} {core.location.namespace}",
        schema_version=SCHEMA,
        min_writer=1,
        partitions=len(core.heads),
        entries=len(index.records.rows),
        bytes=size,
        in_memory=storage == "memory",
        replicas=replicas,
        retention=float(value) if value else None,
        durability=_durability(storage, replicas, sync),
        settings={
            "server": f"{version.major}.{version.minor}.{version.patch}",
            "storage": storage,
            "sync_interval": sync or "unknown (default 2m)",
            "created": created,
        },
    )


async def _sync_interval(core: Core) -> str:
    """How often the server flushes to disk; it tells only its system account."""
    return ""


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
