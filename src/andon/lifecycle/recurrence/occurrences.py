"""The occurrences of a schedule: their ids, when they fall due, which are made up for after an
outage, how many a range has. Pure: `now` and whatever is remembered are passed in, in ms UTC."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

from andon.lifecycle.bounds import LARGEST_COUNT
from andon.lifecycle.recurrence.times import Times, times_of
from andon.model.errors import InvalidSubmission
from andon.model.recurrence import Firing, Occurrence, Range, Recurrence

LONGEST_NAME = 47
"""What docs/rulings.md, R27's 64 leave for a name, before a colon and a time of 16."""

ON_TIME_MS = 60_000
"""What is no later than this was not missed: a timekeeper may be that late without an outage."""

MOST_AT_ONCE = 100
"""Occurrences that one step submits."""

SKIPPED_COUNTED = 1_000
"""Occurrences that are not made up for are counted up to this many."""

MOST_COUNTED = 1_000_000
"""How far the occurrences of a range are counted."""

_NAME = re.compile(r"[A-Za-z0-9_:-]{1,47}\Z")
_ID = re.compile(r"(?P<name>.+):(?P<at>\d{8}T\d{6}Z)\Z", re.ASCII)
_STAMP = "%Y%m%dT%H%M%SZ"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check_name(name: str) -> None:
    """Refuse a name of which no occurrence ids can be made (docs/rulings.md, R27)."""
    if not _NAME.match(name):
        raise InvalidSubmission(
            f"Schedule name {name[:60]!r} is not 1 to {LONGEST_NAME} of A-Z a-z 0-9 _ : and -.",
            field="name",
        )


def occurrence_id(name: str, at: int) -> str:
    """The id of the task of an occurrence: `nightly:20261123T060000Z`."""
    return f"{name}:{(_EPOCH + timedelta(milliseconds=at)).strftime(_STAMP)}"


def occurrence_of(task_id: str) -> tuple[str, int] | None:
    """Name of the schedule and time (ms UTC), if a task's id is made like that of an occurrence."""
    found = _ID.match(task_id)
    if found is None:
        return None
    try:
        at = datetime.strptime(found["at"], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return found["name"], (at - _EPOCH) // timedelta(milliseconds=1)


def jitter_ms(recurrence: Recurrence, name: str) -> int:
    """By how much all occurrences of the schedule of this name fall due later than their times:
    anything from 0 to its jitter. One number for all of them keeps their order and distance."""
    if not recurrence.jitter:
        return 0
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    return seed % (round(recurrence.jitter * 1000) + 1)


def next_occurrence(
    recurrence: Recurrence, name: str, *, after: int, fired: int = 0
) -> Occurrence | None:
    """The first occurrence whose time is strictly later than `after`; None if none follows.

    `fired` is how many there have been, which its `count` bounds.
    """
    if recurrence.count is not None and fired >= recurrence.count:
        return None
    at = times_of(recurrence).next(after // 1000)
    found = () if at is None else (at,)
    return next(_made(name, found, jitter_ms(recurrence, name)), None)


def due(
    recurrence: Recurrence,
    name: str,
    *,
    after: int,
    now: int,
    fired: int = 0,
    most: int = MOST_AT_ONCE,
) -> Firing:
    """What to submit at `now`, if all up to `after` is dealt with: by the rule of catch-up.

    `latest` submits the last that is due, `none` too, unless it is later than a minute; `all`
    submits each, at most `most` in one step. None of them submits what is later than the window.
    Asked again with the answer's `after`, it gives what is left; a clock that goes back gives
    nothing twice.
    """
    left = LARGEST_COUNT if recurrence.count is None else recurrence.count - fired
    if left <= 0:
        return Firing((), after, 0, None)
    times, shift = times_of(recurrence), jitter_ms(recurrence, name)
    done, until = after // 1000, (now - shift) // 1000
    oldest = max(done, _too_late(recurrence, now - shift))
    ahead = list(islice(times.after(done), 2))
    if len(ahead) < 2 or ahead[1] > until:  # the usual: one is due, or none
        found = [at for at in ahead[:1] if oldest < at <= until]
        skipped = sum(at <= oldest for at in ahead[:1])
        follows = next((at for at in ahead if at > until), None)
    else:
        found = _missed(times, recurrence.catch_up, oldest, until, min(most, left))
        skipped = times.count(done, found[0] if found else until + 1, SKIPPED_COUNTED)
        follows = times.next(found[-1] if found else until)
    reached = max(after, (found[-1] if found else until) * 1000)
    following = () if follows is None or len(found) == left else (follows,)
    return Firing(
        tuple(_made(name, found, shift)),
        reached,
        skipped,
        next(_made(name, following, shift), None),
    )


def _missed(times: Times, catch_up: str, oldest: int, until: int, most: int) -> list[int]:
    """The times after `oldest` up to `until` that are made up for."""
    if catch_up == "all":
        return list(islice(takewhile(lambda at: at <= until, times.after(oldest)), most))
    latest = times.latest(oldest, until)
    return [] if latest is None else [latest]


def between(recurrence: Recurrence, name: str, *, start: int, end: int) -> Iterator[Occurrence]:
    """The occurrences from `start` to before `end`, in order; those that `count` leaves out too."""
    times = times_of(recurrence).after(-(-start // 1000) - 1)
    found = takewhile(lambda at: at * 1000 < end, times)
    return _made(name, found, jitter_ms(recurrence, name))


def pieces(
    recurrence: Recurrence, name: str, *, start: int, end: int, most: int
) -> Iterator[tuple[int, int]]:
    """The range in parts of at most so many occurrences each: their starts and ends."""
    while start < end:
        rest = islice(between(recurrence, name, start=start, end=end), most, None)
        following = next(rest, None)
        until = end if following is None else following.at
        yield start, until
        start = until


def measure(
    recurrence: Recurrence, name: str, *, start: int, end: int, most: int = MOST_COUNTED
) -> Range:
    """How many `between` gives, before any is made; counted up to `most`."""
    times = times_of(recurrence)
    after, before = -(-start // 1000) - 1, -(-end // 1000)
    count = times.count(after, before, most + 1)
    first, last = times.next(after), times.latest(after, before - 1)
    if first is None or last is None:
        return Range(0, more=False, first=None, last=None)
    of_both = _made(name, (first, last), jitter_ms(recurrence, name))
    return Range(min(count, most), count > most, *of_both)


def _made(name: str, times: Iterable[int], shift: int) -> Iterator[Occurrence]:
    for at in times:
        yield Occurrence(occurrence_id(name, at * 1000), at * 1000, at * 1000 + shift)


def _too_late(recurrence: Recurrence, now: int) -> int:
    """The last time that is not made up for any more."""
    window = recurrence.catch_up_window
    if recurrence.catch_up == "none":
        patience = ON_TIME_MS
    elif window is None:
        return -1
    else:
        patience = round(window * 1000)
    return -(-(now - patience) // 1000) - 1
