"""Claims from the sub-queues of one queue and priority: the oldest tasks of all of them.

Each sub-queue holds one kind of task. To know which tasks are the oldest, each sub-queue is read up
to the last task that is claimed, and no further than needed.
"""

import asyncio
import heapq
import math
import secrets
from collections.abc import Iterable, Sequence
from itertools import repeat

from andon.contract.isolation import left_out
from andon.contract.limits import SCAN_BUDGET
from andon.lifecycle.routing import name_of_kind
from andon.lifecycle.timers import next_timer
from andon.model.task import Task
from andon.model.words import State
from andon.stores.nats.claim_attempt import ClaimAttempt
from andon.stores.nats.contention import Contention
from andon.stores.nats.jetstream import CONFLICT, REFUSED
from andon.stores.nats.record_codec import RecordBody, StoredRecord
from andon.stores.nats.subqueues import Rank, Subqueue, Subqueues, rank

_AHEAD = 4
"""How many times the limit is read of a sub-queue at once."""

_FEW = 4
"""Up to so many sub-queues are read by pages from the start; of more, first one message each."""

_PER_LINE = 8
"""If a claim wants more than this of each sub-queue on the average, sub-queues are read by
pages."""

_SINGLY = 3
"""After so many rounds of only what is wanted, more is read of the sub-queues of which more is
needed."""

Chosen = list[tuple[Subqueue, StoredRecord]]


