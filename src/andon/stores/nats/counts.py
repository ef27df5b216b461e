"""Counts how many dependencies of a blocked task have ended. Ends that are settled in one call are
counted by one message.

A join may wait for ten thousand tasks that end one by one, and each settlement has to know how many
were counted before. Reading them each time would be quadratic. So what is known of a join of many
is remembered, and two checks compare it with the store:

- Each count is guarded by the join's record. If that has moved since it was read, the write is
  refused and all of it is read anew. So nothing is counted for a task that waits no longer.
- Other processes count, too. After its own writes a process reads what lies between them and the
  position it knew of. The process that writes last finds what the others wrote before, so it sees
  that the join is complete; no process has to read beyond its own writes.

A message that names several dependencies stands where an older release does not read: such a
process counts too few, until the blocked task asks after its dependencies itself.
"""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from andon.contract.edges import Settlement
from andon.contract.isolation import left_out, why_of
from andon.lifecycle.parents import spare, to_satisfy
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.nats.jetstream import GUARD, GUARDED, Write, seq_of, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import StoredRecord

GONE = {"Nats-TTL": "1s"}
"""Headers of an empty message that takes the place of one that is to be removed."""

_SATISFIES, _FAILS = b"1", b"0"
"""What a message says of the one dependency that its subject names. Any other names several that
satisfy the child."""

_decode = msgspec.msgpack.Decoder(tuple[str, ...]).decode

_MANY = 20
"""From how many dependencies of a task on its counts are remembered."""

_MOST_NAMES = 30_000
"""How many dependencies are remembered in all; the counts of forgotten joins are read again."""

_MOST_OVER = 1_000
_OVER_S = 2.0
"""How many children are known to wait no longer, and for how long each. Another process may make
one wait anew meanwhile: so a caller that gets the answer that a child is unblocked, or can never
run, reads the child."""

_PAGE = 1_000

_FEW = 100
"""Up to how many counts of one task are removed message by message. A purge costs the server more
than a few of these, and blocks it meanwhile."""

LATER_S = 0.5
"""After how long more than these are purged: by then the task that waits no longer has been
claimed, mostly."""


def is_blocked(stored: StoredRecord) -> bool:
    """Whether a task is blocked, so that its dependencies are counted."""
    return stored.task is not None and stored.task.state is State.BLOCKED


class Counted:
    """The dependencies of a blocked child that have ended: those that satisfy it, and those that
    fail it, which are counted only if it can do without some."""

    def __init__(self, stored: StoredRecord) -> None:
        task = stored.task
        assert task is not None
        definition = task.definition
        self.satisfied: set[str] = set()
        self.failing: set[str] = set()
        self.upto = 0  #: the counts up to this position of the stream are known
        self.guard = stored.guard
        self._names = frozenset(definition.dependencies)
        self._to_satisfy = to_satisfy(definition)
        self._spare = spare(definition)

    @property
    def size(self) -> int:
        """How many dependencies the child has."""
        return len(self._names)

    @property
    def counted(self) -> int:
        """How many of them are counted, as far as this process knows."""
        return len(self.satisfied) + len(self.failing)

    def needs_all_of_many(self, parent: str) -> bool:
        """Whether it needs all of many, and a task is one of those that are counted."""
        return self._spare is None and self.is_of_many and parent in self._names

    @property
    def is_of_many(self) -> bool:
        """Whether reading all its counts again and again would cost much."""
        return len(self._names) > _MANY

    def take(self, msg: Reply) -> None:
        """Add a message that was read."""
        if not msg.data:
            return
        parents = _counted_by(msg)
        if msg.data == _FAILS:
            self.failing.update(parent for parent in parents if parent not in self.satisfied)
        else:
            self.satisfied.update(parent for parent in parents if parent in self._names)
            self.failing.difference_update(parents)

    def add(self, s: Settlement) -> bool:
        """Count one. Returns whether that is to be written."""
        if s.parent not in self._names or s.parent in self.satisfied:
            return False
        if s.satisfied:
            self.satisfied.add(s.parent)
            self.failing.discard(s.parent)
            return True
        if self._spare is None or s.parent in self.failing:
            return False
        self.failing.add(s.parent)
        return True

    def has(self, parent: str) -> bool:
        """Whether a dependency is counted."""
        return parent in self.satisfied or parent in self.failing

    def counts_failures(self) -> bool:
        """Whether dependencies that fail the child are counted, too."""
        return self._spare is not None

    def left(self, *, satisfied: bool) -> int:
        """The outcome of a settlement for the child."""
        if satisfied:
            return self._to_satisfy - len(self.satisfied)
        return -1 if self._spare is None else self._spare - len(self.failing)

    def is_unsure(self, *, satisfied: bool) -> bool:
        """Whether a count of another process at the same time could decide it."""
        left = self.left(satisfied=satisfied)
        return left > 0 if satisfied else left >= 0


