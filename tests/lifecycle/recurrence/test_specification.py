"""What a specification names: intervals, bounds, exclusions; and what none may say."""

from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.lifecycle.recurrence.checking import check
from andon.lifecycle.recurrence.times import times_of
from andon.model.errors import InvalidSubmission
from andon.model.recurrence import Recurrence
from lifecycle.recurrence.moments import ms, times

BERLIN = "Europe/Berlin"


def test_an_interval_is_counted_from_1970_so_that_it_is_the_same_everywhere() -> None:
    assert times("2026-11-23T10:01:07", 3, every=300) == [
        "2026-11-23T10:05:00",
        "2026-11-23T10:10:00",
        "2026-11-23T10:15:00",
    ]


def test_an_interval_may_be_counted_from_an_anchor_before_or_after() -> None:
    for anchor in ("2020-01-01T00:00:07", "2030-01-01T00:00:07"):
        assert times("2026-11-23T10:00", 2, every=60, anchor=ms(anchor)) == [
            "2026-11-23T10:00:07",
            "2026-11-23T10:01:07",
        ]


def test_the_next_time_is_later_than_the_one_asked_from() -> None:
    assert times("2026-11-23T10:05", 1, every=300) == ["2026-11-23T10:10:00"]
    assert times("2026-11-23T10:00", 1, cron=("0 10 * * *",)) == ["2026-11-24T10:00:00"]


def test_a_start_is_included_and_an_end_is_not() -> None:
    bounds = {"start": ms("2026-11-23T10:00"), "end": ms("2026-11-23T12:00")}
    wanted = ["2026-11-23T10:00:00", "2026-11-23T11:00:00"]
    assert times("2020-01-01T00:00", 9, every=3600, **bounds) == wanted
    assert times("2020-01-01T00:00", 9, cron=("@hourly",), **bounds) == wanted
    assert times("2026-11-23T11:00", 9, cron=("@hourly",), **bounds) == []
    within = {"start": ms("2026-11-23T10:00") - 1, "end": ms("2026-11-23T11:00") + 1}
    assert times("2020-01-01T00:00", 9, every=3600, **within) == wanted


def test_a_time_that_several_expressions_name_counts_once() -> None:
    assert times("2026-11-23T00:00", 4, cron=("0 */6 * * *", "0 12 * * *", "30 6 * * *")) == [
        "2026-11-23T06:00:00",
        "2026-11-23T06:30:00",
        "2026-11-23T12:00:00",
        "2026-11-23T18:00:00",
    ]


def test_dates_and_ranges_of_dates_are_left_out_by_the_local_day() -> None:
    excluded = ("2026-12-24/2026-12-26", "2026-12-31")
    found = times("2026-12-23T00:00", 5, cron=("0 0 * * *",), tz=BERLIN, exclude=excluded)
    assert [one[:10] for one in found] == [
        "2026-12-26",  # 27 December in Berlin, an hour ahead
        "2026-12-27",
        "2026-12-28",
        "2026-12-29",
        "2026-12-31",
    ]


def test_a_range_of_times_is_left_out_up_to_its_end() -> None:
    assert times(
        "2026-12-24T16:00", 3, cron=("0 * * * *",), exclude=("2026-12-24T18:00/2026-12-27T06:00",)
    ) == ["2026-12-24T17:00:00", "2026-12-27T06:00:00", "2026-12-27T07:00:00"]


def test_the_minutes_of_a_cron_expression_are_left_out() -> None:
    assert times(
        "2026-11-23T11:58:30", 3, every=20, exclude=("* 12 * * *", "59 * * * *", "@midnight")
    ) == ["2026-11-23T11:58:40", "2026-11-23T13:00:00", "2026-11-23T13:00:20"]


def test_every_second_of_sundays_only_is_found_at_once() -> None:
    assert times("2026-11-23T00:00", 2, every=1, exclude=("* * * * 1-6",)) == [
        "2026-11-29T00:00:00",
        "2026-11-29T00:00:01",
    ]


