"""Timers: schedules of the server, one for each task or one for several due at about one time.

A schedule that fires leaves a due entry, which `taking` takes. The server deletes a schedule that
has fired by its name, whatever was written there meanwhile; so each has a name of its own: that of
the version of the record it is for, or, set anew, one made of the entry that it replaces.
"""

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from andon.contract.isolation import left_out
from andon.stores.codec import encode
from andon.stores.nats.bodies import Head
from andon.stores.nats.heads import Heads, iso
from andon.stores.nats.library import Reply
from andon.stores.nats.names import BUCKET_MS, Names, hashed, is_token
from andon.stores.nats.news import close_together
from andon.stores.nats.shared import SharedTimers
from andon.stores.nats.wire import Write

TOGETHER_MS = 200
"""Timers this near to each other share one schedule, which fires at the last of them."""

_NEAR = 32
_FAR = 4
"""Timers read to find the next: of all, and when those are more, of the nearest buckets."""

_MANY_MS = 60_000
"""Where there were more, it is not asked so long whether there still are."""


class Timer(msgspec.Struct, array_like=True):
    """What a schedule carries, and the due entry after it."""

    at: int
    ids: tuple[str, ...]
    revisions: tuple[int, ...]
    made: int


decode_timer = msgspec.msgpack.Decoder(Timer).decode

_BEHIND = 1_000
_BEHIND_MS = 10_000
"""With so many entries still to be taken they are asked for one by one for so long, since a page
comes with the number of those that follow, and to count them the server visits each."""

_HELD = 10_000
"""Holds remembered; of those forgotten a schedule fires once in vain."""

Wanted = tuple[str, int, int]
"""Task id, revision, ms UTC."""


_LATEST = 2**63


def writable(timers: Sequence[tuple[str, int | None]]) -> list[tuple[str, int | None]]:
    """Those that can be set; the others are said to be left out. Timers share messages, so one
    that cannot be encoded would take others along."""
    found: list[tuple[str, int | None]] = []
    for task_id, at in timers:
        if is_token(task_id) and (at is None or -_LATEST <= at < _LATEST):
            found.append((task_id, at))
        else:
            left_out("A timer", task_id, f"it cannot be set to {at}")
    return found


def schedules(
    names: Names,
    wanted: Sequence[Wanted],
    now: int,
    *,
    made: int | None = None,
    again: str = "",
    shared: SharedTimers | None = None,
) -> list[Write]:
    """The writes that set timers. They come before the records; `made` is since when. Those set
    `again` are named after that and after whom they are for. Those for several are told to
    `shared`."""
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
        writes.append(schedule(names, (first, second), at, group, now=now, made=made or now))
        if shared is not None and len(group) > 1 and at > now:
            shared.add(writes[-1][0], [(i, revision) for i, revision, _ in group])
    return writes


def schedule(
    names: Names,
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
    due = names.due(*name)
    if at <= now:
        return due, body, None
    headers = {"Nats-Schedule": f"@at {iso(at)}", "Nats-Schedule-Target": due}
    return names.timer(at, *name), body, headers


def _ats(found: Sequence[Reply]) -> Iterable[int]:
    """When they fire; of what is no timer, somebody else's, that is not told."""
    for message in found:
        with suppress(msgspec.DecodeError):
            yield decode_timer(message.data).at


def _not_passed(at: int, now: int) -> int:
    """One that has passed has not fired yet: the server takes up to 250 ms."""
    return at if at > now else now + 50


class Timers:
    """The timers of one partition."""

    def __init__(self, heads: Heads) -> None:
        self.heads = heads
        self._names = heads.names
        self.shared = SharedTimers()
        self._behind_until = 0  # ms UTC: there are too many due entries to count them
        self._many_until = 0  # too many to look at all of them
        self.held: dict[str, tuple[str, int]] = {}
        """Taken here: task to its hold's own schedule (or ""), and the revision it had."""

    def hold(self, head: Head, own: str) -> None:
        """Remember that a task was taken, and the schedule of its hold if that holds nothing else;
        the write that follows deletes it."""
        self.held[head.body.id] = (own, head.body.revision)
        while len(self.held) > _HELD:
            self.held.pop(next(iter(self.held)))

    async def fired(self, seq: int, most: int, now: int) -> list[Reply]:
        """The next due entries from a sequence on, or some of them; none if there are none."""
        subject = self._names.of("d", ">")
        if now < self._behind_until:
            found = await close_together(self.heads, subject, seq, most)
            if found:
                return found
        found, more = await self.heads.page(subject, seq, most)
        self._behind_until = now + _BEHIND_MS if more >= _BEHIND else 0
        return found

    async def next(self, now: int) -> int | None:
        """The earliest timer not yet passed. Exact when it is near or when there are few; else
        not later than that."""
        names = self._names
        bucket = now // BUCKET_MS
        if now >= self._many_until:
            found, more = await self.heads.page(names.of("s", ">"), 1, _FAR)
            if not more:
                return min((_not_passed(at, now) for at in _ats(found)), default=None)
            self._many_until = now + _MANY_MS
        subjects = [names.of("s", str(number), ">") for number in range(bucket - 1, bucket + 2)]
        found, more = await self.heads.some(subjects, _NEAR)
        near = [_not_passed(at, now) for at in _ats(found)]
        if more:
            return min([*near, now + 250])
        return min(near, default=(bucket + 2) * BUCKET_MS)

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
        writes = schedules(self._names, wanted, now, again=secrets.token_hex(8))
        await self.heads.wire.write(self._names.stream, writes)
        for hold in holds:
            await self.heads.purge(hold)

    async def set(self, wanted: Sequence[Wanted], now: int) -> None:
        """Set timers."""
        await self.heads.wire.write(self._names.stream, schedules(self._names, wanted, now))

    async def sweep(self) -> None:
        """Forget the timers that nothing needs and that no write has taken along."""
        for subject in self.shared.sweep():
            await self.heads.purge(subject)
