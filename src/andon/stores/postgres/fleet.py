"""Queues, task types, workers and settings: small records that everybody reads."""

from collections.abc import Sequence

import msgspec

from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.stores.base import CONFIG_TOPIC, ready_topic
from andon.stores.codec import encode
from andon.stores.postgres.server import Server

_decode_queue = msgspec.msgpack.Decoder(QueueConfig).decode
_decode_type = msgspec.msgpack.Decoder(TypeInfo).decode
_decode_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


class Fleet:
    """The store's operations on them."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def queues(self) -> list[QueueConfig]:
        """Every queue known: configured ones, and those that ever had a task."""
        rows = await self._server.run(self._server.sql.queues)
        return [
            QueueConfig(name=name) if body is None else _decode_queue(body) for name, body in rows
        ]

    async def put_queue(self, config: QueueConfig) -> None:
        """Replace a queue's configuration, and let through what its limits have room for now."""
        await self._server.names.know([config.name])
        rate, burst = config.rate_limit, None
        if rate is not None:
            # One claim must always fit, or a rate below one a second would never let any through.
            burst = float(max(config.rate_burst or -(-rate // 1), 1))
        await self._server.write(
            self._server.calls.put_queue,
            self._server.names.ids[config.name],
            encode(config),
            config.paused,
            config.max_concurrent,
            config.max_concurrent_per_key,
            config.max_size,
            rate,
            burst,
        )
        self._server.wake.tell({CONFIG_TOPIC, ready_topic(config.name)}, ["config", "ready"])

    async def types(self) -> list[TypeInfo]:
        """Every task type published."""
        return [_decode_type(row[0]) for row in await self._server.run(self._server.sql.types)]

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish task types."""
        unique = {(t.name, t.version): t for t in types}
        await self._server.write(
            self._server.calls.put_types,
            [name for name, _ in unique],
            [version for _, version in unique],
            [encode(t) for t in unique.values()],
        )
        self._server.wake.tell({CONFIG_TOPIC}, ["config"])

    async def workers(self) -> list[WorkerInfo]:
        """Workers heard of lately."""
        rows = await self._server.run(self._server.sql.workers, self._server.clock.argument())
        return [msgspec.structs.replace(_decode_worker(body), seen_at=seen) for body, seen in rows]

    async def put_worker(self, info: WorkerInfo) -> None:
        """A worker says that it is there."""
        await self._server.write(
            self._server.calls.put_worker, info.id, self._server.clock.argument(), encode(info)
        )

    async def remove_worker(self, worker: str) -> None:
        """A worker leaves."""
        await self._server.write(self._server.calls.drop_worker, worker)

    async def setting(self, name: str) -> bytes | None:
        """A setting's value."""
        rows = await self._server.run(self._server.sql.setting, name)
        return rows[0][0] if rows else None

    async def put_setting(self, name: str, value: bytes, expect: bytes | None) -> bool:
        """Set it if it is as expected (None: not there); whether it was."""
        if expect is None:
            rows = await self._server.write(self._server.calls.new_setting, name, value)
        else:
            rows = await self._server.write(self._server.calls.put_setting, name, value, expect)
        if rows:
            self._server.wake.tell({CONFIG_TOPIC}, ["config"])
        return bool(rows)
