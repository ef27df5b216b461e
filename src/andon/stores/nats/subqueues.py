"""Keeps what a process has read of sub-queues, the pending tasks of one queue, kind and priority.

What was read is believed for a moment, as others may have claimed it since. That a sub-queue is
empty is believed until a hint says that its queue has something ready. A hint may be lost, so
before long one request asks whether anything pending was written at all, and, if so, the sub-queues
are read again, some at a time: of an empty one the server visits all that is pending in its lane.
"""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from andon.contract.limits import MAX_BATCH
from andon.contract.topics import ready_topic
from andon.lifecycle.constants import SLOW_POLL_S
from andon.stores.nats.changes import read_dense
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import seq_of
from andon.stores.nats.lane_depths import LaneDepths
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import SubqueueName, lane_of

if TYPE_CHECKING:
    from andon.stores.nats.record_cache import RecordCache

_LONG = 20_000
"""After how many messages a sub-queue is read from its beginning: a few blocks of the server's
files."""

_DEEP = 100_000
"""With so many in a sub-queue, counting them, which the server does for a page, costs it more than
answering for them one by one."""

_FRESH_S = 0.5
"""How long what was read of a sub-queue is believed."""

_EMPTY_S = 0.8 * SLOW_POLL_S
"""After how long it is checked whether a sub-queue is empty still; so the next slow poll does."""

_LOOK_S = 0.05 * SLOW_POLL_S
"""How often claims look whether there are sub-queues to check."""

_SHARE, _LONGEST_S = 0.05, 0.25
"""The share of the time that claims may spend on reading empty sub-queues again, and how long one
claim may take for that."""

_CHECKED = 8
"""How many of them are read again in one request."""

_TOGETHER = 256
"""How many sub-queues are read in one request."""

Mark = tuple[int, int]
"""What had been hinted of a queue at one moment."""

Rank = tuple[int, int]
"""A task's place in its sub-queue: its order, then the sequence of the message that took the
place."""

_BEFORE_ALL: Rank = (-1, -1)


class Subqueue:
    """One sub-queue."""

    def __init__(self, name: SubqueueName, subject: str) -> None:
        self.name = name
        self.subject = subject
        self.lane = lane_of(name)
        self.records: list[StoredRecord] = []
        self.next = 1
        self.read_at = 0.0
        self.more = 0  #: about so many stand behind what was read
        self.ended = False  #: nothing stood at `next` or behind it when it was last read
        self.upto = 0  #: the stream reached this position then, at least
        self.mark: Mark | None = None  #: of its queue, when it was last read
        self.read_to = _BEFORE_ALL  #: rank of the last that was read

    def reset(self, end: int) -> None:
        """Forget what was read; the stream reaches to `end`, at least. A sub-queue that no task has
        joined for long is read from its beginning: the server finds that in its index, while from
        elsewhere it walks through all that it has stored since."""
        if self.records:
            self.next = min(self.next, *(stored.seq for stored in self.records))
            self.records = []
        elif self.ended and end - self.next > _LONG:
            self.next = 1
        self.ended = False
        self.read_to = _BEFORE_ALL

    def put_back(self, records: Iterable[StoredRecord]) -> None:
        """Put back records that were taken out and not claimed."""
        self.records = sorted([*records, *self.records], key=rank)


