"""Timers: schedules of the server, one for each task or one for several due at about one time.

A schedule that fires leaves a due entry. That is a hint: who takes it reads the records, and only
those whose own timer has passed are handed out. Taking is a guarded write over the entry, after a
new schedule for the end of the hold was written, so that a taker who dies costs a hold, no more.
"""

import secrets
from collections.abc import Sequence

import msgspec
from nats.aio.msg import Msg

from andon.lifecycle.timers import next_timer
from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import Due
from andon.stores.codec import encode
from andon.stores.nats.aside import is_broken, put_aside
from andon.stores.nats.bodies import Head
from andon.stores.nats.clock import ServerClock, ms_of
from andon.stores.nats.heads import Heads, iso
from andon.stores.nats.names import BUCKET_MS, Names
from andon.stores.nats.wire import CONFLICT, GUARD, Write, seq_of, stamp_of, subject_of

TOGETHER_MS = 200
"""Timers this near to each other share one schedule, which fires at the last of them."""

_ENTRIES = 64
"""Due entries looked at in one go."""

_NEAR = 32
_FAR = 4
"""Timers read to find the next: of the nearest buckets, and of all when those are empty."""


class Timer(msgspec.Struct, array_like=True):
    """What a schedule carries, and the due entry after it."""

    at: int
    ids: tuple[str, ...]
    revisions: tuple[int, ...]
    made: int


_decode = msgspec.msgpack.Decoder(Timer).decode

_ON_ITS_WAY_MS = 60_000
"""How long a timer waits for the record it was written for."""

_HELD = 10_000

Wanted = tuple[str, int, int]
"""Task id, revision, ms UTC."""


