"""One-minute roll-ups: what two readings say of a minute, and what is missing."""

import pytest
from msgspec.structs import replace

from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.minutes import (
    APART_MS,
    HOUR_MS,
    KEPT_HOURS,
    MINUTE_MS,
    MOST_QUEUES,
    MOST_TYPES,
    Sample,
    added,
    base_from,
    is_quiet,
    minute_history,
    row_of,
    slot_of,
    slot_with,
)
from andon.model.fleet import QueueStats, Tallied
from andon.model.minutes import OTHERS, MinuteBase, MinuteCounts, MinuteRow, MinuteSlot
from andon.model.task import Definition, Run, Status, Task, TaskEvent
from andon.model.words import Event, Reason, State

START = 20_000 * DAY_MS + 10 * HOUR_MS + 3_000
DAY = START // DAY_MS


def tallied(
    queue: str, submitted: int, finished: int, failed: int, day: int = DAY
) -> list[Tallied]:
    return [
        Tallied(queue, day, "submitted", submitted),
        Tallied(queue, day, "finished", finished),
        Tallied(queue, day, "failed", failed),
    ]


def stats(queue: str, pending: int, active: int) -> QueueStats:
    return QueueStats(queue=queue, counts={"pending": pending, "active": active})


def row(
    base: MinuteBase,
    found: list[Tallied],
    now: list[QueueStats],
    after: int = MINUTE_MS,
    **how: int,
) -> MinuteRow | None:
    at = base.at + after
    return row_of(base, found, now, Sample(whole=True), quiet_from=base.at, now=at)


def test_the_difference_of_two_readings_is_a_minute() -> None:
    base = base_from(tallied("a", 10, 5, 1), [stats("a", 3, 1)], START, "c")
    made = row(base, tallied("a", 14, 8, 2) + tallied("b", 1, 0, 0), [stats("a", 2, 4)])
    assert made is not None
    assert made.minute == START // MINUTE_MS
    assert made.queues == {
        "a": MinuteCounts(submitted=4, started=7, finished=3, failed=1, pending=2, active=4),
        "b": MinuteCounts(submitted=1),
    }


def test_a_minute_that_passes_midnight_has_both_days() -> None:
    late = (DAY + 1) * DAY_MS - 30_000
    base = base_from(tallied("a", 10, 0, 0), [], late, "c")
    made = row(base, tallied("a", 12, 0, 0) + tallied("a", 5, 1, 0, day=DAY + 1), [])
    assert made is not None
    assert (made.queues["a"].submitted, made.queues["a"].finished) == (7, 1)
    after = base_from(tallied("a", 5, 1, 0, day=DAY + 1), [], late + MINUTE_MS, "c")
    assert after.totals == {"a": (5, 1, 0)}


def test_readings_too_far_apart_are_no_minute() -> None:
    base = base_from([], [], START, "c")
    assert row(base, tallied("a", 1, 0, 0), [], after=APART_MS + 1) is None


def test_quiet_is_when_nothing_was_counted_and_nothing_moved() -> None:
    found, now = tallied("a", 3, 1, 0), [stats("a", 2, 0)]
    base = base_from(found, now, START, "c")
    assert is_quiet(base, found, now)
    assert not is_quiet(base, tallied("a", 4, 1, 0), now)
    assert not is_quiet(base, found, [stats("a", 1, 1)])
    assert is_quiet(base, found, [*now, stats("idle", 0, 0)])


def test_counts_that_go_back_count_nothing() -> None:
    base = base_from(tallied("a", 10, 5, 1), [stats("a", 0, 9)], START, "c")
    made = row(base, tallied("a", 9, 6, 0), [])
    assert made is not None
    assert made.queues["a"] == MinuteCounts(finished=1)


@pytest.mark.parametrize("what", ["queues", "types"])
def test_names_are_bounded_and_the_rest_is_one(what: str) -> None:
    most = MOST_QUEUES if what == "queues" else MOST_TYPES
    names = [f"n{number}" for number in range(most + 10)]
    if what == "queues":
        found = [one for i, name in enumerate(names) for one in tallied(name, i + 1, 0, 0)]
        made = row(base_from([], [], START, "c"), found, [])
    else:
        sample = Sample(whole=True)
        for number, name in enumerate(names):
            for _ in range(number + 1):
                sample.add(end(), record(name=name))
        made = row_of(
            base_from([], [], START, ""), [], [], sample, quiet_from=START, now=START + 60_000
        )
    assert made is not None
    kept = made.queues if what == "queues" else made.types
    assert len(kept) == most + 1
    others = kept[OTHERS]
    assert others.submitted + others.finished == sum(range(1, 11))


def record(queue: str = "a", name: str = "n", wait: int = 40, run: int = 2_000) -> Task:
    one = Run(0, Reason.SUBMITTED, START - wait - run, "r", "w", START - run, 1)
    status = Status(state=State.COMPLETED, created_at=0, runs=(one,))
    return Task(definition=Definition(id="t", name=name, queue=queue), status=status)


