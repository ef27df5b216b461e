"""Keeps queues, task types and workers: small records in partition 0, limits in every partition."""

from collections.abc import Sequence

import msgspec

from andon.lifecycle.constants import WORKER_SEEN_MS
from andon.lifecycle.token_bucket import burst_of
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.stores.kit.codec import encode
from andon.stores.redis import reading
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.records import body

_decode_config = msgspec.msgpack.Decoder(QueueConfig).decode
_decode_type = msgspec.msgpack.Decoder(TypeInfo).decode
_decode_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


async def queues(at: Partitions) -> list[QueueConfig]:
    """Every known queue, configured or not, by name."""
    found: dict[str, QueueConfig] = {}
    for name in await reading.queue_names(at):
        found[name] = QueueConfig(name=name)
    configured = await at.look(0, b"HGETALL", "configs")
    for name, packed in zip(configured[::2], configured[1::2], strict=True):
        found[name.decode()] = _decode_config(packed)
    return [found[name] for name in sorted(found)]


async def put_queue(at: Partitions, config: QueueConfig, expect: QueueConfig) -> bool:
    """Replace a queue's configuration if it still is the expected one, and make ready what its
    limits have room for now."""
    there: bytes | None = await at.look(0, b"HGET", "configs", config.name)
    found = QueueConfig(name=config.name) if there is None else _decode_config(there)
    if found != expect:
        return False
    before = None if there is None else body(there)
    asked = (config.name, limits(config, at.count), body(encode(config)), before)
    if not (await at.run("configure", 0, asked))[1]:
        return False
    await _set_limits(at, config)
    return True


async def _set_limits(at: Partitions, config: QueueConfig) -> None:
    """Set limits in the other partitions; if another process has set the queue meanwhile, that
    one's limits."""
    while True:
        for partition in range(1, at.count):
            await at.run("configure", partition, (config.name, limits(config, at.count)))
        there = await at.look(0, b"HGET", "configs", config.name) if at.count > 1 else None
        if there is None or there == encode(config):
            break
        config = _decode_config(there)
    for partition in range(at.count):
        following = b""
        while True:
            reply = await at.run("readmit", partition, (config.name, following.decode()))
            following = reply[1]
            if not following:
                break


def limits(config: QueueConfig, partitions: int) -> dict[str, float]:
    """What scripts know of a queue's configuration; "spread" if partitions share its limits."""
    found: dict[str, float] = {}
    if config.paused:
        found["paused"] = 1
    if config.max_concurrent is not None:
        found["concurrent"] = config.max_concurrent
    if config.max_concurrent_per_key is not None:
        found["per_key"] = config.max_concurrent_per_key
    if config.rate_limit is not None:
        found["rate"] = config.rate_limit
        found["burst"] = burst_of(config)
    if config.max_size is not None:
        found["size"] = -(-config.max_size // partitions)  # each gets a share, rounded up
        found["discards"] = 1 if config.on_full == "discard-old" else 0
    shared = ("concurrent", "per_key", "rate")
    if partitions > 1 and any(name in found for name in shared):
        found["spread"] = 1
    return found


async def types(at: Partitions) -> list[TypeInfo]:
    """Every published task type, by name and version."""
    flat = await at.look(0, b"HGETALL", "types")
    found = [_decode_type(flat[i]) for i in range(1, len(flat), 2)]
    return sorted(found, key=lambda info: (info.name, info.version))


async def put_types(at: Partitions, infos: Sequence[TypeInfo]) -> list[None]:
    """Publish task types."""
    fields: list[msgspec.Raw | str] = []
    for info in infos:
        fields += (f"{info.name} {info.version}", body(encode(info)))
    await at.run("put_types", 0, fields)
    return [None] * len(infos)


async def workers(at: Partitions) -> list[WorkerInfo]:
    """Workers seen lately, by id."""
    reply = await at.run("workers", 0, (WORKER_SEEN_MS,))
    found = [
        msgspec.structs.replace(_decode_worker(reply[i]), seen_at=reply[i + 1])
        for i in range(1, len(reply), 2)
    ]
    return sorted(found, key=lambda info: info.id)


async def put_worker(at: Partitions, info: WorkerInfo) -> None:
    """Note that a worker lives."""
    await at.run("put_worker", 0, (info.id, body(encode(info))))


async def remove_worker(at: Partitions, worker: str) -> None:
    """Note that a worker has left."""
    await at.run("put_worker", 0, (worker, None))


async def setting(at: Partitions, name: str) -> bytes | None:
    """A small value."""
    return await at.look(0, b"HGET", "settings", name)


async def put_setting(at: Partitions, name: str, value: bytes, expect: bytes | None) -> bool:
    """Compare and set."""
    expected = None if expect is None else body(expect)
    return (await at.run("put_setting", 0, (name, body(value), expected)))[1] == 1