def test_what_the_clocks_show_again_is_not_left_out_for_what_they_showed_before() -> None:
    """Between 2:40 and 3:00 nothing is wanted, and at 3:00 the clocks go back to 2:00."""
    found = times("2026-10-25T00:58", 4, cron=("*/20 * * * *",), tz=BERLIN, exclude=("40 2 * * *",))
    assert found[:2] == ["2026-10-25T01:00:00", "2026-10-25T01:20:00"]
    found = times(
        "2026-10-25T00:00", 3, every=1200, tz=BERLIN, exclude=("2026-10-25T02:40/2026-10-25T03:00",)
    )
    assert found == ["2026-10-25T00:20:00", "2026-10-25T01:00:00", "2026-10-25T01:20:00"]


def test_nothing_recurs_for_ever() -> None:
    for fields in ({"every": 86_400}, {"cron": ("0 0 * * *",)}):
        found = times("9963-12-01T00:00", 10_000, **fields)
        assert 0 < len(found) < 10_000


EVERY = {"every": 60}
DAILY = {"cron": ("0 0 * * *",)}


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({}, "cron", "this one has neither"),
        ({**EVERY, **DAILY}, "cron", "not both"),
        ({"every": 0}, "every", "a whole number from 1 to 3,153,600,000 seconds, not 0"),
        ({"every": 1.5}, "every", "not 1.5"),
        ({"every": True}, "every", "not True"),
        ({"every": 10**12}, "every", "not 1000000000000"),
        ({**EVERY, "count": 0}, "count", "count is a whole number from 1"),
        ({**EVERY, "jitter": -1}, "jitter", "0 to 86,400 seconds"),
        ({**EVERY, "jitter": float("nan")}, "jitter", "not nan"),
        ({**EVERY, "anchor": 1_500}, "anchor", "a whole second, not 1970-01-01T00:00:01.500Z"),
        ({**EVERY, "anchor": -1_000}, "anchor", "before the year 1970"),
        ({**DAILY, "anchor": 1_000}, "anchor", "belongs to an interval"),
        ({**EVERY, "start": 10**18}, "start", "later than the year 9999"),
        (
            {**EVERY, "start": ms("2026-11-23T10:00"), "end": ms("2026-11-23T09:00")},
            "end",
            "end (2026-11-23T09:00:00Z) is not after start (2026-11-23T10:00:00Z).",
        ),
        ({**EVERY, "start": 5, "end": 5}, "end", "is not after start"),
        (
            {
                "cron": ("0 0 29 2 *",),
                "start": ms("2026-01-01T00:00"),
                "end": ms("2027-01-01T00:00"),
            },
            "end",
            "none of its times lies from 2026-01-01T00:00:00Z before 2027-01-01T00:00:00Z.",
        ),
        ({**EVERY, "catch_up": "some"}, "catch_up", "one of latest, none, all, not 'some'"),
        (
            {**EVERY, "catch_up_window": 59},
            "catch_up_window",
            "60 to 3,153,600,000 seconds, not 59",
        ),
        ({**EVERY, "catch_up_window": float("nan")}, "catch_up_window", "not nan"),
        (
            {**EVERY, "catch_up": "none", "catch_up_window": 600},
            "catch_up_window",
            "makes up for none; give one of them",
        ),
        ({**EVERY, "tz": "Europe/Berln"}, "tz", "did you mean 'Europe/Berlin'?"),
        ({**EVERY, "tz": "berlin"}, "tz", "did you mean 'Europe/Berlin'?"),
        ({**EVERY, "tz": "new york"}, "tz", "did you mean 'America/New_York'?"),
        ({**EVERY, "tz": "europe/berlin"}, "tz", "did you mean 'Europe/Berlin'?"),
        ({**EVERY, "tz": "UTC+2"}, "tz", "name one of the tz database, such as 'Europe/Berlin'"),
        ({**EVERY, "tz": "../../etc/passwd"}, "tz", "is not known"),
        ({**EVERY, "tz": "Europe"}, "tz", "is not known"),
        ({**EVERY, "tz": ""}, "tz", "leave it out for UTC"),
        ({**EVERY, "tz": "\0"}, "tz", "is not known"),
        ({"cron": ("0 0 * * *",) * 101}, "cron", "at most 100"),
        ({"cron": ("0 0 * * *", "0 25 * * *")}, "cron", "'25'"),
        ({**EVERY, "exclude": ("2026-01-01",) * 1001}, "exclude", "at most 1,000"),
        ({**EVERY, "exclude": ("",)}, "exclude", "is no date (2026-12-25)"),
        ({**EVERY, "exclude": ("2026-02-30",)}, "exclude", "'2026-02-30' is no date"),
        ({**EVERY, "exclude": ("20260230",)}, "exclude", "is no date"),
        ({**EVERY, "exclude": ("2026-01-01T10:00",)}, "exclude", "is no date"),
        ({**EVERY, "exclude": ("2026-01-01/",)}, "exclude", "is no date"),
        ({**EVERY, "exclude": ("2026-01-02 / 2026-01-01",)}, "exclude", "is no date"),
        ({**EVERY, "exclude": ("2026-01-02/2026-01-01",)}, "exclude", "ends before it starts"),
        ({**EVERY, "exclude": ("0 0 12 * * *",)}, "exclude", "whole minutes are left out"),
        ({**EVERY, "exclude": ("* 24 * * *",)}, "exclude", "the hour: '24'"),
        ({**DAILY, "exclude": ("@daily",)}, "exclude", "exclusions leave out all of its times"),
        ({**EVERY, "exclude": ("* * * * *",)}, "exclude", "leave out all of its times"),
    ],
)
def test_what_can_never_work_is_refused_in_one_sentence(
    fields: dict[str, Any], field: str, part: str
) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        check(Recurrence(**fields))
    assert part in str(refused.value)
    assert refused.value.field == field
    assert "\n" not in str(refused.value)


