"""Claiming: read what stands first in line, write the stamp over it.

A queue without limits is read from the stream, in order, each priority a line of its own. Two
processes that read the same line are told apart by the guard of each record; who loses looks
further down the line for a while. A queue with limits is claimed from behind its gate, with the
help of the index.
"""

import asyncio
import math
import secrets
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.indexes import ReadyEntry, entry_of
from andon.model.fleet import QueueConfig
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.base import (
    EVENTS_TOPIC,
    MAX_BATCH,
    SCAN_BUDGET,
    TIMER_TOPIC,
    ClaimRequest,
    ready_topic,
    task_topic,
)
from andon.stores.codec import encode
from andon.stores.memory.row import Row
from andon.stores.nats.aside import is_broken, put_aside
from andon.stores.nats.bodies import Body, Head
from andon.stores.nats.core import Core
from andon.stores.nats.index import Bucket, Gate, Index, decode_bucket
from andon.stores.nats.names import hashed
from andon.stores.nats.timing import schedules
from andon.stores.nats.wire import CONFLICT, GUARD, Write, seq_of

if TYPE_CHECKING:
    from andon.stores.nats.heads import Heads

_AHEAD = 4
"""Times the limit that is read of a line at once."""

_FRESH_S = 0.5
"""How long what was read of a line is believed; others may have claimed it since."""

_CONTENDED_S = 1.0
"""After a claim lost to another process, claims spread over what was read for so long."""


class Line:
    """The pending tasks of one queue and priority, as far as they were read."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.next = 1
        self.read_at = 0.0

    def again(self) -> None:
        """Believe nothing that was read."""
        if self.heads:
            self.next = min(self.next, *(head.seq for head in self.heads))
            self.heads = []


class Claims:
    """Hands out pending tasks."""

    def __init__(self, core: Core, index: Index) -> None:
        self._core = core
        self._index = index
        self._lines: dict[tuple[int, str, str], Line] = {}
        self._locks: dict[int, asyncio.Lock] = {}
        self._contended = 0.0
        self._refills: dict[str, asyncio.TimerHandle] = {}

    def close(self) -> None:
        """Wake nobody any more."""
        for alarm in self._refills.values():
            alarm.cancel()
        self._refills.clear()

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Hand out what the request has room for."""
        async with self._locks.setdefault(request.partition, asyncio.Lock()):
            return await _Claim(self._core, self._index, self, request).run()

    def line(self, partition: int, queue: str, level: str) -> Line:
        """The line of a queue and priority."""
        return self._lines.setdefault((partition, queue, level), Line())

    def contended(self) -> bool:
        """Whether others claim from the same lines."""
        return time.monotonic() < self._contended

    def lost(self) -> None:
        """Another process was faster."""
        self._contended = time.monotonic() + _CONTENDED_S

    def refill(self, queue: str, seconds: float) -> None:
        """Hint when the rate limit lets the next claim through: no write will."""
        if queue in self._refills:
            return

        def refilled() -> None:
            del self._refills[queue]
            self._core.hints.hub.hint(ready_topic(queue))

        self._refills[queue] = asyncio.get_running_loop().call_later(seconds, refilled)


