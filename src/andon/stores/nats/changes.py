"""Reads the changes since a sequence, of a subject that matches nearly every message.

A page of messages carries the number of those that follow, and to count them the server visits
every stored subject. So if few messages were written since, they are requested one by one, which
costs the server no more than what it finds. How many are few depends on how many subjects are
stored.
"""

from collections.abc import Sequence

from andon.stores.nats.jetstream import seq_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache

_FEW = 1_000
"""How many sequences are requested one by one if a great deal is stored, or it is not known how
much; beyond that a page costs less."""

_STORED_TO_ONE = 1_000
"""Counting so many stored subjects costs the server about as much as answering for one message."""

_STRIDE = 16
"""One in so many is requested first. The sequence of the message in an answer shows that nothing
stands before it, so sequences whose messages were written over need no request."""


async def changes_since(
    records: RecordCache, subject: str, start: int, limit: int, *, stored: int | None = None
) -> list[Reply]:
    """Messages from a sequence on, in order; not more than `limit` of them. An empty list may also
    mean that the server is shutting down, or that a replica lags. `stored`: about how many subjects
    a page would count, if that is known."""
    await records.last([])
    end = records.upto
    if end < start:
        return []
    few = _FEW if stored is None else min(max(stored // _STORED_TO_ONE, _STRIDE), _FEW)
    if end - start >= few or limit * _STRIDE < end - start:
        page, _ = await records.page(subject, start, limit)
        return page
    look = _Search(records, subject, start, end)
    await look.ask(range(start, end + 1, _STRIDE))
    await look.ask(look.unknown())
    return look.found()[:limit]


async def read_dense(records: RecordCache, subject: str, start: int, limit: int) -> list[Reply]:
    """Messages from a sequence on, in order, as long as they stand close together; not more than
    `limit` of them. An empty list may also mean what it means above."""
    request = {"seq": start, "next_by_subj": subject}
    (first,) = await records.js.read_each(records.subjects.stream, [request])
    if first is None or first.status:
        return []
    begin = seq_of(first)
    look = _Search(records, subject, begin, begin + limit - 1)
    await look.ask(range(begin, begin + limit, _STRIDE))
    await look.ask(look.unknown())
    return look.found()[:limit]


class _Search:
    """What is known of the sequences from `start` to `end`."""

    def __init__(self, records: RecordCache, subject: str, start: int, end: int) -> None:
        self._records = records
        self._subject = subject
        self._start = start
        self._next: list[int] = [0] * (end + 1 - start)
        """Of each sequence, the position of the first message from it on; 0: not known."""
        self._nothing = end + 1  # an answer said that there is nothing from here on
        self._messages: dict[int, Reply] = {}

    async def ask(self, seqs: Sequence[int]) -> None:
        """Request the first message from each of the sequences on."""
        if not seqs:
            return
        requests = [{"seq": seq, "next_by_subj": self._subject} for seq in seqs]
        answers = await self._records.js.read_each(self._records.subjects.stream, requests)
        for seq, answer in zip(seqs, answers, strict=True):
            if answer is None or answer.status:
                self._nothing = min(self._nothing, seq)
                continue
            there = seq_of(answer)
            self._messages[there] = answer
            first = seq - self._start
            upto = min(there + 1 - self._start, len(self._next))
            self._next[first:upto] = [there] * (upto - first)

    def unknown(self) -> list[int]:
        """The sequences of which nothing is known and where a message may stand."""
        known = self._next[: self._nothing - self._start]
        return [self._start + at for at, there in enumerate(known) if not there]

    def found(self) -> list[Reply]:
        """The messages, up to the first sequence of which nothing is known: a replica that lags has
        nothing where another has a message, and a reader must not pass over that message."""
        known = self._next.index(0) if 0 in self._next else len(self._next)
        theirs = sorted(set(self._next[:known]))
        return [self._messages[seq] for seq in theirs]
