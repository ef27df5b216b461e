"""Evaluates alert rules on what the store counts anyway: queues, minutes, groups of dead letters,
schedules, workers. Pure.

A rule that cannot be evaluated (its minutes are missing) answers None, which changes nothing:
missing is not zero.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from andon.lifecycle.minutes import MINUTE_MS
from andon.model.alerts import ALERTS_QUEUE, AlertState, Rule, RuleState, SeenSchedule
from andon.model.fleet import QueueStats, WorkerInfo
from andon.model.letters import LetterGroups
from andon.model.minutes import MinuteHistory
from andon.model.recurrence import Recurrence
from andon.model.task import Schedule
from andon.model.wording import plural, span

LETTERS_EVERY_MS = 300_000
"""Dead letters are read when their number has changed, and this often at the least: where they are
bounded, one may replace another."""

MOST_ERRORS = 1_000
"""Kinds of errors that are remembered, those seen last."""

MOST_SAMPLES = 8

MOST_SAMPLED = 50
"""Queues whose dead letters are sampled for `growth`, those with the most."""

MOST_WORKERS = 2_000
"""Workers that are remembered, those seen last."""

_FORGOTTEN_MS = 600_000
"""A worker that fell silent while no timekeeper looked makes no notice after this."""

_GAP_MS = 150_000
"""After a longer gap between two looks the store may have been away, for workers too: missing
workers get one more look."""

_LATE_WRITE_MS = 60_000
"""A dead letter may be seen this much later than it says that it ended."""


class Seen(NamedTuple):
    """What breaks a rule: how far, and in words."""

    value: float
    text: str


class ScheduleReading(msgspec.Struct, frozen=True):
    """A live schedule as it is read."""

    name: str
    schedule: Schedule
    touched_at: int = 0  #: when it was last paused, resumed or revised, ms UTC


class Readings(msgspec.Struct, frozen=True, kw_only=True):
    """The values read once for all rules. None: no rule asked for it, or it could not be read."""

    now: int
    stats: tuple[QueueStats, ...] = ()
    minutes: MinuteHistory | None = None
    letters: LetterGroups | None = None
    schedules: tuple[ScheduleReading, ...] | None = None
    workers: tuple[WorkerInfo, ...] | None = None
    left: frozenset[str] = frozenset()  #: ids of workers that left in good order


class Needs(NamedTuple):
    """What has to be read."""

    minutes: int = 0  #: how many of the last; 0: none
    letters: bool = False
    schedules: bool = False
    workers: bool = False


def needs(rules: Iterable[Rule], state: AlertState, stats: Iterable[QueueStats], now: int) -> Needs:
    """What to read for these rules, beside the counts of queues, which come first."""
    kinds = set[str]()
    minutes = 0
    for rule in rules:
        kinds.add(rule.when)
        if rule.when == "error-rate":
            minutes = max(minutes, _minutes(rule))
    looks = state.errors is None or now - state.looked >= LETTERS_EVERY_MS
    return Needs(
        minutes,
        "new-error" in kinds and (looks or letters_of(stats) != state.letters),
        "missed-occurrence" in kinds,
        "lost-worker" in kinds,
    )


def letters_of(stats: Iterable[QueueStats]) -> dict[str, int]:
    """Dead letters by queue, but for Andon's own."""
    return {
        one.queue: one.dead_letters
        for one in stats
        if one.dead_letters and one.queue != ALERTS_QUEUE
    }


def matches(pattern: str, name: str, *, is_queue: bool = False) -> bool:
    """Whether a name is one of those meant; Andon's own queue is meant by its name only."""
    if is_queue and name == ALERTS_QUEUE:
        return pattern == name
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else pattern in ("", name)


def seen_by(
    rule: Rule, readings: Readings, state: AlertState, own: RuleState
) -> dict[str, Seen] | None:
    """By subject, what breaks the rule now; None if that is not known."""
    match rule.when:
        case "oldest-age":
            return _old(rule, readings)
        case "dead-letters":
            return _letters(rule, readings, own)
        case "error-rate":
            return _failing(rule, readings)
        case "new-error":
            return _new_errors(rule, readings, state)
        case "missed-occurrence":
            return _missed(rule, readings, state)
        case "lost-worker":
            return _lost(rule, readings, state)


