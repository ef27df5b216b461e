"""Serving the lines of one queue and level: what stands first in all of them is claimed.

Each line is one kind of task. To know which tasks come first in all of them, each line is read up
to the last that is claimed, and not further than it must be.
"""

import asyncio
import heapq
import secrets
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from andon.contract.isolation import left_out
from andon.contract.limits import SCAN_BUDGET
from andon.lifecycle.routing import name_of_kind
from andon.lifecycle.timers import next_timer
from andon.model.task import Task
from andon.model.words import State
from andon.stores.nats.bodies import Body, Head
from andon.stores.nats.lines import Line, Rank, rank
from andon.stores.nats.stamping import Stamping
from andon.stores.nats.wire import CONFLICT, REFUSED

if TYPE_CHECKING:
    from andon.stores.nats.claiming import Claims

_AHEAD = 4
"""Times the limit that is read of a line at once."""

_FEW = 4
"""So few lines are read by pages from the start; of more, first one message each."""

_PER_LINE = 8
"""Where a claim wants more than this of each line on the average, lines are read by pages."""

_SINGLY = 3
"""After so many rounds of single messages those lines that are still short are read by pages."""

Chosen = list[tuple[Line, Head]]


class Serving:
    """One claim's turn at the lines of one level."""

    def __init__(self, claims: "Claims", claim: Stamping, lines: Sequence[Line]) -> None:
        self._claims = claims
        self._claim = claim
        self._heads = claim.heads
        self._lines = lines
        self._known = claims.lines[claim.request.partition]

    async def run(self) -> bool:
        """Claim what there is room for; False if this claim is a repeat."""
        for line in self._lines:
            self._known.freshen(line)
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
        """The first in line that there is room for; they leave what was read of the lines."""
        looked = rounds = 0
        while True:
            chosen, dead, short = self._picked(wanted)
            if dead:
                _take_out(dead)
                await self._claim.bury([head for _, head in dead])
            if not short or looked >= SCAN_BUDGET:
                _take_out(chosen)
                return chosen
            rounds += 1
            looked += await self._read_on(short, wanted, rounds)

    async def _read_on(self, lines: Sequence[Line], wanted: int, rounds: int) -> int:
        """Read more of each of the lines, all at once; how many messages were read."""
        count = max(16, wanted * _AHEAD // len(self._lines))
        if len(lines) == 1:
            return await self._known.read_on(lines[0], count)
        if len(self._lines) > _FEW and wanted <= _PER_LINE * len(self._lines) and rounds <= _SINGLY:
            await self._known.look(lines)
            return len(lines)
        reading = (self._known.read_on(line, count) for line in lines)
        found = await asyncio.gather(*reading, return_exceptions=True)
        for read in found:
            if isinstance(read, BaseException):
                raise read
        return sum(read for read in found if isinstance(read, int))

    def _picked(self, wanted: int) -> tuple[Chosen, Chosen, list[Line]]:
        """Of what was read: what to claim, what is past its time, and the lines that must be read
        on before it is certain that nothing else comes first."""
        chosen: Chosen = []
        dead: Chosen = []
        room = dict(self._claim.room)
        now = self._claim.core.clock.now()
        last: Rank | None = None  # of the last that is wanted, if there are so many
        for line, head in self._in_order(wanted):
            task = head.task
            assert task is not None
            name = task.definition.name
            dead_at = next_timer(task) if task.state is State.PENDING else None
            if task.state is State.UNKNOWN or (dead_at is not None and dead_at <= now):
                dead.append((line, head))
            elif room.get(name, 1) > 0:
                chosen.append((line, head))
                if name in room:
                    room[name] -= 1
                if len(chosen) >= wanted:
                    last = rank(head)
                    break
        if last is not None and (len(self._lines) == 1 or self._claims.contended()):
            return chosen, dead, []
        short = [
            line
            for line in self._lines
            if not line.ended
            and len(line.heads) < SCAN_BUDGET
            and (
                room.get(name_of_kind(line.name.kind), 1) > 0
                if last is None
                else line.read_to < last
            )
        ]
        return chosen, dead, short

    def _in_order(self, wanted: int) -> Iterable[tuple[Line, Head]]:
        each = [zip(repeat(line), line.heads, strict=False) for line in self._lines]
        order = each[0] if len(each) == 1 else heapq.merge(*each, key=_rank)
        if not self._claims.contended() or sum(len(line.heads) for line in self._lines) <= wanted:
            return order
        spread = list(order)
        start = secrets.randbelow(len(spread))
        return [*spread[start:], *spread[:start]]

    async def _stamp(self, chosen: Chosen) -> bool:
        """Write the stamps; those lost to others are left. False if this claim is a repeat."""
        claim = self._claim
        heads = [head for _, head in chosen]
        tasks = claim.stamps(heads)
        if not await claim.announce(claim.timers_of(heads, tasks), [task.id for task in tasks]):
            return False
        archives, writes, bodies = claim.writes(heads, tasks)
        stream = self._heads.names.stream
        seqs = await self._heads.wire.write(stream, [*archives, *writes], each=True)
        seqs = seqs[len(archives) :]
        unsure: list[tuple[Line, Head, Task]] = []
        for (line, head), task, seq, body, write in zip(
            chosen, tasks, seqs, bodies, writes, strict=True
        ):
            if seq == REFUSED:
                left_out("A claim", task.id, "the server refuses to store what comes after it")
            elif seq <= CONFLICT:
                unsure.append((line, head, task))
                if seq == CONFLICT:
                    claim.timers.shared.written(task.id, task.status.revision, "")
            else:
                self._take(head, task, seq, body, write[0])
        if unsure:
            await self._lost(unsure)
        return True

    async def _lost(self, unsure: Sequence[tuple[Line, Head, Task]]) -> None:
        """Others were faster, or an answer was lost: look at what is there."""
        there = await self._heads.read(task.id for _, _, task in unsure)
        for line, _, task in unsure:
            now_there = there.get(task.id)
            if now_there is None or now_there.task is None:
                self._claims.lost()
                continue
            if now_there.task.status.run == task.status.run:
                self._claim.take(now_there.task)  # ours; its answer was lost
                continue
            self._claims.lost()
            in_line = self._heads.names.pending(task.id, line.name)
            if now_there.task.state is State.PENDING and now_there.subject == in_line:
                line.put_back([now_there])

    def _take(self, head: Head, task: Task, seq: int, body: Body, subject: str) -> None:
        task.ref = seq
        self._heads.notes.wrote(seq)
        self._claim.take(task)
        self._heads.remember(Head(body, subject, seq, seq))
        timer = self._heads.timer_of(head)
        if timer and head.is_pending:
            self._claim.core.later(self._heads.purge(timer))


def _rank(pair: tuple[Line, Head]) -> Rank:
    return rank(pair[1])


def _take_out(chosen: Chosen) -> None:
    gone = {id(head) for _, head in chosen}
    for line in {id(line): line for line, _ in chosen}.values():
        line.heads = [head for head in line.heads if id(head) not in gone]


def _put_back(chosen: Chosen) -> None:
    for line in {id(line): line for line, _ in chosen}.values():
        line.put_back(head for of, head in chosen if of is line)