class LevelClaim:
    """One claim from the sub-queues of one level."""

    def __init__(
        self,
        contention: Contention,
        known: Subqueues,
        claim: ClaimAttempt,
        subqueues: Sequence[Subqueue],
    ) -> None:
        self._contention = contention
        self._known = known
        self._claim = claim
        self._records = claim.records
        self._subqueues = subqueues

    async def run(self) -> bool:
        """Claim as many as there is room for; False if this claim is a repeat."""
        for subqueue in self._subqueues:
            self._known.forget_stale(subqueue)
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
                    _put_back(chosen)
            if not done:
                return False
        return True

    async def _choose(self, wanted: int) -> Chosen:
        """The oldest for which there is room; they are taken out of what was read."""
        looked = rounds = 0
        while True:
            chosen, dead, short = self._picked(wanted)
            if dead:
                _take_out(dead)
                await self._claim.reject([stored for _, stored in dead])
            if not short or looked >= SCAN_BUDGET:
                _take_out(chosen)
                return chosen
            rounds += 1
            looked += await self._read_more(short, wanted, rounds)

    async def _read_more(self, subqueues: Sequence[Subqueue], wanted: int, rounds: int) -> int:
        """Read more of each of the sub-queues, all at once. Returns how many messages were read."""
        count = max(16, wanted * _AHEAD // len(self._subqueues))
        few = math.ceil(wanted / len(self._subqueues))
        if rounds > _SINGLY or self._contention.is_noted():
            few = count
        if len(subqueues) == 1:
            return await self._known.read_more(subqueues[0], few, count)
        if (
            len(self._subqueues) > _FEW
            and wanted <= _PER_LINE * len(self._subqueues)
            and rounds <= _SINGLY
        ):
            await self._known.peek(subqueues)
            return len(subqueues)
        reading = (self._known.read_more(subqueue, few, count) for subqueue in subqueues)
        found = await asyncio.gather(*reading, return_exceptions=True)
        for read in found:
            if isinstance(read, BaseException):
                raise read
        return sum(read for read in found if isinstance(read, int))

    def _picked(self, wanted: int) -> tuple[Chosen, Chosen, list[Subqueue]]:
        """Of what was read: what to claim, what is past its time, and the sub-queues that must be
        read on before it is certain that nothing else comes first."""
        chosen: Chosen = []
        dead: Chosen = []
        room = dict(self._claim.room)
        now = self._claim.context.clock.now()
        last: Rank | None = None  # of the last task that is wanted, if there are so many
        for subqueue, stored in self._in_order(wanted):
            task = stored.task
            assert task is not None
            name = task.definition.name
            dead_at = next_timer(task) if task.state is State.PENDING else None
            if task.state is State.UNKNOWN or (dead_at is not None and dead_at <= now):
                dead.append((subqueue, stored))
            elif room.get(name, 1) > 0:
                chosen.append((subqueue, stored))
                if name in room:
                    room[name] -= 1
                if len(chosen) >= wanted:
                    last = rank(stored)
                    break
        if last is not None and (len(self._subqueues) == 1 or self._contention.is_noted()):
            return chosen, dead, []
        short = [
            subqueue
            for subqueue in self._subqueues
            if not subqueue.ended
            and len(subqueue.records) < SCAN_BUDGET
            and (
                room.get(name_of_kind(subqueue.name.kind), 1) > 0
                if last is None
                else subqueue.read_to < last
            )
        ]
        return chosen, dead, short

    def _in_order(self, wanted: int) -> Iterable[tuple[Subqueue, StoredRecord]]:
        each = [
            zip(repeat(subqueue), subqueue.records, strict=False) for subqueue in self._subqueues
        ]
        order = each[0] if len(each) == 1 else heapq.merge(*each, key=_rank)
        if (
            not self._contention.is_noted()
            or sum(len(subqueue.records) for subqueue in self._subqueues) <= wanted
        ):
            return order
        spread = list(order)
        start = secrets.randbelow(len(spread))
        return [*spread[start:], *spread[:start]]

    async def _stamp(self, chosen: Chosen) -> bool:
        """Write the stamps; tasks that other claims took are left out. False if this claim is a
        repeat."""
        claim = self._claim
        records = [stored for _, stored in chosen]
        tasks = claim.stamped_records(records, claim.context.clock.now())
        if not await claim.write_token(claim.timers_of(tasks), [task.id for task in tasks]):
            return False
        writes, bodies = await claim.writes(records, tasks)
        seqs = await self._records.js.write(self._records.subjects.stream, writes, each=True)
        unsure: list[tuple[Subqueue, StoredRecord, Task]] = []
        for (subqueue, stored), task, seq, body, write in zip(
            chosen, tasks, seqs, bodies, writes, strict=True
        ):
            if seq == REFUSED:
                left_out("A claim", task.id, "the server refuses to store what comes after it")
            elif seq <= CONFLICT:
                unsure.append((subqueue, stored, task))
                if seq == CONFLICT:
                    claim.timers.shared.written(task.id, task.status.revision, "")
            else:
                self._take(stored, task, seq, body, write[0])
        if unsure:
            await self._lost(unsure)
        return True

    async def _lost(self, unsure: Sequence[tuple[Subqueue, StoredRecord, Task]]) -> None:
        """Read the records again: other claims were faster, or an answer was lost."""
        there = await self._records.read(task.id for _, _, task in unsure)
        for subqueue, _, task in unsure:
            now_there = there.get(task.id)
            if now_there is None or now_there.task is None:
                self._contention.note()
                continue
            if now_there.task.status.run == task.status.run:
                self._claim.add(now_there.task)  # ours; its answer was lost
                continue
            self._contention.note()
            subject = self._records.subjects.pending(task.id, subqueue.name)
            if now_there.task.state is State.PENDING and now_there.subject == subject:
                subqueue.put_back([now_there])

    def _take(
        self, stored: StoredRecord, task: Task, seq: int, body: RecordBody, subject: str
    ) -> None:
        task.ref = seq
        self._records.notes.note_write(seq)
        self._claim.add(task)
        self._records.remember(StoredRecord(body, subject, seq, seq))
        timer = self._records.timer_of(stored)
        if timer and stored.is_pending:
            self._claim.context.in_background(self._records.purge(timer))


def _rank(pair: tuple[Subqueue, StoredRecord]) -> Rank:
    return rank(pair[1])


def _take_out(chosen: Chosen) -> None:
    gone = {id(stored) for _, stored in chosen}
    for subqueue in {id(subqueue): subqueue for subqueue, _ in chosen}.values():
        subqueue.records = [stored for stored in subqueue.records if id(stored) not in gone]


def _put_back(chosen: Chosen) -> None:
    for subqueue in {id(subqueue): subqueue for subqueue, _ in chosen}.values():
        subqueue.put_back(stored for of, stored in chosen if of is subqueue)