class _Claim:
    """One claim."""

    def __init__(self, core: Core, index: Index, claims: Claims, request: ClaimRequest) -> None:
        self._core = core
        self._index = index
        self._claims = claims
        self._request = request
        self._heads: Heads = core.heads[request.partition]
        self._room = dict(request.room)
        self._claimed: list[Task] = []
        self._named: list[str] = []  # ids under the token
        self._token_seq = 0
        self._repeat: list[Task] | None = None
        self._due = False
        self._aside: list[str] = []  # topics

    async def run(self) -> list[Task]:
        configs = await self._core.fleet.configs()
        request = self._request
        limited = any(_is_limited(configs.get(queue)) for queue in request.queues)
        if limited and await self._is_repeat():
            assert self._repeat is not None
            return self._repeat
        for again in (False, True):
            for queue in request.queues:
                config = configs.get(queue)
                if len(self._claimed) >= request.limit:
                    break
                if config is not None and config.paused:
                    continue
                if _is_limited(config):
                    assert config is not None
                    await self._limited(config)
                else:
                    await self._plain(queue)
                if self._repeat is not None:
                    return self._repeat
            if self._claimed or again:
                break
            before = [tuple(self._core.fleet.levels(queue)) for queue in request.queues]
            await self._core.fleet.refresh()
            configs = await self._core.fleet.configs()
            after = [tuple(self._core.fleet.levels(queue)) for queue in request.queues]
            if before == after:
                break
        if not self._claimed and not limited and await self._is_repeat():
            assert self._repeat is not None
            return self._repeat
        await self._hint()
        return self._claimed

    async def _hint(self) -> None:
        topics = [*self._aside, *(task_topic(task.id) for task in self._claimed)]
        if self._claimed:
            topics.append(EVENTS_TOPIC)
            ats = (at for t in self._claimed if (at := entry_of(t).timer) is not None)
            topics += self._core.timer_topic(ats)
        if self._due:
            topics.append(TIMER_TOPIC)
        if topics:
            await self._core.hint(topics)

    # --- repeats ---

    def _token_subject(self) -> str:
        return self._heads.names.of("k", hashed(self._request.token))

    async def _is_repeat(self) -> bool:
        """Whether the token was used, and some of its runs are active: then they are the answer."""
        if self._token_seq:
            return False
        found = await self._heads.last([self._token_subject()])
        if not found:
            return False
        self._token_seq = seq_of(found[0])
        self._named = found[0].data.decode().split()
        heads = await self._heads.read(self._named)
        same = [
            head.task
            for i in self._named
            if (head := heads.get(i)) is not None
            and head.task is not None
            and head.task.state is State.ACTIVE
            and head.body.token == self._request.token
        ]
        if same:
            self._repeat = same
        return bool(same)

    async def _announce(self, timers: Sequence[tuple[str, int, int]], ids: Sequence[str]) -> bool:
        """Write timers and the token's tasks before the records; False if this is a repeat."""
        names = self._heads.names
        while True:
            named = list(dict.fromkeys([*self._named, *ids]))
            body = " ".join(named).encode()
            headers = {GUARD: str(self._token_seq), "Nats-TTL": "86400s"}
            writes: list[Write] = [(self._token_subject(), body, headers)]
            writes += schedules(names, timers, self._core.clock.now())
            (seq, *_) = await self._heads.wire.write(names.stream, writes)
            if seq > CONFLICT:
                self._token_seq, self._named = seq, named
                return True
            timers = ()
            self._token_seq = 0
            if await self._is_repeat():
                if self._claimed:
                    self._repeat = None  # our own write, whose answer was lost
                    continue
                return False

    # --- queues without limits ---

    async def _plain(self, queue: str) -> None:
        for level in self._core.fleet.levels(queue):
            line = self._claims.line(self._request.partition, queue, level)
            if time.monotonic() - line.read_at > _FRESH_S:
                line.again()
            for _ in range(20):
                wanted = self._request.limit - len(self._claimed)
                if wanted <= 0:
                    return
                chosen = await self._choose(line, queue, level, wanted)
                if not chosen:
                    break
                done = False
                try:
                    done = await self._stamp(line, chosen)
                finally:
                    if not done:
                        line.heads = sorted([*chosen, *line.heads], key=_rank)
                if not done:
                    return

    async def _choose(self, line: Line, queue: str, level: str, wanted: int) -> list[Head]:
        """The first in line that there is room for; they leave what was read of the line."""
        looked = 0
        while True:
            chosen, kept, dead = self._picked(line, wanted)
            kept.sort(key=_rank)
            line.heads = kept
            if dead:
                await self._bury(dead)
            if len(chosen) >= wanted or looked >= SCAN_BUDGET or len(kept) >= SCAN_BUDGET:
                return chosen
            count = max(16, min(wanted * _AHEAD, MAX_BATCH * 2))
            if chosen:
                line.heads = [*chosen, *kept]
            page, _ = await self._heads.page(self._heads.names.line(queue, level), line.next, count)
            line.read_at = time.monotonic()
            if not page:
                line.heads = kept
                return chosen
            looked += len(page)
            found: dict[str, Head] = {}
            for msg in page:
                self._heads.keep(found, msg)
            line.next = seq_of(page[-1]) + 1
            fresh = {head.body.id for head in found.values()}
            stay = [head for head in line.heads if head.body.id not in fresh]
            line.heads = sorted([*stay, *found.values()], key=_rank)

    def _picked(self, line: Line, wanted: int) -> tuple[list[Head], list[Head], list[Head]]:
        """Of what was read of a line: what to claim, what to keep, and what is past its time."""
        chosen: list[Head] = []
        kept: list[Head] = []
        dead: list[Head] = []
        room = dict(self._room)
        now = self._core.clock.now()
        order = line.heads
        if self._claims.contended() and len(order) > wanted:
            start = secrets.randbelow(len(order))
            order = [*order[start:], *order[:start]]
        for head in order:
            task = head.task
            assert task is not None
            ready = entry_of(task).ready
            name = task.definition.name
            if task.state is State.UNKNOWN:
                dead.append(head)
            elif ready is not None:
                if ready.dead_at is not None and ready.dead_at <= now:
                    dead.append(head)
                elif len(chosen) < wanted and room.get(name, 1) > 0:
                    chosen.append(head)
                    if name in room:
                        room[name] -= 1
                else:
                    kept.append(head)
        return chosen, kept, dead

    async def _bury(self, dead: Sequence[Head]) -> None:
        """Not handed out: those past their time are made due, those unreadable set aside."""
        now = self._core.clock.now()
        wanted = [
            (head.body.id, head.body.revision, now)
            for head in dead
            if head.task is not None and head.task.state is not State.UNKNOWN
        ]
        if wanted:
            await self._core.timers[self._request.partition].set(wanted, now)
            self._due = True
        broken = [head for head in dead if is_broken(head)]
        self._aside += await put_aside(self._heads, broken, now)

    def _stamped(self, task: Task, index: int) -> Task:
        request, now = self._request, self._core.clock.now()
        stamp = Stamp(
            run=f"{hashed(request.token)[:20]}-{index}",
            fence=next_fence(task.status.fence, now),
            worker=request.worker,
            token=request.token,
            at=now,
            lease_until=now + request.lease_ms,
        )
        return stamped(task, stamp)

    def _timers(self, heads: Sequence[Head], tasks: Sequence[Task]) -> list[tuple[str, int, int]]:
        found: list[tuple[str, int, int]] = []
        for head, task in zip(heads, tasks, strict=True):
            assert head.task is not None
            ready, cell = entry_of(head.task).ready, task.cell
            assert cell is not None
            found.append(
                (task.id, task.status.revision, _first_timer(ready, task, cell.lease_until))
            )
        return found

    async def _stamp(self, line: Line, chosen: Sequence[Head]) -> bool:
        """Write the stamps; those lost to others are left. False if this claim is a repeat."""
        tasks = [
            self._stamped(head.task, len(self._named) + n)
            for n, head in enumerate(chosen)
            if head.task is not None
        ]
        if not await self._announce(self._timers(chosen, tasks), [task.id for task in tasks]):
            return False
        archives, writes, bodies = self._writes(chosen, tasks)
        seqs = await self._heads.wire.write(self._heads.names.stream, [*archives, *writes])
        seqs = seqs[len(archives) :]
        unsure: list[tuple[Head, Task]] = []
        for head, task, seq, body, write in zip(chosen, tasks, seqs, bodies, writes, strict=True):
            if seq <= CONFLICT:
                unsure.append((head, task))
            else:
                self._take(head, task, seq, body, write[0])
        if unsure:
            self._claims.lost()
            there = await self._heads.read(task.id for _, task in unsure)
            retry: list[Head] = []
            for _, task in unsure:
                now_there = there.get(task.id)
                if now_there is None or now_there.task is None:
                    continue
                if now_there.task.status.run == task.status.run:
                    self._claimed.append(now_there.task)  # ours; its answer was lost
                elif now_there.task.state is State.PENDING and now_there.is_pending:
                    retry.append(now_there)
            if retry:
                line.heads = sorted([*retry, *line.heads], key=_rank)
        return True

    def _writes(
        self, chosen: Sequence[Head], tasks: Sequence[Task]
    ) -> tuple[list[Write], list[Write], list[Body]]:
        """What must stand in front of the records (who reads the log relies on it), and they."""
        heads, token = self._heads, self._request.token
        archives: list[Write] = []
        writes: list[Write] = []
        bodies: list[Body] = []
        for head, task in zip(chosen, tasks, strict=True):
            body = heads.body(task, head, token=token)
            subject = heads.names.rest(task.id)
            archive = heads.archive(head, task.status.revision)
            if archive is not None:
                archives.append(archive)
            purge = heads.purged_by(head, subject)
            writes.append(heads.write(body, subject, guard=head.guard, purge=purge))
            bodies.append(body)
        return archives, writes, bodies

    def _take(self, head: Head, task: Task, seq: int, body: Body, subject: str) -> None:
        name = task.definition.name
        if name in self._room:
            self._room[name] -= 1
        task.ref = seq
        self._claimed.append(task)
        self._heads.remember(Head(body, subject, seq, seq))
        timer = self._heads.timer_of(head)
        if timer and head.is_pending:
            self._core.later(self._core.timers[self._request.partition].purge(timer))

    # --- queues with limits ---

    async def _limited(self, config: QueueConfig) -> None:
        for attempt in range(60):
            wanted = self._request.limit - len(self._claimed)
            if wanted <= 0:
                return
            gate = await self._index.gate(config.name)
            config = (await self._core.fleet.configs()).get(config.name, config)
            if config.paused:
                return
            await self._bury_broken()
            now = self._core.clock.now()
            bucket = _refilled(gate, config, now)
            allowed = self._allowed(config, bucket, wanted)
            rows, dead = self._index.records.ready.take(
                self._request.partition, config.name, max(allowed, 0), dict(self._room), now
            )
            if dead:
                await self._core.timers[self._request.partition].set(
                    [(row.task.id, row.task.status.revision, now) for row in dead], now
                )
                self._due = True
            if not rows:
                self._wake(config, bucket)
                return
            if await self._take_rows(config, gate, bucket, rows):
                if bucket is not None:
                    bucket.tokens -= len(rows)
                self._wake(config, bucket)
                return
            self._index.put_back(rows)
            if self._repeat is not None:
                return
            await asyncio.sleep(secrets.randbelow(10) / 1000 * min(attempt + 1, 10))

    async def _bury_broken(self) -> None:
        """Set aside what the index has met and no line shows."""
        broken = self._index.broken[self._request.partition]
        if broken:
            met = [*broken][:MAX_BATCH]
            found = await self._heads.read(met)
            await self._bury([head for head in found.values() if is_broken(head)])
            broken.difference_update(met)

    def _allowed(self, config: QueueConfig, bucket: Bucket | None, wanted: int) -> int:
        if config.max_concurrent is not None:
            active = self._index.records.ready.active[config.name]
            wanted = min(wanted, config.max_concurrent - active)
        if bucket is not None:
            wanted = min(wanted, int(bucket.tokens))
        return min(wanted, MAX_BATCH)

    def _wake(self, config: QueueConfig, bucket: Bucket | None) -> None:
        rate = config.rate_limit
        waiting = self._index.records.ready.waiting(config.name)
        if bucket is not None and rate and bucket.tokens < 1 and waiting:
            self._claims.refill(config.name, (1 - bucket.tokens) / rate)

    async def _take_rows(
        self, config: QueueConfig, gate: Gate, bucket: Bucket | None, rows: Sequence[Row]
    ) -> bool:
        """Claim behind the gate, all or nothing."""
        found = await self._heads.read(row.task.id for row in rows)
        chosen: list[Head] = []
        for row in rows:
            head = found.get(row.task.id)
            if head is None or head.task is None or head.seq != row.task.ref:
                return False
            chosen.append(head)
        tasks = [
            self._stamped(head.task, len(self._named) + n)
            for n, head in enumerate(chosen)
            if head.task is not None
        ]
        if not await self._announce(self._timers(chosen, tasks), [task.id for task in tasks]):
            return False
        archives, writes, _ = self._writes(chosen, tasks)
        after = Bucket() if bucket is None else bucket
        body = encode(Bucket(after.tokens - len(rows), after.at, after.rate))
        if not await self._index.pass_gate(
            config.name, gate, body, {self._request.partition: [*archives, *writes]}
        ):
            there = await self._heads.read(task.id for task in tasks)
            if not all(
                (head := there.get(t.id)) is not None
                and head.task is not None
                and head.task.status.run == t.status.run
                for t in tasks
            ):
                return False
        there = await self._heads.read(task.id for task in tasks)
        for task in tasks:
            head = there.get(task.id)
            if (
                head is not None
                and head.task is not None
                and head.task.status.run == task.status.run
            ):
                if task.definition.name in self._room:
                    self._room[task.definition.name] -= 1
                self._claimed.append(head.task)
        return True


