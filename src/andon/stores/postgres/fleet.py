"""Queues, task types, workers and settings: small records that every process reads.

Queues, types and settings that are asked for in one turn of the loop are read by one statement:
every process reads the configuration that way, every few seconds.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from andon.contract.isolation import each_alone
from andon.contract.refusals import type_refused
from andon.contract.topics import CONFIG_TOPIC, ready_topic
from andon.coroutines.shared_future import shared
from andon.lifecycle.token_bucket import burst_of
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.stores.kit.codec import encode
from andon.stores.postgres.server import Server

_decode_queue = msgspec.msgpack.Decoder(QueueConfig).decode
_decode_type = msgspec.msgpack.Decoder(TypeInfo).decode
_decode_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


class Fleet:
    """The store's operations on them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._asked: set[str] = set()  # in this turn of the loop: kinds of configuration
        self._settings: set[str] = set()  # and the settings among it, by name
        self._answer: asyncio.Task[list[Any]] | None = None

    async def _read(self, kind: str, setting: str = "") -> list[Any]:
        """Rows (kind, name, body) of one kind, read after this was called."""
        if self._answer is None:
            self._answer = asyncio.ensure_future(self._look())
        self._asked.add(kind)
        if setting:
            self._settings.add(setting)
        rows = await shared(self._answer)
        return [row for row in rows if row[0] == kind and (not setting or row[1] == setting)]

    async def _look(self) -> list[Any]:
        kinds, settings = self._asked, sorted(self._settings)
        self._asked, self._settings, self._answer = set(), set(), None
        run, sql = self._server.run, self._server.sql
        if kinds == {"queue"}:
            return [("queue", *row) for row in await run(sql.queues)]
        if kinds == {"type"}:
            return [("type", "", *row) for row in await run(sql.types)]
        if kinds == {"setting"} and len(settings) == 1:
            return [("setting", settings[0], *row) for row in await run(sql.setting, settings[0])]
        return await run(sql.configuration, settings)

    async def queues(self) -> list[QueueConfig]:
        """Every queue known: configured ones, and those that ever had a task."""
        return [
            QueueConfig(name=name) if body is None else _decode_queue(body)
            for _, name, body in await self._read("queue")
        ]

    async def put_queue(self, config: QueueConfig, expect: QueueConfig) -> bool:
        """Replace a queue's configuration if it is as expected, and let tasks through for which its
        limits have room now. Returns whether it was."""
        server = self._server
        await server.names.know([config.name])
        found = await server.run(server.sql.queue, config.name)
        was = found[0][0] if found else None
        if (QueueConfig(name=config.name) if was is None else _decode_queue(was)) != expect:
            return False
        rate = config.rate_limit
        burst = None if rate is None else float(burst_of(config))
        ((is_set,),) = await server.write(
            server.calls.put_queue,
            server.names.ids[config.name],
            was,
            encode(config),
            config.paused,
            config.max_concurrent,
            config.max_concurrent_per_key,
            config.max_size,
            rate,
            burst,
        )
        if is_set:
            server.wake.tell({CONFIG_TOPIC, ready_topic(config.name)}, ["config", "ready"])
        return is_set

    async def types(self) -> list[TypeInfo]:
        """Every task type published."""
        return [_decode_type(body) for _, _, body in await self._read("type")]

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish task types."""
        await each_alone(self._put_types, types, type_refused)
        self._server.wake.tell({CONFIG_TOPIC}, ["config"])

    async def _put_types(self, types: Sequence[TypeInfo]) -> list[None]:
        unique = {(t.name, t.version): t for t in types}
        await self._server.write(
            self._server.calls.put_types,
            [name for name, _ in unique],
            [version for _, version in unique],
            [encode(t) for t in unique.values()],
        )
        return [None] * len(types)

    async def workers(self) -> list[WorkerInfo]:
        """Workers that published themselves lately."""
        rows = await self._server.run(self._server.sql.workers, self._server.clock.argument())
        return [msgspec.structs.replace(_decode_worker(body), seen_at=seen) for body, seen in rows]

    async def put_worker(self, info: WorkerInfo) -> None:
        """Record that a worker is alive."""
        await self._server.write(
            self._server.calls.put_worker, info.id, self._server.clock.argument(), encode(info)
        )

    async def remove_worker(self, worker: str) -> None:
        """Remove a worker that has left."""
        await self._server.write(self._server.calls.drop_worker, worker)

    async def setting(self, name: str) -> bytes | None:
        """A setting's value."""
        rows = await self._read("setting", name)
        return rows[0][2] if rows else None

    async def put_setting(self, name: str, value: bytes, expect: bytes | None) -> bool:
        """Set it if it is as expected (None: not there). Returns whether it was."""
        if expect is None:
            rows = await self._server.write(self._server.calls.new_setting, name, value)
        else:
            rows = await self._server.write(self._server.calls.put_setting, name, value, expect)
        if rows:
            self._server.wake.tell({CONFIG_TOPIC}, ["config"])
        return bool(rows)