def end(target: State = State.COMPLETED, number: int = 0) -> TaskEvent:
    event = Event.COMPLETE if target is State.COMPLETED else Event.FAIL
    return TaskEvent(3, START, event, State.ACTIVE, target, None, number, task="t")


def test_wait_and_run_times_fall_into_bands_by_queue_and_type() -> None:
    sample = Sample(whole=True)
    sample.add(end(), record(wait=10, run=11))
    sample.add(end(State.RETRY), record(name="m", wait=1_800_001, run=0))
    sample.add(end(number=7), record())  # a run that the record does not have any more
    made = row_of(
        base_from([], [], START, ""), [], [], sample, quiet_from=START, now=START + 60_000
    )
    assert made is not None
    of_queue = made.queues["a"]
    assert of_queue.sampled == 2
    assert of_queue.wait == (1, *[0] * 10, 1)
    assert of_queue.run == (1, 1, *[0] * 10)
    assert {name: (c.finished, c.failed) for name, c in made.types.items()} == {
        "n": (1, 0),
        "m": (0, 1),
    }


def test_sums_of_minutes_have_bands_where_one_of_them_has() -> None:
    one = MinuteCounts(submitted=1, sampled=1, wait=(1, *[0] * 11), run=(0, 1, *[0] * 10))
    both = added([one, MinuteCounts(submitted=2)])
    assert (both.submitted, both.sampled, both.wait, both.run) == (3, 1, one.wait, one.run)
    assert added([]) == MinuteCounts()


def slots(*minutes: int, base_at: int | None = None, quiet_from: int = 0) -> list[MinuteSlot]:
    made: MinuteSlot | None = None
    for minute in minutes:
        since = START + minute * MINUTE_MS
        base = MinuteBase(since + MINUTE_MS, {}, {}, "")
        one = MinuteRow(
            since // MINUTE_MS, since, base.at, quiet_from or since, {"a": MinuteCounts(1)}, {}
        )
        made = slot_with(made, base, one)
    assert made is not None
    return [replace(made, base=replace(made.base, at=base_at or made.base.at))]


def missing(found: list[MinuteSlot], now: int, minutes: int, tallies: list[Tallied]) -> list[int]:
    history = minute_history(found, tallies, [], now=now, minutes=minutes)
    assert history.until - history.since == minutes * MINUTE_MS
    return [(at - START // MINUTE_MS * MINUTE_MS) // MINUTE_MS for at in history.missing]


def test_minutes_without_a_timekeeper_are_missing_and_quiet_ones_are_not() -> None:
    found = slots(0, 1, 4)
    now = START + 5 * MINUTE_MS + 30_000
    assert missing(found, now, 5, tallied("a", 9, 0, 0)) == [2, 3]
    assert missing(found, now + 3 * MINUTE_MS, 8, tallied("a", 9, 0, 0)) == [2, 3, 5, 6, 7]
    assert missing(found, now + 3 * MINUTE_MS, 8, []) == [2, 3]  # nothing happened since
    quiet = slots(4, quiet_from=START + MINUTE_MS)
    assert missing(quiet, now, 5, tallied("a", 9, 0, 0)) == [0]


def test_a_minute_that_ended_a_moment_ago_is_not_missing_yet() -> None:
    found = slots(0, 1)
    now = START + 3 * MINUTE_MS + 1_000
    history = minute_history(found, tallied("a", 9, 0, 0), [], now=now, minutes=2)
    assert history.missing == ()
    assert [point.at for point in history.series[0].points] == [
        START // MINUTE_MS * MINUTE_MS + i * MINUTE_MS for i in range(2)
    ]


def test_nothing_is_known_of_a_store_that_was_never_rolled_up() -> None:
    history = minute_history([], [], [], now=START, minutes=3)
    assert len(history.missing) == 3
    assert history.series == ()


def test_hours_are_kept_in_turn_and_an_old_one_is_overwritten() -> None:
    old = slots(0)[0]
    assert len({slot_of(old.hour + hour) for hour in range(KEPT_HOURS + 1)}) == KEPT_HOURS + 1
    later = MinuteBase(START + (KEPT_HOURS + 1) * HOUR_MS, {}, {}, "")
    assert slot_of(later.at // HOUR_MS) == slot_of(old.hour)
    assert slot_with(old, later, None).rows == ()


def test_a_series_is_of_the_name_that_is_asked_for() -> None:
    found = slots(0, 1)
    now = START + 2 * MINUTE_MS + 30_000
    assert minute_history(found, [], [], now=now, minutes=9, name="b").series == ()
    (series,) = minute_history(found, [], [], now=now, minutes=9, name="a").series
    assert [point.seconds for point in series.points] == [60.0, 60.0]
    assert minute_history(found, [], [], now=now, minutes=9, by_type=True).series == ()