def _rank(head: Head) -> tuple[int, int]:
    status = head.task.status if head.task is not None else None
    return (status.order if status else 0, head.body.place or head.seq)


def _first_timer(ready: ReadyEntry | None, task: Task, lease_until: int) -> int:
    """The first timer of a run, by the two numbers of its ready entry."""
    timer = lease_until
    if ready is not None:
        if ready.first_limit is not None:
            claimed = task.status.runs[-1].claimed_at or 0
            timer = min(timer, claimed + ready.first_limit)
        if ready.dead_at is not None:
            timer = min(timer, ready.dead_at)
    return timer


def _is_limited(config: QueueConfig | None) -> bool:
    return config is not None and (
        config.max_concurrent is not None
        or config.max_concurrent_per_key is not None
        or config.rate_limit is not None
    )


def _refilled(gate: Gate, config: QueueConfig, now: int) -> Bucket | None:
    """The bucket of a rate limit as of now."""
    if config.rate_limit is None:
        return None
    burst = max(config.rate_burst or math.ceil(config.rate_limit), 1)
    bucket = decode_bucket(gate.body)
    if bucket.rate != config.rate_limit:
        return Bucket(float(burst), now, config.rate_limit)
    tokens = min(burst, bucket.tokens + (now - bucket.at) * config.rate_limit / 1000)
    return Bucket(tokens, now, config.rate_limit)
