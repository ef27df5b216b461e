"""Sets timers: schedules of the server, one for each task or one for several due at about one time.

A schedule that fires leaves a due entry, which `due_timers` takes. The server deletes a schedule
that has fired by its name, even if another was written there meanwhile; so each has a name of its
own: that of the version of the record it is for, or, if set anew, one made of the entry that it
replaces.
"""

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from andon.contract.isolation import left_out
from andon.stores.kit.codec import encode
from andon.stores.nats.changes import read_dense
from andon.stores.nats.jetstream import Write
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache, schedule_time
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.shared_timers import SharedTimers
from andon.stores.nats.subjects import BUCKET_MS, Subjects, hashed, is_token

TOGETHER_MS = 200
"""Timers this near to each other share one schedule, which fires at the last of them."""

_NEAR = 32
_FAR = 4
"""How many timers are read to find the next: of all, and if there are more, of the nearest
buckets."""

_MANY_MS = 60_000
"""For how long it is not checked again whether there are still more."""


class Timer(msgspec.Struct, array_like=True):
    """The content of a schedule, and of the due entry that it leaves."""

    at: int
    ids: tuple[str, ...]
    revisions: tuple[int, ...]
    made: int


decode_timer = msgspec.msgpack.Decoder(Timer).decode

_BEHIND = 1_000
_BEHIND_MS = 10_000
"""With so many entries still to be taken they are requested one by one for so long, since a page
comes with the number of those that follow, and to count them the server visits each."""

_HELD = 10_000
"""How many holds are remembered; the schedule of a forgotten one fires once in vain."""

Wanted = tuple[str, int, int]
"""Task id, revision, ms UTC."""


_LATEST = 2**63


def writable(timers: Sequence[tuple[str, int | None]]) -> list[tuple[str, int | None]]:
    """The timers that can be set; the others are logged as left out. Timers share messages, so one
    that cannot be encoded would keep others from being set."""
    found: list[tuple[str, int | None]] = []
    for task_id, at in timers:
        if is_token(task_id) and (at is None or -_LATEST <= at < _LATEST):
            found.append((task_id, at))
        else:
            left_out("A timer", task_id, f"it cannot be set to {at}")
    return found


