"""Claiming: read what stands first in line, write the stamp over it.

A queue without limits is read from the stream, in order, each priority a line of its own. Two
processes that read the same line are told apart by the guard of each record; who loses looks
further down the line for a while. Queues with limits are claimed from by `limiting`.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence

from andon.lifecycle.timers import next_timer
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import MAX_BATCH, SCAN_BUDGET, ClaimRequest, ready_topic
from andon.stores.nats.bodies import Body, Head
from andon.stores.nats.core import Core
from andon.stores.nats.index import Index
from andon.stores.nats.library import Reply
from andon.stores.nats.limiting import claim_limited, is_limited
from andon.stores.nats.news import close_together
from andon.stores.nats.stamping import Stamping
from andon.stores.nats.wire import CONFLICT, seq_of

_AHEAD = 4
"""Times the limit that is read of a line at once."""

_LONG = 20_000
"""So many messages later a line is read from its beginning: a few blocks of the server's files."""

_DEEP = 100_000
"""With so many in a line it costs the server more to count them, as it does for a page, than to
be asked for them one by one."""

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
        self.more = 0  #: about so many stand behind what was read
        self.ended = False  #: nothing stood at `next` or behind it when it was last read

    def again(self, end: int) -> None:
        """Believe nothing that was read; the stream reaches to `end`, at least. A line that nobody
        has joined for long is read from its beginning: the server finds that in its index, while
        from elsewhere it walks through all that it has stored since."""
        if self.heads:
            self.next = min(self.next, *(head.seq for head in self.heads))
            self.heads = []
        elif self.ended and end - self.next > _LONG:
            self.next = 1


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
            return await self._claim(Stamping(self._core, request))

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

    async def _claim(self, claim: Stamping) -> list[Task]:
        configs = await self._core.fleet.configs()
        request = claim.request
        limited = any(is_limited(configs.get(queue)) for queue in request.queues)
        if limited and await claim.is_repeat():
            assert claim.repeat is not None
            return claim.repeat
        for again in (False, True):
            for queue in request.queues:
                config = configs.get(queue)
                if claim.wanted <= 0:
                    break
                if config is not None and config.paused:
                    continue
                if is_limited(config):
                    assert config is not None
                    await claim_limited(claim, self._index, config, self.refill)
                else:
                    await self._plain(claim, queue)
                if claim.repeat is not None:
                    return claim.repeat
            if claim.claimed or again:
                break
            before = [tuple(self._core.fleet.levels(queue)) for queue in request.queues]
            await self._core.fleet.refresh()
            configs = await self._core.fleet.configs()
            after = [tuple(self._core.fleet.levels(queue)) for queue in request.queues]
            if before == after:
                break
        if not claim.claimed and not limited and await claim.is_repeat():
            assert claim.repeat is not None
            return claim.repeat
        await claim.hint()
        return claim.claimed

    async def _plain(self, claim: Stamping, queue: str) -> None:
        for level in self._core.fleet.levels(queue):
            if not await _Turn(self, claim, queue, level).run():
                return