# --- queues ---


def _old(rule: Rule, readings: Readings) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    for one in readings.stats:
        since = one.oldest_pending_at
        if since is None or not matches(rule.queue, one.queue, is_queue=True):
            continue
        waits = (readings.now - since) / 1000
        if waits > (rule.above or 0):
            found[one.queue] = Seen(waits, f"the oldest task waits for {span(waits)}")
    return found


def _letters(rule: Rule, readings: Readings, own: RuleState) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    for one in readings.stats:
        if not matches(rule.queue, one.queue, is_queue=True):
            continue
        number = one.dead_letters
        if rule.above is not None and number > rule.above:
            found[one.queue] = Seen(number, plural(number, "dead letter"))
        elif rule.growth is not None:
            since = readings.now - (rule.within or 0) * 1000
            recent = [counts for at, counts in own.samples if at >= since]
            if any(len(counts) >= MOST_SAMPLED and one.queue not in counts for counts in recent):
                continue  # it was not among those sampled
            before = [counts.get(one.queue, 0) for counts in recent]
            more = number - min(before, default=number)
            if more > rule.growth:
                within = span(rule.within or 0)
                found[one.queue] = Seen(more, f"{more:,} more dead letters within {within}")
    return found


def sampled(rule: Rule, readings: Readings, own: RuleState) -> RuleState:
    """The state with the samples that the next look asks for."""
    if rule.growth is None:
        return own
    within = round((rule.within or 0) * 1000)
    kept = [one for one in own.samples if readings.now - one[0] <= within]
    counts = {
        one.queue: one.dead_letters
        for one in readings.stats
        if one.dead_letters and matches(rule.queue, one.queue, is_queue=True)
    }
    counts = _largest(counts, MOST_SAMPLED)
    if not kept or readings.now - kept[-1][0] >= within // MOST_SAMPLES:
        kept.append((readings.now, counts))
    else:  # what was purged since is no growth when it comes back
        at, last = kept[-1]
        kept[-1] = at, {queue: min(n, counts.get(queue, 0)) for queue, n in last.items()}
    return msgspec.structs.replace(own, samples=tuple(kept[-MOST_SAMPLES - 1 :]))


