"""Reads what a server says of itself, and what that means for acknowledged writes."""

from typing import Any

from andon.model.fleet import StoreInfo
from andon.stores.redis.network import Network
from andon.stores.redis.opening import SCHEMA_VERSION
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.reading import stats
from andon.stores.redis.scripts import WRITER_VERSION
from andon.stores.redis.wire import refused

_SETTINGS = (
    "appendonly",
    "appendfsync",
    "save",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
)

_EVERYTHING = "everything acknowledged survives"
_UNKNOWN = "unknown: the server does not tell its settings"


async def info(at: Partitions, retention: bytes | None) -> StoreInfo:
    """What the store is, holds and promises, as its servers are set now."""
    network, location = at.network, at.location
    by_server = [
        (address, await _settings(network, partition), await _facts(network, partition))
        for address, partition in (await network.primaries(at.count)).items()
    ]
    settings = _weakest([settings for _, settings, _ in by_server])
    facts = [facts for _, _, facts in by_server]
    entries = sum(sum(of.counts.values()) for of in await stats(at))
    replicas = min(int(f.get("connected_slaves", "0")) for f in facts)
    shown = dict(settings) if settings is not None else {"settings": "not told by the server"}
    shown |= {
        "server": facts[0].get("server_name", "redis") + " " + _version(facts[0]),
        "replicas_connected": str(replicas),
        "wait": str(location.wait),
        **_warnings(settings),
    }
    return StoreInfo(
        kind="redis",
        location=location.shown,
        schema_version=SCHEMA_VERSION,
        min_writer=WRITER_VERSION,
        partitions=at.count,
        entries=entries,
        bytes=sum(int(f.get("used_memory", "0")) for f in facts),
        in_memory=True,
        replicas=1 + replicas,
        retention=float(retention) if retention else None,
        durability=durability(settings, location.wait),
        settings=shown,
    )


def durability(settings: dict[str, str] | None, wait: int) -> dict[str, str]:
    """What survives, by kind of accident."""
    kept: dict[str, str]
    if settings is None:
        kept = dict.fromkeys(("process_crash", "os_crash", "power_cut"), _UNKNOWN)
    elif settings.get("appendonly") == "yes":
        kept = _with_log(settings.get("appendfsync", ""))
    elif settings.get("save"):
        lost = f"what was written since the last snapshot is lost (save {settings['save']})"
        kept = dict.fromkeys(("process_crash", "os_crash", "power_cut"), lost)
    else:
        nothing = "nothing survives: the server keeps its data in memory only"
        kept = dict.fromkeys(("process_crash", "os_crash", "power_cut"), nothing)
    if wait:
        copies = "copy is" if wait == 1 else "copies are"
        kept = {
            accident: f"{text}; {wait} more {copies} in the memory of replicas (wait={wait})"
            for accident, text in kept.items()
        }
    return kept


def _with_log(fsync: str) -> dict[str, str]:
    process = f"{_EVERYTHING} (appendonly yes)"
    if fsync == "always":
        disk = f"{_EVERYTHING}, if the disk honours flushes (appendfsync always)"
    elif fsync == "everysec":
        disk = "up to 2 s of what was acknowledged may be lost (appendfsync everysec)"
        # While a flush is under way the server answers, and writes to the file later.
        process = (
            f"{_EVERYTHING}, but for what was acknowledged during a flush of the disk, "
            "2 s at most (appendfsync everysec)"
        )
    else:
        disk = "what the system had not written yet is lost, 30 s as a rule (appendfsync no)"
    return {
        "process_crash": process,
        "os_crash": disk,
        "power_cut": disk,
    }


def _warnings(settings: dict[str, str] | None) -> dict[str, str]:
    if settings is None:
        return {}
    policy = settings.get("maxmemory-policy", "noeviction")
    limited = settings.get("maxmemory", "0") != "0"
    if policy != "noeviction":
        when = "may" if limited else "will, once maxmemory is set,"
        return {
            "warning": f"the server {when} throw tasks away when it is full "
            f"(maxmemory-policy {policy}); set noeviction"
        }
    return {}


def _weakest(all_settings: list[dict[str, str] | None]) -> dict[str, str] | None:
    """The settings of the server that promises least; none if one server does not say."""
    told = [settings for settings in all_settings if settings is not None]
    if len(told) < len(all_settings):
        return None

    def strength(settings: dict[str, str]) -> tuple[bool, int, bool]:
        fsync = {"always": 2, "everysec": 1}.get(settings.get("appendfsync", ""), 0)
        evicts = settings.get("maxmemory-policy", "noeviction") != "noeviction"
        return settings.get("appendonly") == "yes", fsync, not evicts

    return min(told, key=strength)


async def _settings(network: Network, partition: int) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for name in _SETTINGS:
        reply = await network.ask(partition, (b"CONFIG", b"GET", name))
        if refused(reply):
            return None  # a managed server that forbids CONFIG
        found |= {reply[i].decode(): reply[i + 1].decode() for i in range(0, len(reply), 2)}
    return found


async def _facts(network: Network, partition: int) -> dict[str, str]:
    found: dict[str, str] = {}
    for section in (b"server", b"memory", b"replication"):
        reply: Any = await network.ask(partition, (b"INFO", section))
        if refused(reply):
            continue
        for line in reply.decode().splitlines():
            name, colon, value = line.partition(":")
            if colon:
                found[name] = value
    return found


def _version(facts: dict[str, str]) -> str:
    return facts.get("valkey_version") or facts.get("redis_version", "?")
