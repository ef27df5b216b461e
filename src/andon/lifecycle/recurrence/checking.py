"""Checks the specification of a schedule; the error says in one sentence what is wrong. Pure."""

from datetime import UTC, datetime, timedelta

from andon.lifecycle.admission import check_moment
from andon.lifecycle.bounds import LARGEST_COUNT
from andon.lifecycle.recurrence.occurrences import ON_TIME_MS
from andon.lifecycle.recurrence.times import MOST_LEFT_OUT, times_of
from andon.lifecycle.recurrence.zones import DAY
from andon.model.errors import InvalidSubmission
from andon.model.recurrence import Recurrence

MOST_EXPRESSIONS = 100
MOST_EXCLUSIONS = 1_000
LONGEST_EVERY = 100 * 365 * DAY
LONGEST_JITTER = DAY
LONGEST_WINDOW = 100 * 365 * DAY

_CATCH_UPS = ("latest", "none", "all")


def check(recurrence: Recurrence) -> None:
    """Raise `InvalidSubmission`, naming the field, for a specification that is malformed or names
    no time at all. One whose end is past is none of these."""
    r = recurrence
    if bool(r.cron) == (r.every is not None):
        raise InvalidSubmission(
            "A schedule has either cron expressions or an interval (every), "
            f"{'not both' if r.cron else 'and this one has neither'}.",
            field="cron",
        )
    _check_numbers(r)
    _check_moments(r)
    _check_catch_up(r)
    for field, most in (("cron", MOST_EXPRESSIONS), ("exclude", MOST_EXCLUSIONS)):
        if len(getattr(r, field)) > most:
            raise InvalidSubmission(f"{field} has at most {most:,} entries.", field=field)
    if times_of(r).next(-1) is None:
        raise InvalidSubmission(_never(r), field="exclude" if r.exclude else "end")


def _check_numbers(r: Recurrence) -> None:
    for field, least, most, unit in (
        ("every", 1, LONGEST_EVERY, " seconds"),
        ("count", 1, LARGEST_COUNT, ""),
    ):
        value: object = getattr(r, field)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidSubmission(
                f"{field} is a whole number from {least} to {most:,}{unit}, not {value!r}.",
                field=field,
            )
    if not 0 <= r.jitter <= LONGEST_JITTER:
        raise InvalidSubmission(
            f"jitter is 0 to {LONGEST_JITTER:,} seconds, not {r.jitter!r}.", field="jitter"
        )


def _check_moments(r: Recurrence) -> None:
    for field in ("anchor", "start", "end"):
        check_moment(getattr(r, field), field=field)
    if r.anchor is not None:
        if r.every is None:
            raise InvalidSubmission("anchor belongs to an interval (every).", field="anchor")
        if r.anchor % 1000:
            raise InvalidSubmission(
                f"anchor is a whole second, not {_shown(r.anchor)}.", field="anchor"
            )
    if r.start is not None and r.end is not None and r.end <= r.start:
        raise InvalidSubmission(
            f"end ({_shown(r.end)}) is not after start ({_shown(r.start)}).", field="end"
        )


def _check_catch_up(r: Recurrence) -> None:
    if r.catch_up not in _CATCH_UPS:
        raise InvalidSubmission(
            f"catch_up is one of {', '.join(_CATCH_UPS)}, not {r.catch_up!r}.", field="catch_up"
        )
    window = r.catch_up_window
    if window is None:
        return
    if r.catch_up == "none":
        raise InvalidSubmission(
            "catch_up_window says how late an occurrence may be made up for, and catch_up=none "
            "makes up for none; give one of them.",
            field="catch_up_window",
        )
    if not ON_TIME_MS / 1000 <= window <= LONGEST_WINDOW:
        raise InvalidSubmission(
            f"catch_up_window is {ON_TIME_MS // 1000} to {LONGEST_WINDOW:,} seconds, not "
            f"{window!r}: an occurrence may be a minute late without an outage.",
            field="catch_up_window",
        )


def _never(r: Recurrence) -> str:
    bounds = ""
    if r.start is not None:
        bounds += f" from {_shown(r.start)}"
    if r.end is not None:
        bounds += f" before {_shown(r.end)}"
    if not r.exclude:
        return f"The schedule never fires: none of its times lies{bounds}."
    return (
        f"The schedule never fires: its exclusions leave out all of its times{bounds}, or the "
        f"first {MOST_LEFT_OUT:,} of them."
    )


def _shown(moment: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)
    whole = at.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{at.microsecond // 1000:03}Z" if moment % 1000 else f"{whole}Z"
