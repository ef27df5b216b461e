"""Due timers: takes the entries that fired schedules leave, and hands out the tasks behind them.

An entry is a hint: only tasks whose own timer has passed are handed out. What is still needed of an
entry (a hold of what is handed out, timers of what is not due yet) is written before the entry is
written over, with a guard; so a taker that dies costs no more than a hold. If several takers read
the same entry, each writes what it needs and one takes it. They give those timers the same names,
so a revision that is named twice keeps one timer, and the number of timers does not grow whatever
an outage leaves behind.
"""

import secrets
from collections.abc import Sequence

from msgspec import DecodeError

from andon.contract.isolation import left_out, why_of
from andon.contract.outcomes import Due
from andon.lifecycle.timers import next_timer
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.kit.server_clock import ServerClock
from andon.stores.nats.jetstream import CONFLICT, GUARD, Write, seq_of, stamp_of, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.quarantine import is_unreadable, quarantine
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.server_time import ms_of
from andon.stores.nats.timers import Timer, Timers, Wanted, decode_timer, schedule, schedules

_FIRED = b"Nats-Scheduler"
"""The header of the server's own messages: the name of the schedule."""

_ENTRIES = 64
"""How many due entries are read at once, at most. An entry may name hundreds of tasks: then no more
are read than are wanted, judging by the last ones."""

_PAGES = 8
"""How many pages of them one call reads: what was taken must be done before its hold is over."""

_ON_ITS_WAY_MS = 60_000
"""How long a timer waits for the record it was written for."""

_AGAIN_MS = 500
"""How often the record is looked for meanwhile. At whole multiples, so that timers for one version
get the same time, and become one."""