def schedules(
    names: Names,
    wanted: Sequence[Wanted],
    now: int,
    *,
    made: int | None = None,
    again: bool = False,
) -> list[Write]:
    """The writes that set timers. They come before the records; `made` is since when. One set
    `again` has a name of its own: a schedule that fires is deleted by its name."""
    groups: dict[int, list[Wanted]] = {}
    for timer in wanted:
        groups.setdefault(timer[2] // TOGETHER_MS, []).append(timer)
    writes: list[Write] = []
    for group in groups.values():
        at = max(timer[2] for timer in group)
        first: str
        second: str | int
        first, second, _ = group[0]
        if again or len(group) > 1:
            first, second = "g", secrets.token_hex(8)
        writes.append(_schedule(names, (first, second), at, group, now=now, made=made or now))
    return writes


def _schedule(
    names: Names,
    name: tuple[str, str | int],
    at: int,
    group: Sequence[Wanted],
    *,
    now: int,
    made: int,
) -> Write:
    ids, revisions = tuple(t[0] for t in group), tuple(t[1] for t in group)
    body = encode(Timer(at, ids, revisions, made))
    due = names.due(*name)
    if at <= now:
        return due, body, None
    headers = {"Nats-Schedule": f"@at {iso(at)}", "Nats-Schedule-Target": due}
    return names.timer(at, *name), body, headers


class _Look:
    """What was found behind a due entry."""

    def __init__(self) -> None:
        self.due: list[Head] = []
        self.later: list[Wanted] = []
        self.early: list[Wanted] = []
        self.rest: list[tuple[str, int]] = []  # due, but more than was asked for
        self.broken: list[Head] = []


class Timers:
    """The timers of one partition."""

    def __init__(self, heads: Heads, clock: ServerClock) -> None:
        self._heads = heads
        self._clock = clock
        self._names = heads.names
        self.held: dict[str, tuple[str, int]] = {}
        """Taken here: task to its hold's own schedule (or ""), and the revision it had."""

    async def take(self, limit: int, hold_ms: int, grace_until: int) -> tuple[Due, list[str]]:
        """Hand out what is due, held back from others; and the topics to hint, of what was set
        aside."""
        taken: list[Task] = []
        topics: list[str] = []
        seq, now = 1, self._clock.now()
        while len(taken) < limit:
            entries, _ = await self._heads.page(self._names.of("d", ">"), seq, _ENTRIES)
            if not entries:
                break
            # An entry that somebody else wrote over meanwhile stands behind these.
            seq = seq_of(entries[-1]) + 1
            # What has fired tells the server's time, which may be ahead of what is known here.
            self._clock.tell(ms_of(stamp_of(entries[-1])))
            now = self._clock.now()
            full = [entry for entry in entries if entry.data]
            room = limit - len(taken)
            took = await self._take(full, room, hold_ms, now=now, grace_until=grace_until)
            taken += took[0]
            topics += took[1]
        return Due(tuple(taken), now, await self._next(now)), topics

    async def _take(
        self, entries: Sequence[Msg], room: int, hold_ms: int, *, now: int, grace_until: int
    ) -> tuple[list[Task], list[str]]:
        wire, names = self._heads.wire, self._names
        timers = [_decode(entry.data) for entry in entries]
        heads = await self._heads.read(task_id for timer in timers for task_id in timer.ids)
        looks: list[_Look] = []
        first: list[Write] = []
        over: list[Write] = []
        held: dict[str, Wanted] = {}
        for entry, timer in zip(entries, timers, strict=True):
            look = self._sorted(timer, heads, room - len(held), now=now, grace_until=grace_until)
            # Two entries may name one task: its first stands.
            look.due = [head for head in look.due if head.body.id not in held]
            held.update({h.body.id: (h.body.id, h.body.revision, now + hold_ms) for h in look.due})
            looks.append(look)
            first += schedules(names, look.later, now, again=True)
            first += schedules(names, look.early, now, made=timer.made, again=True)
            guard = {GUARD: str(seq_of(entry))}
            if look.rest:
                ids, revisions = zip(*look.rest, strict=True)
                body = encode(Timer(now, ids, revisions, timer.made))
                over.append((subject_of(entry), body, guard))
            else:
                over.append((subject_of(entry), b"", {**guard, "Nats-TTL": "1s"}))
        hold = ""
        if held:
            name = ("h", secrets.token_hex(8))
            first.append(_schedule(names, name, now + hold_ms, [*held.values()], now=now, made=now))
            hold = first[-1][0] if len(held) == 1 else ""
        await wire.write(names.stream, first)
        # Before the entries go, too: they are what brings the next taker here.
        broken = {head.body.id: head for look in looks for head in look.broken}
        topics = await put_aside(self._heads, [*broken.values()], now)
        taken: list[Task] = []
        unsure = False
        for look, seq in zip(looks, await wire.write(names.stream, over), strict=True):
            if seq <= CONFLICT:
                unsure = unsure or seq < CONFLICT
                continue
            for head in look.due:
                assert head.task is not None
                taken.append(head.task)
                self.held[head.body.id] = (hold, head.body.revision)
        while len(self.held) > _HELD:
            self.held.pop(next(iter(self.held)))
        if hold and not taken and not unsure:
            # Another took it, and has a hold of its own. Where the answer to our write was lost it
            # may be ours: then the hold is the only timer there is.
            await self.purge(hold)
        return taken, topics

    def _sorted(
        self, timer: Timer, heads: dict[str, Head], room: int, *, now: int, grace_until: int
    ) -> "_Look":
        """What of an entry is due, and what becomes of the others."""
        look = _Look()
        for task_id, revision in zip(timer.ids, timer.revisions, strict=True):
            head = heads.get(task_id)
            if head is None or (head.body.v and head.body.revision < revision):
                # Its record is still on its way; or its writer has died, then it never comes.
                if now - timer.made < _ON_ITS_WAY_MS:
                    look.early.append((task_id, revision, now + 500))
                continue
            task = head.task
            at = None if task is None else _timer(head, task, now)
            if task is None or at is None:
                continue
            if head.body.state == State.ACTIVE and at <= now:
                at = max(at, grace_until)
            if at > now:
                # Early: a renewed run, or a server whose clock is ahead of what it told. Where
                # the record has moved on, its newest version has a timer of its own.
                if head.body.revision == revision:
                    look.later.append((task_id, revision, at))
            elif task.state is State.UNKNOWN:
                look.broken.append(head)
            elif len(look.due) < room:
                look.due.append(head)
            else:
                look.rest.append((task_id, revision))
        return look

    async def _next(self, now: int) -> int | None:
        """The earliest timer not yet passed. Exact when it is near or when there are few; else
        not later than that."""
        names = self._names
        bucket = now // BUCKET_MS
        subjects = [names.of("s", str(number), ">") for number in range(bucket - 1, bucket + 2)]
        found, more = await self._heads.some(subjects, _NEAR)
        # one that has passed has not fired yet: the server takes up to 250 ms
        near = [at if at > now else now + 50 for at in (_decode(m.data).at for m in found)]
        if more:
            return min([*near, now + 250])
        if near:
            return min(near)
        found, more = await self._heads.page(names.of("s", ">"), 1, _FAR)
        ats = [at for at in (_decode(m.data).at for m in found) if at > now]
        if more:
            return min([*ats, (bucket + 2) * BUCKET_MS])
        return min(ats, default=None)

    async def rearm(
        self, timers: Sequence[tuple[str, int | None]], heads: dict[str, Head], now: int
    ) -> None:
        """Set timers anew where a fired one meant nothing yet."""
        wanted: list[Wanted] = []
        holds: list[str] = []
        for task_id, at in timers:
            taken, head = self.held.pop(task_id, None), heads.get(task_id)
            if taken is None or head is None or head.body.revision != taken[1]:
                continue
            if at is not None:
                wanted.append((task_id, head.body.revision, at))
            if taken[0]:
                holds.append(taken[0])
        # The new ones first: who dies in between must leave one timer at least.
        writes = schedules(self._names, wanted, now, again=True)
        await self._heads.wire.write(self._names.stream, writes)
        for hold in holds:
            await self.purge(hold)

    async def set(self, wanted: Sequence[Wanted], now: int) -> None:
        """Set timers."""
        await self._heads.wire.write(self._names.stream, schedules(self._names, wanted, now))

    async def purge(self, subject: str) -> None:
        """Forget what stands under a subject."""
        await self._heads.wire.api(f"STREAM.PURGE.{self._names.stream}", {"filter": subject})


def _timer(head: Head, task: Task, now: int) -> int | None:
    """The time at which something must happen to the task; one that does not decode is set aside
    now, or when the lease of its run has passed."""
    if task.state is not State.UNKNOWN:
        return next_timer(task)
    if not is_broken(head):
        return None
    cell = head.body.cell
    return now if cell is None else cell.lease_until