def _minutes(rule: Rule) -> int:
    return max(1, round((rule.within or 0) * 1000) // MINUTE_MS)


def _failing(rule: Rule, readings: Readings) -> dict[str, Seen] | None:
    history = readings.minutes
    if history is None:
        return None
    since = history.until - _minutes(rule) * MINUTE_MS
    known = (history.until - since) // MINUTE_MS - sum(at >= since for at in history.missing)
    if known <= 0:
        return None
    found: dict[str, Seen] = {}
    for series in history.series:
        if not matches(rule.queue, series.name, is_queue=True):
            continue
        counts = [point.counts for point in series.points if point.at >= since]
        failed = sum(one.failed for one in counts)
        runs = failed + sum(one.finished for one in counts)
        if runs and runs >= (rule.min_runs or 0) and failed / runs > (rule.above or 0):
            share = failed / runs
            said = f"{share:.1%} of {plural(runs, 'run')} failed within {span(rule.within or 0)}"
            found[series.name] = Seen(share, said)
    return found


# --- kinds of errors ---


def _new_errors(rule: Rule, readings: Readings, state: AlertState) -> dict[str, Seen]:
    letters, known = readings.letters, state.errors
    if letters is None or known is None:
        return {}
    found: dict[str, Seen] = {}
    for group in letters.groups:
        if group.fingerprint in known or group.newest_at < state.looked - _LATE_WRITE_MS:
            continue  # an old one that a look had not reached is not new
        if any(matches(rule.queue, queue, is_queue=True) for queue in group.queues):
            names = ", ".join(group.names)
            found[group.fingerprint] = Seen(
                group.count, f"{group.pattern} ({plural(group.count, 'task')}, {names})"
            )
    return found


def _with_errors(state: AlertState, readings: Readings) -> AlertState:
    letters = readings.letters
    if letters is None:
        return state
    known = dict(state.errors or {})
    known.update({group.fingerprint: readings.now for group in letters.groups})
    return msgspec.structs.replace(
        state,
        errors=_largest(known, MOST_ERRORS),
        letters=letters_of(readings.stats),
        looked=readings.now,
    )


# --- schedules ---


def _missed(rule: Rule, readings: Readings, state: AlertState) -> dict[str, Seen] | None:
    if readings.schedules is None:
        return None
    found: dict[str, Seen] = {}
    for one in readings.schedules:
        if matches(rule.schedule, one.name) and not one.schedule.paused_at:
            before = (state.schedules or {}).get(one.name)
            seen = _late(rule, one, readings.now) or _left_out(one, before, state.at)
            if seen is not None:
                found[one.name] = seen
    return found


def _late(rule: Rule, one: ScheduleReading, now: int) -> Seen | None:
    due = one.schedule.next_due
    if due is None:
        return None
    late = (now - due) / 1000
    return Seen(late, f"was due {span(late)} ago") if late > (rule.late or 0) else None


def _left_out(one: ScheduleReading, before: SeenSchedule | None, at: int) -> Seen | None:
    """The occurrences that went by since the last look, and were not submitted. Where the overlap
    rule may leave some out by intent, none are reported."""
    from andon.lifecycle.recurrence.occurrences import measure

    s = one.schedule
    if (
        before is None
        or s.overlap not in ("allow", "queue")
        or before.times != times_digest(s.recurrence)
        or one.touched_at >= at
        or s.after <= before.after
    ):
        return None
    range_ = measure(s.recurrence, one.name, start=before.after + 1, end=s.after + 1, most=1_000)
    missed = range_.count - (s.fired - before.fired)
    return Seen(missed, f"{plural(missed, 'occurrence')} not submitted") if missed > 0 else None


def times_digest(recurrence: Recurrence) -> str:
    """A short hash over when a schedule fires."""
    return blake2b(msgspec.msgpack.encode(recurrence), digest_size=6).hexdigest()


def _with_schedules(state: AlertState, readings: Readings) -> AlertState:
    if readings.schedules is None:
        return state
    seen = {
        one.name: SeenSchedule(
            one.schedule.after, one.schedule.fired, times_digest(one.schedule.recurrence)
        )
        for one in readings.schedules
    }
    return msgspec.structs.replace(state, schedules=seen)


# --- workers ---


def missing_workers(state: AlertState, workers: Iterable[WorkerInfo]) -> set[str]:
    """Those that were there at the last look, and are not any more."""
    return set(state.workers or ()) - {one.id for one in workers}


def _lost(rule: Rule, readings: Readings, state: AlertState) -> dict[str, Seen] | None:
    if readings.workers is None or _is_gap(state, readings):
        return None
    found: dict[str, Seen] = {}
    for worker in missing_workers(state, readings.workers) - readings.left:
        silent = (readings.now - (state.workers or {})[worker]) / 1000
        if silent * 1000 <= _FORGOTTEN_MS and matches(rule.worker, worker):
            found[worker] = Seen(silent, f"not heard of for {span(silent)}")
    return found


def _with_workers(state: AlertState, readings: Readings) -> AlertState:
    if readings.workers is None:
        return state
    seen = {one.id: one.seen_at for one in readings.workers}
    if _is_gap(state, readings):
        unsure = missing_workers(state, readings.workers) - readings.left
        seen |= {one: (state.workers or {})[one] for one in unsure}
    return msgspec.structs.replace(state, workers=_largest(seen, MOST_WORKERS))


def _largest(numbers: dict[str, int], most: int) -> dict[str, int]:
    if len(numbers) <= most:
        return numbers
    return dict(sorted(numbers.items(), key=lambda one: -one[1])[:most])


def _is_gap(state: AlertState, readings: Readings) -> bool:
    return readings.now - state.at > _GAP_MS


def remembered(state: AlertState, kinds: Mapping[str, object], readings: Readings) -> AlertState:
    """The state with what the next look compares with; values that no rule uses are dropped, so
    that a later rule begins anew."""
    state = _with_workers(_with_schedules(_with_errors(state, readings), readings), readings)
    if "new-error" not in kinds:
        state = msgspec.structs.replace(state, errors=None, letters={}, looked=0)
    if "missed-occurrence" not in kinds:
        state = msgspec.structs.replace(state, schedules=None)
    if "lost-worker" not in kinds:
        state = msgspec.structs.replace(state, workers=None)
    return state