async def take_due(
    timers: Timers, clock: ServerClock, *, limit: int, hold_ms: int, grace_until: int
) -> tuple[Due, list[str]]:
    """Hand out what is due, and hold it back from others. Returns also the topics to hint, of tasks
    that were quarantined."""
    await timers.sweep()
    # The schedules are read first, then what has fired: one that fires in between is seen twice
    # rather than not at all.
    ahead = await timers.next(clock.now())
    taking = _Taking(timers, limit, hold_ms, grace_until)
    seq = 1
    for _ in range(_PAGES):
        most = -(-(limit - len(taking.taken)) // timers.named_in_one)
        entries = await timers.fired(seq, min(most, _ENTRIES), clock.now())
        if not entries:
            break
        # What has fired shows the server's time, which may be ahead of the time known here.
        clock.tell(ms_of(stamp_of(entries[-1])))
        legible = await _legible(timers.records, entries)
        named = sum(len(timer.ids) for _, timer in legible)
        timers.named_in_one = max(named // max(len(legible), 1), 1)
        some = _enough(legible, limit - len(taking.taken))
        # An entry that another process wrote over meanwhile stands behind these.
        last = entries[-1] if len(some) == len(legible) else some[-1][0]
        seq = seq_of(last) + 1
        await taking.take(some, clock.now())
        if len(taking.taken) >= limit:
            break
    else:
        ahead = clock.now()  # there are more
    following = min((at for at in (ahead, taking.soonest) if at is not None), default=None)
    return Due(tuple(taking.taken), clock.now(), following), taking.topics


async def _legible(records: RecordCache, entries: Sequence[Reply]) -> list[tuple[Reply, Timer]]:
    """The entries that are timers. Messages that Andon did not write there are deleted, or they
    would be read again and again."""
    found: list[tuple[Reply, Timer]] = []
    for entry in entries:
        if not entry.data:
            continue
        try:
            found.append((entry, decode_timer(entry.data)))
        except DecodeError as error:
            left_out("A due timer", subject_of(entry), why_of(error))
            await records.delete(seq_of(entry))
    return found


def _enough(entries: Sequence[tuple[Reply, Timer]], wanted: int) -> list[tuple[Reply, Timer]]:
    """The first entries that name so many tasks: each task is read, and for those left over an
    entry is written anew."""
    found: list[tuple[Reply, Timer]] = []
    for entry, timer in entries:
        if wanted <= 0:
            break
        found.append((entry, timer))
        wanted -= len(timer.ids)
    return found


class _Entry:
    """The tasks that a due entry names."""

    def __init__(self, entry: Reply, timer: Timer) -> None:
        self.entry = entry
        self.timer = timer
        self.due: list[StoredRecord] = []
        self.later: list[Wanted] = []
        self.early: list[Wanted] = []
        self.rest: list[tuple[str, int]] = []  # due, but more than was asked for
        self.broken: list[StoredRecord] = []

    def needs(self, timers: Timers, now: int) -> list[Write]:
        """The timers that must outlive the entry: the same from every taker that sees the same."""
        origin = f"{subject_of(self.entry)}:{seq_of(self.entry)}"
        subjects, made = timers.records.subjects, self.timer.made
        return [
            *schedules(subjects, self.later, now, again=f"{origin}:later"),
            *schedules(subjects, self.early, now, made=made, again=f"{origin}:early"),
        ]

    def over(self, now: int) -> Write:
        """The write that takes the entry."""
        guard = {GUARD: str(seq_of(self.entry))}
        if not self.rest:
            return subject_of(self.entry), b"", {**guard, "Nats-TTL": "1s"}
        ids, revisions = zip(*self.rest, strict=True)
        return subject_of(self.entry), encode(Timer(now, ids, revisions, self.timer.made)), guard


class _Taking:
    """One call, page by page."""

    def __init__(self, timers: Timers, limit: int, hold_ms: int, grace_until: int) -> None:
        self._timers = timers
        self._records = timers.records
        self._limit = limit
        self._hold_ms = hold_ms
        self._grace_until = grace_until
        self._seen: set[tuple[str, int]] = set()  # versions named by this page's entries
        self._out: set[str] = set()  # handed out by this call
        self.taken: list[Task] = []
        self.topics: list[str] = []
        self.soonest: int | None = None  #: of the timers set anew

    async def take(self, entries: Sequence[tuple[Reply, Timer]], now: int) -> None:
        """Take a page of entries, as long as there is room."""
        js, stream = self._records.js, self._records.subjects.stream
        records = await self._records.read(task_id for _, timer in entries for task_id in timer.ids)
        looks: list[_Entry] = []
        # Not of the pages before: a timer that they set may have fired already.
        self._seen.clear()
        room = self._limit - len(self.taken)
        for entry, timer in entries:
            look = _Entry(entry, timer)
            self._sort(look, records, room, now)
            room -= len(look.due)
            looks.append(look)
        first = [write for look in looks for write in look.needs(self._timers, now)]
        held = [
            (h.body.id, h.body.revision, now + self._hold_ms) for look in looks for h in look.due
        ]
        hold = ""
        if held:
            name = ("h", secrets.token_hex(8))
            at = now + self._hold_ms
            first.append(schedule(self._records.subjects, name, at, held, now=now, made=now))
            hold = first[-1][0]
        await js.write(stream, first)
        ats = [wanted[2] for look in looks for wanted in (*look.later, *look.early)]
        self.soonest = min(ats if self.soonest is None else [*ats, self.soonest], default=None)
        # This is done before the entries are written over: they bring the next taker here.
        broken = {stored.body.id: stored for look in looks for stored in look.broken}
        self.topics += await quarantine(self._records, [*broken.values()], now)
        took: list[StoredRecord] = []
        unsure = False
        seqs = await js.write(stream, [look.over(now) for look in looks])
        for look, seq in zip(looks, seqs, strict=True):
            unsure = unsure or seq < CONFLICT
            if seq > CONFLICT:
                if look.entry.header(_FIRED):
                    self._records.notes.note_write(seq_of(look.entry))  # which the server wrote
                took += look.due
        self._out.update(stored.body.id for stored in took)
        self.taken += [stored.task for stored in took if stored.task is not None]
        # What another process took it holds by itself; of what nobody knows, this may be the hold.
        self._timers.hold(took, "" if unsure else hold)
        if hold and not took and not unsure:
            # Another process took them, and has a hold of its own. If the answer to our write was
            # lost, they may be ours: then the hold is their only timer.
            await self._records.purge(hold)

    def _sort(self, look: _Entry, records: dict[str, StoredRecord], room: int, now: int) -> None:
        """Which tasks of an entry are due, and what is done with the others."""
        timer = look.timer
        for task_id, revision in zip(timer.ids, timer.revisions, strict=True):
            stored = records.get(task_id)
            if stored is None or (stored.body.v and stored.body.revision < revision):
                # Its record is still on its way; or its writer has died, then it never comes.
                if now - timer.made < _ON_ITS_WAY_MS and self._is_first(task_id, revision):
                    look.early.append((task_id, revision, (now // _AGAIN_MS + 1) * _AGAIN_MS))
                continue
            task = stored.task
            at = None if task is None else _timer(stored, task, now)
            if task is None or at is None:
                continue
            if stored.body.state == State.ACTIVE and at <= now:
                at = max(at, self._grace_until)
            if at > now:
                # Early: a renewed run, or a server whose clock is ahead of the time it gave. If the
                # record has moved on, its newest version has a timer of its own.
                if stored.body.revision == revision and self._is_first(task_id, revision):
                    look.later.append((task_id, revision, at))
            elif task.state is State.UNKNOWN:
                look.broken.append(stored)
            elif not self._is_first(task_id, stored.body.revision):
                continue
            elif task_id in self._out:
                look.later.append((task_id, revision, now + self._hold_ms))
            elif len(look.due) >= room:
                look.rest.append((task_id, revision))
            else:
                look.due.append(stored)

    def _is_first(self, task_id: str, revision: int) -> bool:
        """Whether no entry of this page has named this version of the record yet: one timer is
        enough."""
        first = (task_id, revision) not in self._seen
        self._seen.add((task_id, revision))
        return first


def _timer(stored: StoredRecord, task: Task, now: int) -> int | None:
    """The time at which something must happen to the task; one that does not decode is quarantined
    now, or when the lease of its run has passed."""
    if task.state is not State.UNKNOWN:
        return next_timer(task)
    if not is_unreadable(stored):
        return None
    cell = stored.body.cell
    return now if cell is None else cell.lease_until
