"""Queues, task types, workers and settings: small messages in partition 0.

Queue configurations are remembered and read again when a hint says so, or after a while.
"""

import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.stores.base import SLOW_POLL_S
from andon.stores.nats.heads import Heads
from andon.stores.nats.names import dotless, hashed, rank_of
from andon.stores.nats.wire import CONFLICT, GUARD, Write, seq_of, subject_of

WORKER_SEEN_MS = 60_000

_encode = msgspec.msgpack.Encoder().encode
_queue = msgspec.msgpack.Decoder(QueueConfig).decode
_type = msgspec.msgpack.Decoder(TypeInfo).decode
_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


class Fleet:
    """What is known beside the tasks."""

    def __init__(self, heads: Heads, now: Callable[[], int]) -> None:
        self._heads = heads
        self._names = heads.names
        self._now = now
        self._configs: dict[str, QueueConfig] = {}
        self._levels: dict[str, set[str]] = {}
        self._read_at = -1e9
        self._newest = 0  # sequence up to which the configurations are known
        self._types: dict[str, TypeInfo] = {}
        self._newest_type = 0

    # --- queues ---

    def stale(self) -> None:
        """Somebody changed something: read again before the next use."""
        self._read_at = -1e9

    async def configs(self) -> dict[str, QueueConfig]:
        """Every queue known."""
        if time.monotonic() - self._read_at > SLOW_POLL_S:
            started = time.monotonic()
            await self._load()
            self._read_at = started
        return self._configs

    async def _load(self) -> None:
        subjects = [self._names.of("q", "*"), self._names.of("v", ">")]
        found = await self._heads.newer(subjects, self._newest)
        configs = dict(self._configs)
        levels = {queue: set(known) for queue, known in self._levels.items()}
        for msg in found:
            if not msg.data:
                continue
            kind, *rest = subject_of(msg)[len(self._names.root) :].split(".")
            if kind == "q":
                config = _queue(msg.data)
                configs[config.name] = config
            else:
                levels.setdefault(rest[0], set()).add(rest[1])
        self._newest = max([self._newest, *map(seq_of, found)])
        self._configs, self._levels = configs, levels

    async def config(self, queue: str) -> QueueConfig | None:
        """The queue's configuration; None if it has the default one."""
        return (await self.configs()).get(queue)

    def levels(self, queue: str) -> list[str]:
        """The lines that the queue is known to have, in the order in which they are served."""
        return sorted(self._levels.get(dotless(queue), ()), key=rank_of)

    async def refresh(self) -> None:
        """Read again now."""
        self.stale()
        await self.configs()

    async def use(self, queues: Sequence[tuple[str, str]]) -> bool:
        """Make queues and their lines known before the first task of them is stored; True if one
        of the queues is new."""
        await self.configs()
        writes: list[Write] = []
        new = False
        for queue, level in dict.fromkeys(queues):
            known = self._levels.setdefault(dotless(queue), set())
            if level not in known:
                writes.append((self._names.of("v", dotless(queue), level), b"1", None))
            if queue not in self._configs and not any(
                w[0] == self._queue_subject(queue) for w in writes
            ):
                body = _encode(QueueConfig(name=queue))
                writes.append((self._queue_subject(queue), body, {GUARD: "0"}))
                new = True
        if writes:
            await self._heads.wire.write(self._names.stream, writes)
            if new:
                await self.refresh()
            for queue, level in queues:
                self._levels.setdefault(dotless(queue), set()).add(level)
        return new

    async def take_over(self, before: "Fleet") -> None:
        """Write what was known of queues and lines when the streams were others: who had not
        noticed yet may have stored tasks in lines that he took for known."""
        writes: list[Write] = [
            (self._queue_subject(queue), _encode(config), {GUARD: "0"})
            for queue, config in before._configs.items()
        ]
        writes += [
            (self._names.of("v", queue, level), b"1", None)
            for queue, levels in before._levels.items()
            for level in levels
        ]
        await self._heads.wire.write(self._names.stream, writes)
        self.stale()

    def _queue_subject(self, queue: str) -> str:
        return self._names.of("q", dotless(queue))

    async def put_queue(self, config: QueueConfig) -> None:
        """Replace a configuration."""
        await self._put(self._queue_subject(config.name), _encode(config))
        await self.refresh()

    # --- types, workers, settings ---

    async def _put(self, subject: str, body: bytes, **headers: str) -> None:
        own = {name.replace("_", "-"): value for name, value in headers.items()} or None
        await self._heads.wire.write(self._names.stream, [(subject, body, own)])

    async def types(self) -> list[TypeInfo]:
        """Every type, by name and version."""
        found = await self._heads.newer([self._names.of("y", "*")], self._newest_type)
        self._types.update({subject_of(msg): _type(msg.data) for msg in found})
        self._newest_type = max([self._newest_type, *map(seq_of, found)])
        return sorted(self._types.values(), key=lambda info: (info.name, info.version))

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish types."""
        writes: list[Write] = [
            (self._names.of("y", hashed(f"{info.name} {info.version}")), _encode(info), None)
            for info in types
        ]
        await self._heads.wire.write(self._names.stream, writes)

    async def workers(self) -> list[WorkerInfo]:
        """Workers seen lately, by id."""
        found = await self._heads.last([self._names.of("w", "*")])
        workers = [_worker(m.data) for m in found if m.data]
        seen = self._now() - WORKER_SEEN_MS
        return sorted((w for w in workers if w.seen_at > seen), key=lambda w: w.id)

    async def put_worker(self, info: WorkerInfo) -> None:
        """Note that it lives; the server forgets it by itself."""
        body = _encode(replace(info, seen_at=self._now()))
        await self._put(self._names.of("w", hashed(info.id)), body, Nats_TTL="90s")

    async def remove_worker(self, worker: str) -> None:
        """Note that it has left."""
        await self._put(self._names.of("w", hashed(worker)), b"", Nats_TTL="1s")

    async def setting(self, name: str) -> bytes | None:
        """A setting."""
        found = await self._heads.last([self._names.of("c", hashed(name))])
        return found[0].data if found else None

    async def put_setting(self, name: str, value: bytes, expect: bytes | None) -> bool:
        """Compare and set."""
        subject = self._names.of("c", hashed(name))
        found = await self._heads.last([subject])
        there = found[0].data if found else None
        if there != expect:
            return False
        guard = str(seq_of(found[0])) if found else "0"
        (seq,) = await self._heads.wire.write(
            self._names.stream, [(subject, value, {GUARD: guard})]
        )
        return seq > CONFLICT