class Counts:
    """The counts of one partition."""

    def __init__(self, records: RecordCache) -> None:
        self._records = records
        self._known: dict[str, Counted] = {}
        self._names = 0
        self._over: OrderedDict[str, float] = OrderedDict()
        self.turn = asyncio.Lock()
        """Held while counting for a child of which something is remembered."""

    # --- what is remembered ---

    def known(self, child: str) -> Counted | None:
        """What is remembered of a child; a guarded write shows whether it still holds."""
        return self._known.get(child)

    def keep(self, child: str, counted: Counted) -> None:
        """Remember what is known of a join of many."""
        self.drop(child)
        if not counted.is_of_many:
            return
        self._known[child] = counted
        self._names += counted.size
        while self._names > _MOST_NAMES and len(self._known) > 1:
            self.drop(next(iter(self._known)))

    def drop(self, child: str) -> None:
        """Forget what is remembered of a child."""
        known = self._known.pop(child, None)
        if known is not None:
            self._names -= known.size

    def note_over(self, children: Iterable[str]) -> None:
        """Note children that were found to wait no longer."""
        now = time.monotonic()
        for child in children:
            self._over.pop(child, None)
            self._over[child] = now
        while len(self._over) > _MOST_OVER:
            self._over.popitem(last=False)

    def waits_again(self, child: str) -> None:
        """Note that a child is linked, so it may wait."""
        self._over.pop(child, None)

    def is_over(self, child: str) -> bool:
        """Whether a child was found a moment ago to wait no longer: ten thousand parents may notify
        one child whose record names them all."""
        return time.monotonic() - self._over.get(child, -_OVER_S) < _OVER_S

    # --- reading ---

    async def read(self, children: Mapping[str, StoredRecord]) -> dict[str, Counted]:
        """The counts of those of the tasks that are blocked."""
        found = {c: Counted(stored) for c, stored in children.items() if is_blocked(stored)}
        await self._fill(found)
        return found

    async def _fill(self, counted: Mapping[str, Counted]) -> None:
        if not counted:
            return
        subjects = self._records.subjects
        messages, upto = await self._records.last_as_of([subjects.of("f", c, ">") for c in counted])
        for msg in messages:
            if (one := counted.get(_child_of(msg))) is not None:
                one.take(msg)
        for one in counted.values():
            one.upto = upto

    async def look(self, written: Mapping[str, tuple[Counted, int]], own: Sequence[int]) -> None:
        """Read what other processes have counted of children up to this process's newest count of
        each. `own` are the sequences that this process has just written, in order."""
        many = {child: pair for child, pair in written.items() if pair[0].is_of_many}
        await self._fill({child: one for child, (one, _) in written.items() if child not in many})
        asked: list[tuple[str, int, int]] = []
        for child, (one, newest) in many.items():
            asked += [(child, *gap) for gap in _gaps(one.upto + 1, newest, own)]
        subjects = self._records.subjects
        requests = [{"seq": at, "next_by_subj": subjects.of("f", c, ">")} for c, at, _ in asked]
        answers = await self._records.js.read_each(subjects.stream, requests) if asked else []
        others: dict[str, int] = {}
        unclear: set[str] = set()
        for (child, begin, end), answer in zip(asked, answers, strict=True):
            if answer is None or answer.status:
                unclear.add(child)  # a replica that lags, or a server that is shutting down
            elif seq_of(answer) < end:
                others.setdefault(child, begin)
        for child, (one, newest) in many.items():
            if child in others and child not in unclear:
                await self._read_on(child, one, others[child], newest)
            one.upto = max(one.upto, newest)
        await self._fill({child: many[child][0] for child in unclear})

    async def _read_on(self, child: str, counted: Counted, start: int, newest: int) -> None:
        """Add what was counted from a position on."""
        subject = self._records.subjects.of("f", child, ">")
        while start <= newest:
            page = await self._records.confirmed_page(subject, start, _PAGE)
            for msg in page:
                counted.take(msg)
            if not page:
                return
            start = seq_of(page[-1]) + 1

    # --- writing ---

    def writes(self, child: str, counted: Counted, settled: Sequence[Settlement]) -> list[Write]:
        """The messages that count settlements of a child, refused if its record has moved since it
        was read."""
        of = self._records.subjects.of
        guard = {GUARD: str(counted.guard), GUARDED: self._records.subjects.task(child)}
        satisfied = list(dict.fromkeys(s.parent for s in settled if s.satisfied))
        failing = dict.fromkeys(s.parent for s in settled if not s.satisfied)
        writes: list[Write] = [
            (of("f", child, parent), _FAILS, guard)
            for parent in failing
            if parent not in counted.satisfied
        ]
        if len(satisfied) == 1:
            writes.append((of("f", child, satisfied[0]), _SATISFIES, guard))
        elif satisfied:
            # A name of its own: a message that names others must not be written over.
            subject = of("f", child, "g", secrets.token_hex(8))
            writes.append((subject, encode(satisfied), guard))
        return writes

    async def forget(self, freed: Mapping[str, int]) -> None:
        """Remove the counts of tasks that wait no longer, each since its record was written at a
        sequence."""
        known = {child: self._known[child] for child in freed if child in self._known}
        for child in known:
            self.drop(child)
        records, subjects = self._records, self._records.subjects
        many = [child for child, one in known.items() if one.counted > _FEW]
        rest = [child for child in freed if child not in many]
        found: dict[str, list[Reply]] = {}
        asked = [subjects.of("f", child, ">") for child in rest]
        for msg in await records.last(asked) if rest else ():
            if msg.data and (child := _child_of(msg)) in freed:
                found.setdefault(child, []).append(msg)
        many += [child for child, messages in found.items() if len(messages) > _FEW]
        writes = [tombstone(msg) for c in found if c not in many for msg in found[c]]
        await records.js.write(subjects.stream, writes)
        if many:
            await asyncio.sleep(LATER_S)
        for child in many:
            await records.purge(subjects.of("f", child, ">"), before=freed[child])


def _child_of(msg: Reply) -> str:
    """The child whose dependencies a message counts."""
    *_, two_before, before, _ = subject_of(msg).split(".")
    return before if msg.data in (_SATISFIES, _FAILS) else two_before


def _counted_by(msg: Reply) -> tuple[str, ...]:
    """The dependencies that a message counts; none if Andon did not write it."""
    if msg.data in (_SATISFIES, _FAILS):
        return (subject_of(msg).rsplit(".", 1)[1],)
    try:
        return _decode(msg.data)
    except msgspec.DecodeError as error:
        left_out("A count of dependencies", subject_of(msg), why_of(error))
        return ()


def tombstone(msg: Reply) -> Write:
    """The write that removes a message, unless it was written over meanwhile."""
    return subject_of(msg), b"", {**GONE, GUARD: str(seq_of(msg))}


def _gaps(start: int, newest: int, own: Iterable[int]) -> list[tuple[int, int]]:
    """The gaps between own sequences up to the newest: where each begins, and the own sequence that
    ends it."""
    gaps: list[tuple[int, int]] = []
    for seq in own:
        if seq > newest:
            break
        if seq > start:
            gaps.append((start, seq))
        start = max(start, seq + 1)
    return gaps