class Subqueues:
    """The sub-queues of one partition that this process reads."""

    def __init__(self, context: StoreContext, partition: int) -> None:
        self._context = context
        self._records: RecordCache = context.records[partition]
        self._depths = LaneDepths(context, partition)
        self._subqueues: dict[SubqueueName, Subqueue] = {}
        self._first: dict[SubqueueName, int] = {}
        self._quiet: dict[str, dict[str, Mark]] = {}
        self._quiet_since = 0.0
        self._checked_at = self._recheck_at = 0.0

    def __len__(self) -> int:
        return sum(len(subqueue.records) for subqueue in self._subqueues.values())

    def subqueue(self, name: SubqueueName) -> Subqueue:
        """The sub-queue of this name."""
        subqueue = self._subqueues.get(name)
        if subqueue is None:
            subqueue = self._subqueues[name] = Subqueue(name, self._records.subjects.subqueue(name))
        return subqueue

    # --- what is known to be empty ---

    def is_empty(self, subqueue: Subqueue) -> bool:
        """Whether it is known to be empty without asking the server."""
        return (
            subqueue.ended
            and not subqueue.records
            and subqueue.mark is not None
            and subqueue.mark == self._mark(subqueue.name.queue)
        )

    def quiet(self, digest: str, now: float) -> dict[str, Mark]:
        """The queues that have nothing for workers with this code, each with the mark as of which
        that was found. Forgotten before long."""
        if now - self._quiet_since > _EMPTY_S:
            self._quiet.clear()
            self._quiet_since = now
        return self._quiet.setdefault(digest, {})

    def is_quiet(self, quiet: dict[str, Mark], queue: str) -> bool:
        """Whether the queue is one of those, and nothing was hinted since."""
        mark = quiet.get(queue)
        return mark is not None and mark == self._mark(queue)

    def set_quiet(self, quiet: dict[str, Mark], queue: str) -> None:
        """Note that all sub-queues of the queue for that code are known to be empty."""
        mark = self._mark(queue)
        if mark is not None:
            quiet[queue] = mark

    def _mark(self, queue: str) -> Mark | None:
        """None while this process gets no hints of what becomes ready."""
        return self._context.hints.heard(ready_topic(queue))

    async def recheck_empty(self, now: float) -> None:
        """Check what has been believed to be empty for long; `now` in monotonic seconds. All of it
        at once if nothing pending was written since, else as much as there is time for, the longest
        unchecked first."""
        if now < self._recheck_at:
            return
        passed, self._checked_at = now - self._checked_at, now
        self._recheck_at = now + _LOOK_S
        doubted = [
            subqueue
            for subqueue in self._subqueues.values()
            if subqueue.ended and not subqueue.records and now - subqueue.read_at >= _EMPTY_S
        ]
        if not doubted or (len(doubted) > 1 and await self._are_unwritten(doubted, now)):
            return
        doubted.sort(key=lambda subqueue: subqueue.read_at)
        until = now + min(_SHARE * passed, _LONGEST_S)
        for start in range(0, len(doubted), _CHECKED):
            if start and time.monotonic() > until:
                break
            await self._check(doubted[start : start + _CHECKED])
        self._recheck_at = now + max(_LOOK_S, (time.monotonic() - now) / _SHARE)

    async def _check(self, doubted: Sequence[Subqueue]) -> None:
        """Read these again."""
        end = self._end()
        for subqueue in doubted:
            subqueue.reset(end)
        await self.peek(doubted)
        if any(subqueue.records for subqueue in doubted):
            self._quiet.clear()

    async def _are_unwritten(self, doubted: Sequence[Subqueue], now: float) -> bool:
        """Whether nothing pending was written since these were read; then they are empty still."""
        after = min(subqueue.upto for subqueue in doubted)
        upto = self._end()
        request = {"seq": after + 1, "next_by_subj": self._records.subjects.any_pending()}
        (answer,) = await self._records.js.read_each(self._records.subjects.stream, [request])
        if answer is None or answer.status != _NOTHING:
            return False
        for subqueue in doubted:
            subqueue.read_at, subqueue.upto = now, max(subqueue.upto, upto)
        return True

    def _end(self) -> int:
        records = self._records
        return max(records.upto, records.js.acked.get(records.subjects.stream, 0))

    # --- reading ---

    def forget_stale(self, subqueue: Subqueue) -> None:
        """Forget what was read of it too long ago, or before its queue was hinted."""
        if time.monotonic() - subqueue.read_at > _FRESH_S:
            subqueue.reset(self._end())
        elif subqueue.mark is None or subqueue.mark != self._mark(subqueue.name.queue):
            subqueue.ended = False

    async def peek(self, subqueues: Sequence[Subqueue]) -> None:
        """Read the next records of each sub-queue, all at once."""
        for start in range(0, len(subqueues), _TOGETHER):
            chunk = subqueues[start : start + _TOGETHER]
            marks = [self._mark(subqueue.name.queue) for subqueue in chunk]
            end = self._end()
            requests = [
                {"seq": subqueue.next, "next_by_subj": subqueue.subject} for subqueue in chunk
            ]
            answers = await self._records.js.read_each(self._records.subjects.stream, requests)
            for subqueue, mark, answer in zip(chunk, marks, answers, strict=True):
                if answer is None or answer.status not in ("", _NOTHING):
                    # By a request that is repeated, and that raises if there is no answer.
                    page, subqueue.more = await self._records.page(
                        subqueue.subject, subqueue.next, 1
                    )
                    self._took(subqueue, page, mark, end)
                else:
                    self._took(subqueue, [] if answer.status else [answer], mark, end)

    async def oldest(self, names: Iterable[SubqueueName]) -> list[Subqueue]:
        """The sub-queues that hold something, with the first of each; what claims believe of them
        does not change.

        Each is looked for from the position of the first the last time, as none is ever written
        before that: to find the very first, the server would visit every task of the sub-queue.
        """
        looked = [Subqueue(name, self._records.subjects.subqueue(name)) for name in names]
        for subqueue in looked:
            subqueue.next = self._first.get(subqueue.name, 1)
        await self.peek(looked)
        found = [subqueue for subqueue in looked if subqueue.records]
        self._first.update((subqueue.name, subqueue.records[0].seq) for subqueue in found)
        return found

    async def read_more(self, subqueue: Subqueue, wanted: int, count: int) -> int:
        """Read what stands at the sub-queue's `next` and behind it: as many as are wanted, or
        `count` where a page costs less than those one by one. Returns how many were read."""
        if subqueue.more <= _DEEP and self._depths.are_read_singly(subqueue.lane, wanted):
            return await self._read_singly(subqueue, wanted)
        mark, end = self._mark(subqueue.name.queue), self._end()
        page = await self._page(subqueue, min(count, MAX_BATCH * 2))
        self._took(subqueue, page, mark, end)
        subqueue.ended = subqueue.ended or subqueue.more == 0
        return len(page)

    async def _read_singly(self, subqueue: Subqueue, wanted: int) -> int:
        for read in range(wanted):
            await self.peek([subqueue])
            if subqueue.ended:
                return read
        return wanted

    async def _page(self, subqueue: Subqueue, count: int) -> list[Reply]:
        if subqueue.more > _DEEP:
            found = await read_dense(self._records, subqueue.subject, subqueue.next, count)
            # If there are gaps between them, or other processes claim, too, the rest must be
            # counted again.
            if found:
                subqueue.more = subqueue.more - len(found) if len(found) * 2 > count else 1
                return found
        page, subqueue.more = await self._records.page(subqueue.subject, subqueue.next, count)
        return page

    def _took(self, subqueue: Subqueue, page: Sequence[Reply], mark: Mark | None, end: int) -> None:
        subqueue.read_at, subqueue.mark, subqueue.upto = time.monotonic(), mark, end
        subqueue.ended = not page
        if not page:
            return
        found: dict[str, StoredRecord] = {}
        self._records.advance_clock(page)
        for msg in page:
            self._records.add_message(found, msg)
        subqueue.next = seq_of(page[-1]) + 1
        stay = [stored for stored in subqueue.records if stored.body.id not in found]
        subqueue.records = sorted([*stay, *found.values()], key=rank)
        subqueue.read_to = max(subqueue.read_to, rank(subqueue.records[-1]))


_NOTHING = "404"


def rank(stored: StoredRecord) -> Rank:
    """The key by which sub-queues, and those that are served together, are sorted."""
    status = stored.task.status if stored.task is not None else None
    return (status.order if status else 0, stored.body.place or stored.seq)
