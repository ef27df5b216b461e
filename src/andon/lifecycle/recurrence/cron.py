"""Cron expressions: the times they match, and the error in a malformed one. Pure.

`cronsim` parses them and knows which days they match (a restricted day of the month and a
restricted day of the week are an "or", as in Debian's cron; `L`, `LW`, `5L`, `5#2`). How its
matches fall on the clocks of a zone is decided in `clocks`: docs/decisions/recurrence.md says why.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from andon.lifecycle.admission import is_text
from andon.lifecycle.recurrence.zones import DAY, LAST
from andon.model.errors import InvalidSubmission

MOST_CHARACTERS = 512

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_FIELDS = (
    ("second", "0 to 59"),
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day-of-month", "1 to 31, L for the last day or LW for the last weekday"),
    ("month", "1 to 12 or JAN to DEC"),
    ("day-of-week", "0 to 7 or SUN to SAT, 5L for the last Friday or 5#2 for the second"),
)

_ONE_STEPPED = re.compile(r"\b(\w+)-\1/\d+")
"""A range of one value with a step, `5-5/2`: the value, which the library takes for `5/2`."""

_ORDINAL_1970 = date(1970, 1, 1).toordinal()
_LAST_DAY = LAST // DAY

_HORIZON = 50 * 366
"""Days: what matches no date for so long never does. The rarest that do, a fifth Monday in
February, come again within 40 years."""

_ANY_DATE = datetime(2000, 1, 1, tzinfo=UTC)


class Cron:
    """A parsed expression. `text` is as it was given."""

    def __init__(self, text: str, parts: list[str], parsed: CronSim) -> None:
        self.text = text
        self.by_clock = any(part.startswith("*") for part in parts[:3])
        """Whether it follows the clocks through every change, or names fixed times of the day."""
        self._seconds = sorted(parsed.seconds)
        self._minutes = sorted(parsed.minutes)
        self._hours = sorted(parsed.hours)
        self._months = parsed.months
        self._match_day = parsed.match_day

    def walls(self, first: int) -> Iterator[int]:
        """What it matches from the wall `first` on, in order, until it matches nothing more."""
        day, since = divmod(first, DAY)
        end = day + _HORIZON
        while day <= min(end, _LAST_DAY):
            found = date.fromordinal(day + _ORDINAL_1970)
            if found.month not in self._months:
                day, since = _next_month(found), 0
                continue
            if self._match_day(found):
                end = day + _HORIZON
                for of_day in self._of_day(since):
                    yield day * DAY + of_day
            day, since = day + 1, 0

    def matches(self, wall: int) -> bool:
        """Whether it matches this wall."""
        return wall % 60 in self._seconds and self.minute_matches(wall)

    def minute_matches(self, wall: int) -> bool:
        """Whether it matches the minute of this wall."""
        day, of_day = divmod(wall, DAY)
        if of_day // 60 % 60 not in self._minutes or of_day // 3600 not in self._hours:
            return False
        found = date.fromordinal(day + _ORDINAL_1970)
        return found.month in self._months and self._match_day(found)

    def alike_until(self, wall: int) -> int:
        """Up to which wall (not included) the minutes match, if that of `wall` does, without a look
        at each."""
        step = 60
        if len(self._minutes) == 60:
            step = DAY if len(self._hours) == 24 else 3600
        return wall - wall % step + step

    def _of_day(self, first: int) -> Iterator[int]:
        """Seconds of a day, from `first` on."""
        for hour in self._hours:
            if hour * 3600 + 3599 < first:
                continue
            for minute in self._minutes:
                base = hour * 3600 + minute * 60
                if base + 59 < first:
                    continue
                for second in self._seconds:
                    if base + second >= first:
                        yield base + second


@lru_cache(maxsize=4096)
def parse(text: str, field: str = "cron") -> Cron:
    """The expression; `InvalidSubmission` that says where it is wrong, or that it never fires."""
    parts = _parts(text, field)
    for place, part in enumerate(parts):
        _check_part(text, place, len(parts), part, field)
    never = InvalidSubmission(
        f"The cron expression {text!r} never fires: it matches no date.", field=field
    )
    try:
        parsed = CronSim(_ONE_STEPPED.sub(r"\1", " ".join(parts)), _ANY_DATE)
    except CronSimError:
        raise never from None
    seconds = ["0"] if len(parts) == 5 else []
    cron = Cron(text, seconds + parts, parsed)
    if next(cron.walls(0), None) is None:
        raise never
    return cron


def _parts(text: str, field: str) -> list[str]:
    if not text.strip():
        raise InvalidSubmission(f"A cron expression in {field} is empty.", field=field)
    if len(text) > MOST_CHARACTERS or not is_text(text):
        raise InvalidSubmission(
            f"The cron expression {text[:40]!r}… is not text of at most {MOST_CHARACTERS} "
            "characters; several expressions may share what it says.",
            field=field,
        )
    parts = text.split()
    if parts[0].startswith("@"):
        return _named(text, field).split()
    if "=" in parts[0]:
        raise InvalidSubmission(
            f"The cron expression {text!r} begins with {parts[0]!r}; name the time zone as tz.",
            field=field,
        )
    if len(parts) not in (5, 6):
        raise InvalidSubmission(
            f"The cron expression {text!r} has {len(parts)} field{'s' * (len(parts) != 1)}, not 5 "
            "(minute hour day-of-month month day-of-week), nor 6 with seconds first.",
            field=field,
        )
    return parts


def _named(text: str, field: str) -> str:
    found = _NAMED.get(text.strip().lower())
    if found is not None:
        return found
    if text.strip().lower().startswith("@every"):
        hint = "give the interval as every, in seconds."
    else:
        hint = f"those names are {', '.join(_NAMED)}."
    raise InvalidSubmission(f"The cron expression {text!r} is not known; {hint}", field=field)


def _check_part(text: str, place: int, fields: int, part: str, field: str) -> None:
    """Refuse a field whose terms are not all well formed by themselves: what is wrong in the whole
    is wrong in one of them."""
    of_six = place + 6 - fields
    name, values = _FIELDS[of_six]
    for term in part.split(","):
        if not _is_term(term, of_six):
            raise InvalidSubmission(
                f"The cron expression {text!r} is wrong in field {place + 1}, the {name}: {term!r} "
                f"is no value, no range (1-5) and no step (*/5, 1-5/2); values are {values}.",
                field=field,
            )


def _is_term(term: str, place: int) -> bool:
    alone = ["*"] * len(_FIELDS)
    alone[place] = term
    try:
        CronSim(" ".join(alone), _ANY_DATE)
    except (CronSimError, ValueError):
        return False
    return bool(term) and not term.upper().startswith(("L/", "LW/"))


def _next_month(day: date) -> int:
    year, month = (day.year, day.month + 1) if day.month < 12 else (day.year + 1, 1)
    return date(year, month, 1).toordinal() - _ORDINAL_1970