def test_exclusions_that_leave_out_everything_piece_by_piece_are_given_up() -> None:
    with pytest.raises(InvalidSubmission, match="or the first 10,000 of them"):
        check(Recurrence(every=1, exclude=("0-29 * * * *", "30-59 * * * *")))


def test_one_whose_end_is_past_is_not_malformed() -> None:
    check(Recurrence(every=60, start=ms("1999-01-01T00:00"), end=ms("1999-01-02T00:00")))


def test_it_is_a_value_that_is_encoded_and_decoded() -> None:
    whole = Recurrence(
        cron=("0 2 * * *",), tz=BERLIN, exclude=("2026-12-25",), start=1, end=10**13, count=3,
        jitter=1.5, catch_up="all", catch_up_window=600.0,
    )  # fmt: skip
    for one in (whole, Recurrence(every=5, anchor=1_000)):
        assert msgspec.json.decode(msgspec.json.encode(one), type=Recurrence) == one
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Recurrence) == one
        assert hash(one) == hash(msgspec.structs.replace(one))
    assert msgspec.json.encode(Recurrence(every=5)) == b'{"every":5}'


@given(
    every=st.integers(1, 10**6),
    anchor=st.integers(0, 10**9),
    after=st.integers(0, 4 * 10**9),
    exclude=st.lists(
        st.sampled_from(("* 3 * * *", "0-30 * * * *", "* * * * 2,4", "2001-09-09/2040-01-01")),
        max_size=3,
    ),
)
def test_times_rise_and_asking_again_from_each_gives_the_next(
    every: int, anchor: int, after: int, exclude: list[str]
) -> None:
    found = times_of(Recurrence(every=every, anchor=anchor * 1000, exclude=tuple(exclude)))
    first = list(islice(found.after(after), 5))
    assert all(earlier < later for earlier, later in zip([after, *first], first, strict=False))
    assert all((at - anchor) % every == 0 for at in first)
    asked, one_by_one = after, list[int]()
    for _ in first:
        at = found.next(asked)
        assert at is not None
        one_by_one.append(at)
        asked = at
    assert one_by_one == first
