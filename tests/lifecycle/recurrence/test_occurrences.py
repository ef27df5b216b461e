"""Which occurrences a schedule has: ids, jitter, what is made up for after an outage, ranges."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.lifecycle.admission import is_id
from andon.lifecycle.recurrence.occurrences import (
    LONGEST_NAME,
    MOST_AT_ONCE,
    ON_TIME_MS,
    between,
    check_name,
    due,
    jitter_ms,
    measure,
    next_occurrence,
    occurrence_id,
    occurrence_of,
)
from andon.model.errors import InvalidSubmission
from andon.model.recurrence import Firing, Occurrence, Recurrence
from lifecycle.recurrence.moments import ms, shown

NIGHTLY = Recurrence(cron=("0 2 * * *",), tz="Europe/Berlin")
MINUTELY: dict[str, Any] = {"every": 60}
MIDNIGHT = ms("2026-11-23T00:00")
HOUR = 3_600_000


def ask(at: str, after: str = "2026-11-23T00:00", fired: int = 0, **fields: Any) -> Firing:
    recurrence = Recurrence(**(fields or MINUTELY))
    return due(recurrence, "n", after=ms(after), now=ms(at), fired=fired)


def hours(found: Firing) -> list[str]:
    return [shown(one.at)[11:16] for one in found.occurrences]


# Ids


def test_an_id_is_the_name_and_the_time_and_says_both() -> None:
    found = next_occurrence(NIGHTLY, "nightly", after=MIDNIGHT)
    assert found is not None
    assert found.id == "nightly:20261123T010000Z"
    assert occurrence_of(found.id) == ("nightly", found.at)


@pytest.mark.parametrize("name", ["a", "nightly", "a:b", "x" * 47, "20261123T010000Z"])
@pytest.mark.parametrize("at", [0, 253_402_300_799_000])
def test_every_name_and_time_makes_an_id_that_a_task_may_have(name: str, at: int) -> None:
    check_name(name)
    made = occurrence_id(name, at)
    assert is_id(made)
    assert occurrence_of(made) == (name, at)


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_NAME + 1), "a b", "a/b", "é", "a\n"])
def test_a_name_that_makes_no_ids_is_refused(name: str) -> None:
    with pytest.raises(InvalidSubmission, match="is not 1 to 47 of A-Z a-z 0-9 _ : and -") as no:
        check_name(name)
    assert no.value.field == "name"


@pytest.mark.parametrize("text", ["", "nightly", "n:20261323T010000Z", "n:20261123T0100Z", ":x"])
def test_other_ids_are_of_no_occurrence(text: str) -> None:
    assert occurrence_of(text) is None


# Jitter


@given(jitter=st.floats(0, 86_400), name=st.text("abc-_:", min_size=1, max_size=47))
def test_jitter_stays_within_its_bound_and_is_the_same_wherever_it_is_computed(
    jitter: float, name: str
) -> None:
    shift = jitter_ms(Recurrence(every=60, jitter=jitter), name)
    assert 0 <= shift <= round(jitter * 1000)
    assert shift == jitter_ms(Recurrence(every=5, tz="Asia/Tokyo", jitter=jitter), name)


def test_jitter_is_known_by_the_name_and_spreads_schedules() -> None:
    recurrence = Recurrence(cron=("@daily",), jitter=3600)
    assert jitter_ms(recurrence, "nightly") == 2_402_796
    shifts = sorted(jitter_ms(recurrence, f"report-{n}") for n in range(1_000))
    assert len(set(shifts)) > 990
    assert all(
        200 < sum(low <= s < low + 900_000 for s in shifts) < 300
        for low in range(0, 3_600_000, 900_000)
    )


def test_jitter_moves_when_an_occurrence_is_due_and_neither_its_id_nor_their_order() -> None:
    recurrence = Recurrence(every=60, jitter=600)
    shift = jitter_ms(recurrence, "n")
    assert shift > 60_000
    found = list(between(recurrence, "n", start=MIDNIGHT, end=MIDNIGHT + HOUR))
    assert [one.at for one in found] == [MIDNIGHT + n * 60_000 for n in range(60)]
    assert {one.due - one.at for one in found} == {shift}
    early = due(recurrence, "n", after=MIDNIGHT, now=MIDNIGHT + 60_000 + shift - 1)
    assert (early.occurrences, early.next) == ((), found[1])
    assert due(recurrence, "n", after=MIDNIGHT, now=MIDNIGHT + 60_000 + shift).occurrences == (
        found[1],
    )


# Catch-up


def test_what_is_due_now_is_submitted_and_the_next_is_named() -> None:
    found = ask("2026-11-23T00:01:00.250")
    assert found.occurrences == (
        Occurrence("n:20261123T000100Z", MIDNIGHT + 60_000, MIDNIGHT + 60_000),
    )
    assert (found.after, found.skipped) == (MIDNIGHT + 60_000, 0)
    assert found.next == Occurrence("n:20261123T000200Z", MIDNIGHT + 120_000, MIDNIGHT + 120_000)


def test_before_anything_is_due_nothing_is_submitted() -> None:
    found = ask("2026-11-23T00:00:59.999")
    assert found.occurrences == ()
    assert (found.next and shown(found.next.at)) == "2026-11-23T00:01:00"


def test_after_an_outage_the_latest_is_made_up_for_by_default() -> None:
    found = ask("2026-11-23T10:30:30")
    assert hours(found) == ["10:30"]
    assert found.skipped == 629
    assert (found.next and shown(found.next.at)) == "2026-11-23T10:31:00"


def test_the_latest_is_made_up_for_however_late_unless_it_is_outside_the_window() -> None:
    daily: dict[str, Any] = {"cron": ("@daily",)}
    assert hours(ask("2026-11-25T23:59", **daily)) == ["00:00"]
    late = ask("2026-11-25T00:30", **daily, catch_up_window=1800.0)
    assert (hours(late), late.skipped) == (["00:00"], 1)
    later = ask("2026-11-25T00:30:01", **daily, catch_up_window=1800.0)
    assert (hours(later), later.skipped) == ([], 2)
    assert (later.next and later.next.at) == ms("2026-11-26T00:00")


def test_none_makes_up_for_nothing_and_takes_what_is_on_time() -> None:
    daily: dict[str, Any] = {"cron": ("@daily",), "catch_up": "none"}
    assert ON_TIME_MS == 60_000
    assert hours(ask("2026-11-24T00:01", **daily)) == ["00:00"]
    missed = ask("2026-11-24T00:01:01", **daily)
    assert (hours(missed), missed.skipped) == ([], 1)
    assert (missed.next and shown(missed.next.at)) == "2026-11-25T00:00:00"
    again = due(Recurrence(**daily), "n", after=missed.after, now=missed.after + 1_000)
    assert (again.occurrences, again.skipped) == ((), 0)


def test_all_makes_up_for_each_within_the_window() -> None:
    every = ask("2026-11-23T01:00:30", every=600, catch_up="all")
    assert (hours(every), every.skipped) == (
        ["00:10", "00:20", "00:30", "00:40", "00:50", "01:00"],
        0,
    )
    some = ask("2026-11-23T01:00:30", every=600, catch_up="all", catch_up_window=1230.0)
    assert (hours(some), some.skipped) == (["00:40", "00:50", "01:00"], 3)


def test_all_of_a_long_outage_come_a_hundred_at_a_time() -> None:
    recurrence = Recurrence(every=60, catch_up="all")
    now, after, found = MIDNIGHT + 4 * HOUR + 5, MIDNIGHT, list[Occurrence]()
    steps = 0
    while True:
        step = due(recurrence, "n", after=after, now=now)
        assert len(step.occurrences) <= MOST_AT_ONCE
        found += step.occurrences
        after, steps = step.after, steps + 1
        assert step.next is not None
        if step.next.due > now:
            break
    assert steps == 3
    assert found == list(between(recurrence, "n", start=MIDNIGHT + 1, end=now))


def test_an_outage_of_years_costs_no_walk_through_it() -> None:
    second = Recurrence(every=1, exclude=("* 3 * * *",))
    found = due(second, "n", after=ms("1990-01-01T00:00"), now=ms("2026-11-23T03:30"))
    assert hours(found) == ["02:59"]
    assert found.skipped == 1_000  # as far as they are counted


def test_a_clock_that_goes_back_submits_nothing_twice() -> None:
    found = ask("2026-11-22T12:00")
    assert (found.occurrences, found.skipped, found.after) == ((), 0, MIDNIGHT)
    assert (found.next and found.next.at) == MIDNIGHT + 60_000


def test_a_count_ends_it_whatever_was_skipped() -> None:
    two: dict[str, Any] = {"every": 60, "count": 2}
    first = ask("2026-11-23T00:10", **two)
    assert (hours(first), first.skipped) == (["00:10"], 9)
    assert first.next is not None
    second = ask("2026-11-23T00:11", after="2026-11-23T00:10", fired=1, **two)
    assert (hours(second), second.next) == (["00:11"], None)
    third = ask("2026-11-23T00:12", after="2026-11-23T00:11", fired=2, **two)
    assert (third.occurrences, third.next) == ((), None)
    assert next_occurrence(Recurrence(**two), "n", after=MIDNIGHT, fired=2) is None
    rest = ask("2026-11-23T05:00", fired=1, every=60, count=3, catch_up="all")
    assert (hours(rest), rest.next) == (["00:01", "00:02"], None)


def test_an_end_ends_it() -> None:
    found = ask("2026-11-23T00:05", every=60, end=ms("2026-11-23T00:03"), catch_up="all")
    assert (hours(found), found.next) == (["00:01", "00:02"], None)


SPECIFICATIONS = st.sampled_from(
    (
        {"every": 1},
        {"every": 37, "exclude": ("* 1 * * *",)},
        {"cron": ("*/7 * * * *", "0 2 * * *")},
        {"cron": ("30 2 * * *", "*/20 1-3 * * *")},
        {"cron": ("15 0-5 * * *",), "exclude": ("2026-10-25T03:00/2026-10-25T05:00",)},
    )
)
BEGINNINGS = st.sampled_from(("2026-10-24T23:30", "2026-03-28T23:50", "2026-11-23T00:00"))
STEPS = st.lists(st.integers(0, 2_400_000), min_size=1, max_size=12)


@given(fields=SPECIFICATIONS, begin=BEGINNINGS, steps=STEPS, jitter=st.sampled_from((0.0, 90.5)))
def test_all_gives_each_exactly_once_however_time_moves(
    fields: dict[str, Any], begin: str, steps: list[int], jitter: float
) -> None:
    recurrence = Recurrence(**fields, tz="Europe/Berlin", jitter=jitter, catch_up="all")
    first = now = after = ms(begin)
    found = list[Occurrence]()
    for step in steps:
        now += step
        answer = due(recurrence, "n", after=after, now=now, most=10_000)
        found += answer.occurrences
        after = answer.after
        assert answer.skipped == 0
        assert answer.next == next_occurrence(recurrence, "n", after=after)
        assert answer.next is not None
        assert answer.next.due > now
    shift = jitter_ms(recurrence, "n")
    assert found == list(between(recurrence, "n", start=first + 1, end=now - shift + 1))
    assert all(earlier.due < later.due for earlier, later in pairwise(found))


@given(
    fields=SPECIFICATIONS, begin=BEGINNINGS, steps=STEPS, rule=st.sampled_from(("latest", "none"))
)
def test_what_is_made_up_for_and_what_is_skipped_add_up_to_all(
    fields: dict[str, Any], begin: str, steps: list[int], rule: Any
) -> None:
    recurrence = Recurrence(**fields, tz="Europe/Berlin", catch_up=rule)
    first = now = after = ms(begin)
    ids, skipped, bounded = list[str](), 0, False
    for step in steps:
        now += step
        answer = due(recurrence, "n", after=after, now=now)
        assert len(answer.occurrences) <= 1
        ids += [one.id for one in answer.occurrences]
        skipped, bounded = skipped + answer.skipped, bounded or answer.skipped == 1_000
        after = answer.after
    everything = [one.id for one in between(recurrence, "n", start=first + 1, end=now + 1)]
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(everything)
    if bounded:
        assert len(ids) + skipped <= len(everything)
    else:
        assert len(ids) + skipped == len(everything)
    if rule == "latest" and everything:
        assert ids[-1] == everything[-1]


# Ranges


def test_a_range_is_counted_before_it_is_made() -> None:
    found = measure(NIGHTLY, "n", start=ms("2026-01-01T00:00"), end=ms("2027-01-01T00:00"))
    made = list(between(NIGHTLY, "n", start=ms("2026-01-01T00:00"), end=ms("2027-01-01T00:00")))
    assert (found.count, found.more) == (365, False)
    assert (found.first, found.last) == (made[0], made[-1])
    assert len(made) == 365


def test_a_range_of_millions_says_that_there_are_more_than_were_counted() -> None:
    span = {"start": ms("2000-01-01T00:00"), "end": ms("2026-01-01T00:00")}
    seconds = measure(Recurrence(every=1), "n", **span)
    assert (seconds.count, seconds.more) == (1_000_000, True)
    some = measure(Recurrence(cron=("* * * * *",)), "n", **span, most=1_000)
    assert (some.count, some.more) == (1_000, True)
    assert (some.last and shown(some.last.at)) == "2025-12-31T23:59:00"
    exact = measure(Recurrence(every=1), "n", **span, most=10**9)
    assert (exact.count, exact.more) == ((span["end"] - span["start"]) // 1000, False)


def test_a_range_includes_its_start_and_not_its_end_to_the_millisecond() -> None:
    hourly = Recurrence(every=3600)
    for start, end, count in (
        (0, 2 * HOUR, 2),
        (1, 2 * HOUR, 1),
        (0, 2 * HOUR + 1, 3),
        (-1, 1, 1),
    ):
        span = {"start": MIDNIGHT + start, "end": MIDNIGHT + end}
        assert measure(hourly, "n", **span).count == count
        assert len(list(between(hourly, "n", **span))) == count


@pytest.mark.parametrize("fields", [MINUTELY, {"cron": ("* * * * *",)}])
def test_an_empty_range_has_none(fields: dict[str, Any]) -> None:
    ended = Recurrence(**fields, end=ms("2020-01-01T00:00"))
    found = measure(ended, "n", start=MIDNIGHT, end=MIDNIGHT + HOUR)
    assert (found.count, found.more, found.first, found.last) == (0, False, None, None)
    assert measure(ended, "n", start=5, end=5).count == 0
    backwards = measure(Recurrence(**fields), "n", start=MIDNIGHT, end=MIDNIGHT - HOUR)
    assert (backwards.count, backwards.first) == (0, None)


@given(fields=SPECIFICATIONS, begin=BEGINNINGS, length=st.integers(0, 30_000_000))
def test_ranges_side_by_side_have_what_the_whole_has(
    fields: dict[str, Any], begin: str, length: int
) -> None:
    recurrence, start = Recurrence(**fields, tz="Europe/Berlin"), ms(begin)
    middle, end = start + length // 3, start + length
    whole = measure(recurrence, "n", start=start, end=end)
    parts = [measure(recurrence, "n", start=a, end=b) for a, b in ((start, middle), (middle, end))]
    assert whole.count == sum(part.count for part in parts)
    assert whole.count == len(list(between(recurrence, "n", start=start, end=end)))