def schedules(
    subjects: Subjects,
    wanted: Sequence[Wanted],
    now: int,
    *,
    made: int | None = None,
    again: str = "",
    shared: SharedTimers | None = None,
) -> list[Write]:
    """The writes that set timers. They come before the records; `made` is when they were first
    made. Those set `again` are named after that text and after their tasks. Those for several are
    noted in `shared`."""
    groups: dict[int, list[Wanted]] = {}
    for timer in wanted:
        groups.setdefault(timer[2] // TOGETHER_MS, []).append(timer)
    writes: list[Write] = []
    for group in groups.values():
        at = max(timer[2] for timer in group)
        first: str
        second: str | int
        first, second, _ = group[0]
        if again:
            first, second = "g", hashed(f"{again}:{[(i, revision) for i, revision, _ in group]}")
        elif len(group) > 1:
            first, second = "g", secrets.token_hex(8)
        writes.append(schedule(subjects, (first, second), at, group, now=now, made=made or now))
        if shared is not None and len(group) > 1 and at > now:
            shared.add(writes[-1][0], [(i, revision) for i, revision, _ in group])
    return writes


def schedule(
    subjects: Subjects,
    name: tuple[str, str | int],
    at: int,
    group: Sequence[Wanted],
    *,
    now: int,
    made: int,
) -> Write:
    """The write that sets one timer for a group; a due entry at once if it has passed."""
    ids, revisions = tuple(t[0] for t in group), tuple(t[1] for t in group)
    body = encode(Timer(at, ids, revisions, made))
    due = subjects.due(*name)
    if at <= now:
        return due, body, None
    headers = {"Nats-Schedule": f"@at {schedule_time(at)}", "Nats-Schedule-Target": due}
    return subjects.timer(at, *name), body, headers


def _ats(found: Sequence[Reply]) -> Iterable[int]:
    """When they fire; messages that are no timers, which Andon did not write, are left out."""
    for message in found:
        with suppress(msgspec.DecodeError):
            yield decode_timer(message.data).at


def _not_passed(at: int, now: int) -> int:
    """The time at which a timer fires: one that has passed has not fired yet, as the server takes
    up to 250 ms."""
    return at if at > now else now + 50


class Timers:
    """The timers of one partition."""

    def __init__(self, records: RecordCache) -> None:
        self.records = records
        self._subjects = records.subjects
        self.shared = SharedTimers()
        self._behind_until = 0  # ms UTC: there are too many due entries to count them
        self.named_in_one = 1  #: how many tasks each of the due entries read last named
        self._many_until = 0  # there are too many to read all of them
        self.held: dict[str, tuple[str, int]] = {}
        """Tasks taken here, by id: the hold's own schedule (or ""), and the revision that the task
        had."""

    def hold(self, taken: Sequence[StoredRecord], hold: str) -> None:
        """Remember that tasks were taken, and the schedule that holds them, if it holds no others:
        the write that follows the last of them deletes it."""
        versions = [(stored.body.id, stored.body.revision) for stored in taken]
        own = hold if len(taken) == 1 else ""
        for task_id, revision in versions:
            self.held[task_id] = (own, revision)
        if hold and not own:
            self.shared.add(hold, versions)
        while len(self.held) > _HELD:
            self.held.pop(next(iter(self.held)))

    async def fired(self, seq: int, most: int, now: int) -> list[Reply]:
        """The next due entries from a sequence on, or some of them; none if there are none."""
        subject = self._subjects.of("d", ">")
        if now < self._behind_until:
            found = await read_dense(self.records, subject, seq, most)
            if found:
                return found
        found, more = await self.records.page(subject, seq, most)
        self._behind_until = now + _BEHIND_MS if more >= _BEHIND else 0
        return found

    async def next(self, now: int) -> int | None:
        """The earliest timer not yet passed. Exact if it is near or if there are few; else not
        later than that."""
        subjects = self._subjects
        bucket = now // BUCKET_MS
        if now >= self._many_until:
            found, more = await self.records.page(subjects.of("s", ">"), 1, _FAR)
            if not more:
                return min((_not_passed(at, now) for at in _ats(found)), default=None)
            self._many_until = now + _MANY_MS
        near = [subjects.of("s", str(number), ">") for number in range(bucket - 1, bucket + 2)]
        found, more = await self.records.sample(near, _NEAR)
        ats = [_not_passed(at, now) for at in _ats(found)]
        if more:
            return min([*ats, now + 250])
        return min(ats, default=(bucket + 2) * BUCKET_MS)

    async def rearm(self, timers: Sequence[tuple[str, int | None]], now: int) -> None:
        """Set timers anew if one fired too early, each for the version of the record that was
        taken. If another process has moved the record, the timer fires in vain."""
        wanted: list[Wanted] = []
        held = {task_id: taken for task_id, _ in timers if (taken := self.held.pop(task_id, None))}
        for task_id, at in timers:
            if at is not None and task_id in held:  # else this process has moved it
                wanted.append((task_id, held[task_id][1], at))
        holds = [own for own, _ in held.values() if own] + self.shared.leave(held)
        # The new ones first: a process that dies in between must leave one timer at least.
        again = secrets.token_hex(8)
        writes = schedules(self._subjects, wanted, now, again=again, shared=self.shared)
        await self.records.js.write(self._subjects.stream, writes)
        for hold in holds:
            await self.records.purge(hold)

    async def set(self, wanted: Sequence[Wanted], now: int) -> None:
        """Set timers."""
        await self.records.js.write(self._subjects.stream, schedules(self._subjects, wanted, now))

    async def sweep(self) -> None:
        """Delete the timers that no task needs and that no write has deleted."""
        for subject in self.shared.sweep():
            await self.records.purge(subject)