class _Turn:
    """One claim's turn at one line."""

    def __init__(self, claims: Claims, claim: Stamping, queue: str, level: str) -> None:
        self._claims = claims
        self._claim = claim
        self._heads = claim.heads
        self._line = claims.line(claim.request.partition, queue, level)
        self._subject = self._heads.names.line(queue, level)

    async def run(self) -> bool:
        """Claim what there is room for; False if this claim is a repeat."""
        line = self._line
        if time.monotonic() - line.read_at > _FRESH_S:
            heads = self._heads
            line.again(max(heads.upto, heads.wire.acked.get(heads.names.stream, 0)))
        for _ in range(20):
            wanted = self._claim.wanted
            if wanted <= 0:
                break
            chosen = await self._choose(wanted)
            if not chosen:
                break
            done = False
            try:
                done = await self._stamp(chosen)
            finally:
                if not done:
                    line.heads = sorted([*chosen, *line.heads], key=_rank)
            if not done:
                return False
        return True

    async def _choose(self, wanted: int) -> list[Head]:
        """The first in line that there is room for; they leave what was read of the line."""
        line = self._line
        looked = 0
        while True:
            chosen, kept, dead = self._picked(wanted)
            kept.sort(key=_rank)
            line.heads = kept
            if dead:
                await self._claim.bury(dead)
            if len(chosen) >= wanted or looked >= SCAN_BUDGET or len(kept) >= SCAN_BUDGET:
                return chosen
            count = max(16, min(wanted * _AHEAD, MAX_BATCH * 2))
            if chosen:
                line.heads = [*chosen, *kept]
            page = await self._read_on(count)
            line.read_at, line.ended = time.monotonic(), not page
            if not page:
                line.heads = kept
                return chosen
            looked += len(page)
            found: dict[str, Head] = {}
            self._heads.tell(page)
            for msg in page:
                self._heads.keep(found, msg)
            line.next = seq_of(page[-1]) + 1
            fresh = {head.body.id for head in found.values()}
            stay = [head for head in line.heads if head.body.id not in fresh]
            line.heads = sorted([*stay, *found.values()], key=_rank)

    async def _read_on(self, count: int) -> list[Reply]:
        """What stands at the line's `next` and behind it."""
        line, heads = self._line, self._heads
        if line.more > _DEEP:
            found = await close_together(heads, self._subject, line.next, count)
            # With holes between them, or with others at work, it is time to count again.
            line.more = line.more - len(found) if len(found) * 2 > count else 0
            if found:
                return found
        page, line.more = await heads.page(self._subject, line.next, count)
        return page

    def _picked(self, wanted: int) -> tuple[list[Head], list[Head], list[Head]]:
        """Of what was read of a line: what to claim, what to keep, and what is past its time."""
        chosen: list[Head] = []
        kept: list[Head] = []
        dead: list[Head] = []
        room = dict(self._claim.room)
        now = self._claim.core.clock.now()
        order = self._line.heads
        if self._claims.contended() and len(order) > wanted:
            start = secrets.randbelow(len(order))
            order = [*order[start:], *order[:start]]
        for head in order:
            if len(chosen) >= wanted:
                kept.append(head)
                continue
            task = head.task
            assert task is not None
            name = task.definition.name
            if task.state is State.UNKNOWN:
                dead.append(head)
            elif task.state is State.PENDING:
                dead_at = next_timer(task)
                if dead_at is not None and dead_at <= now:
                    dead.append(head)
                elif room.get(name, 1) > 0:
                    chosen.append(head)
                    if name in room:
                        room[name] -= 1
                else:
                    kept.append(head)
        return chosen, kept, dead

    async def _stamp(self, chosen: Sequence[Head]) -> bool:
        """Write the stamps; those lost to others are left. False if this claim is a repeat."""
        claim = self._claim
        tasks = claim.stamps(chosen)
        if not await claim.announce(claim.timers_of(chosen, tasks), [task.id for task in tasks]):
            return False
        archives, writes, bodies = claim.writes(chosen, tasks)
        seqs = await self._heads.wire.write(self._heads.names.stream, [*archives, *writes])
        seqs = seqs[len(archives) :]
        unsure: list[Task] = []
        for head, task, seq, body, write in zip(chosen, tasks, seqs, bodies, writes, strict=True):
            if seq <= CONFLICT:
                unsure.append(task)
                if seq == CONFLICT:
                    claim.timers.shared.written(task.id, task.status.revision, "")
            else:
                self._take(head, task, seq, body, write[0])
        if unsure:
            await self._lost(unsure)
        return True

    async def _lost(self, unsure: Sequence[Task]) -> None:
        """Others were faster, or an answer was lost: look at what is there."""
        self._claims.lost()
        there = await self._heads.read(task.id for task in unsure)
        retry: list[Head] = []
        for task in unsure:
            now_there = there.get(task.id)
            if now_there is None or now_there.task is None:
                continue
            if now_there.task.status.run == task.status.run:
                self._claim.take(now_there.task)  # ours; its answer was lost
            elif now_there.task.state is State.PENDING and now_there.is_pending:
                retry.append(now_there)
        if retry:
            self._line.heads = sorted([*retry, *self._line.heads], key=_rank)

    def _take(self, head: Head, task: Task, seq: int, body: Body, subject: str) -> None:
        task.ref = seq
        self._claim.take(task)
        self._heads.remember(Head(body, subject, seq, seq))
        timer = self._heads.timer_of(head)
        if timer and head.is_pending:
            self._claim.core.later(self._heads.purge(timer))


def _rank(head: Head) -> tuple[int, int]:
    status = head.task.status if head.task is not None else None
    return (status.order if status else 0, head.body.place or head.seq)
