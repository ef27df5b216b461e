"""Keeps queues, task types, workers and settings: small messages in partition 0.

Queues and sub-queues are remembered, and read again when a mark says that they have changed: there
may be thousands of them, and claims that find nothing look again each time.
"""

import time
from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from andon.contract.isolation import AT_FAULT, Unwritable, left_out, why_of
from andon.lifecycle.constants import SLOW_POLL_S, WORKER_SEEN_MS
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.stores.nats.jetstream import CONFLICT, GUARD, UNSURE, Write, seq_of, subject_of
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import SubqueueName, dotless, dotted, hashed, is_token, rank_of

_UNMARKED_S = 60.0
"""How often queues and sub-queues are read whether or not the mark says so: the process that wrote
one may have died before it wrote the mark."""

_encode = msgspec.msgpack.Encoder().encode
_queue = msgspec.msgpack.Decoder(QueueConfig).decode
_type = msgspec.msgpack.Decoder(TypeInfo).decode
_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


class Fleet:
    """What a process knows of queues, task types, workers and settings."""

    def __init__(self, records: RecordCache, now: Callable[[], int]) -> None:
        self._records = records
        self._subjects = records.subjects
        self._now = now
        self._configs: dict[str, QueueConfig] = {}
        self._subqueues: dict[str, dict[SubqueueName, None]] = {}
        self._in_order: dict[str, tuple[SubqueueName, ...]] = {}
        self.changes = 0  #: grows when a queue, its configuration or a sub-queue becomes known
        self._mark = records.subjects.of("m", "fleet")
        self._marked = -1  # sequence of the mark up to which all is known
        self._looked_at = self._read_at = -1e9
        self._newest = 0  # sequence up to which the configurations are known
        self._types: dict[str, TypeInfo] = {}
        self._newest_type = 0

    # --- queues ---

    def stale(self) -> None:
        """Read the mark before the next use: another process may have changed something."""
        self._looked_at = -1e9

    async def configs(self) -> dict[str, QueueConfig]:
        """Every known queue."""
        now = time.monotonic()
        if now - self._looked_at > SLOW_POLL_S:
            mark = await self._records.last([self._mark])
            newest = seq_of(mark[0]) if mark else 0
            if newest != self._marked or now - self._read_at > _UNMARKED_S:
                await self._load()
                self._marked, self._read_at = newest, now
            self._looked_at = now
        return self._configs

    async def _load(self) -> None:
        subjects = [self._subjects.of("q", "*"), self._subjects.of("v", ">")]
        found = await self._records.last_since(subjects, self._newest)
        configs = dict(self._configs)
        for msg in found:
            if not msg.data:
                continue
            try:
                kind, *rest = subject_of(msg)[len(self._subjects.root) :].split(".")
                if kind == "q":
                    config = _queue(msg.data)
                    configs[config.name] = config
                else:
                    queue, of_kind, level = rest
                    rank_of(level)
                    self._know(SubqueueName(dotted(queue), dotted(of_kind), level))
            except ValueError as error:
                left_out("The message", subject_of(msg), why_of(error))
        if found:
            self.changes += 1
        self._newest = max([self._newest, *map(seq_of, found)])
        self._configs = configs

    def _know(self, subqueue: SubqueueName) -> None:
        self._subqueues.setdefault(subqueue.queue, {})[subqueue] = None
        self._in_order.pop(subqueue.queue, None)

    async def config(self, queue: str) -> QueueConfig | None:
        """The queue's configuration; None if it has the default one."""
        return (await self.configs()).get(queue)

    def subqueues(self, queue: str) -> tuple[SubqueueName, ...]:
        """The sub-queues that the queue is known to have, by level in the order in which they are
        served."""
        found = self._in_order.get(queue)
        if found is None:
            known = self._subqueues.get(queue, ())
            found = tuple(sorted(known, key=lambda subqueue: rank_of(subqueue.level)))
            self._in_order[queue] = found
        return found

    async def refresh(self) -> None:
        """Read queues and sub-queues again now."""
        self.stale()
        await self.configs()

    async def use(self, subqueues: Iterable[SubqueueName]) -> bool:
        """Make queues and their sub-queues known before the first task of them is stored; True if
        one of the queues is new."""
        configs = await self.configs()
        writes: dict[str, Write] = {}
        unknown: list[SubqueueName] = []
        new = False
        for subqueue in dict.fromkeys(subqueues):
            known = self._subqueues.get(subqueue.queue)
            if known is None or subqueue not in known:
                unknown.append(subqueue)
                subject = self._subjects.known_subqueue(subqueue)
                writes[subject] = (subject, b"1", None)
            if subqueue.queue not in configs:
                subject = self._queue_subject(subqueue.queue)
                body = _encode(QueueConfig(name=subqueue.queue))
                writes[subject] = (subject, body, {GUARD: "0"})
                new = True
        if writes:
            await self._write([*writes.values()])
            if new:
                await self.refresh()
            for subqueue in unknown:
                self._know(subqueue)
            self.changes += 1
        return new

    async def take_over(self, before: "Fleet") -> None:
        """Write what was known of queues and sub-queues before the streams were made anew: a
        process that had not noticed it may have stored tasks in sub-queues that it took for
        known."""
        writes: list[Write] = [
            (self._queue_subject(queue), _encode(config), {GUARD: "0"})
            for queue, config in before._configs.items()
        ]
        writes += [
            (self._subjects.known_subqueue(subqueue), b"1", None)
            for of_queue in before._subqueues.values()
            for subqueue in of_queue
        ]
        await self._write(writes)
        self.stale()

    async def _write(self, writes: Sequence[Write]) -> list[int]:
        """Write what is known of queues, then the mark at which other processes read it."""
        seqs = await self._records.js.write(
            self._subjects.stream, [*writes, (self._mark, b"1", None)]
        )
        return seqs[: len(writes)]

    def _queue_subject(self, queue: str) -> str:
        if not is_token(dotless(queue)):
            raise Unwritable(f"no subject can hold the queue name {queue!r}")
        return self._subjects.of("q", dotless(queue))

    async def put_queue(self, config: QueueConfig, expect: QueueConfig) -> bool:
        """Replace a configuration if it is the expected one."""
        subject = self._queue_subject(config.name)
        found = await self._records.last([subject])
        body = _encode(config)
        there = _queue(found[0].data) if found else QueueConfig(name=config.name)
        if there != expect:
            return False
        guard = str(seq_of(found[0])) if found else "0"
        write: Write = (subject, body, {GUARD: guard})
        (seq,) = await self._write([write])
        if seq == UNSURE:  # the answer was lost, or another process was faster
            found = await self._records.last([subject])
            if not found or _queue(found[0].data) != config:
                return False
        await self.refresh()
        return seq != CONFLICT

    # --- types, workers, settings ---

    async def _put(self, subject: str, body: bytes, **headers: str) -> None:
        own = {name.replace("_", "-"): value for name, value in headers.items()} or None
        await self._records.js.write(self._subjects.stream, [(subject, body, own)])

    async def types(self) -> list[TypeInfo]:
        """Every type, by name and version."""
        found = await self._records.last_since([self._subjects.of("y", "*")], self._newest_type)
        self._types.update({subject_of(msg): _type(msg.data) for msg in found})
        self._newest_type = max([self._newest_type, *map(seq_of, found)])
        return sorted(self._types.values(), key=lambda info: (info.name, info.version))

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish types."""
        writes: list[Write] = []
        for info in types:
            try:
                subject = self._subjects.of("y", hashed(f"{info.name} {info.version}"))
                writes.append((subject, _encode(info), None))
            except AT_FAULT as error:
                left_out("The type", info.name, why_of(error))
        await self._records.js.write(self._subjects.stream, writes)

    async def workers(self) -> list[WorkerInfo]:
        """Workers seen lately, by id."""
        found = await self._records.last([self._subjects.of("w", "*")])
        workers = [_worker(m.data) for m in found if m.data]
        seen = self._now() - WORKER_SEEN_MS
        return sorted((w for w in workers if w.seen_at > seen), key=lambda w: w.id)

    async def put_worker(self, info: WorkerInfo) -> None:
        """Note that the worker lives; the server deletes the note by itself."""
        body = _encode(replace(info, seen_at=self._now()))
        await self._put(self._subjects.of("w", hashed(info.id)), body, Nats_TTL="90s")

    async def remove_worker(self, worker: str) -> None:
        """Note that the worker has left."""
        await self._put(self._subjects.of("w", hashed(worker)), b"", Nats_TTL="1s")

    async def setting(self, name: str) -> bytes | None:
        """A setting."""
        found = await self._records.last([self._subjects.of("c", hashed(name))])
        return found[0].data if found else None

    async def put_setting(self, name: str, value: bytes, expect: bytes | None) -> bool:
        """Compare and set."""
        subject = self._subjects.of("c", hashed(name))
        found = await self._records.last([subject])
        there = found[0].data if found else None
        if there != expect:
            return False
        guard = str(seq_of(found[0])) if found else "0"
        (seq,) = await self._records.js.write(
            self._subjects.stream, [(subject, value, {GUARD: guard})]
        )
        return seq > CONFLICT
