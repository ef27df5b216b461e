"""What a change of the clocks does to a schedule, in places that are known for theirs."""

import pytest

from lifecycle.recurrence.moments import local, rows, times

BERLIN = "Europe/Berlin"


def test_a_fixed_time_that_is_skipped_fires_when_the_skip_ends() -> None:
    assert local("2026-03-28T12:00", 2, cron=("30 2 * * *",), tz=BERLIN) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_all_that_is_skipped_fires_once_and_together_with_what_is_due_then() -> None:
    assert local("2026-03-29T00:30", 3, cron=("0,30 2 * * *", "0 3 * * *"), tz=BERLIN) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_fixed_time_that_is_shown_twice_fires_the_first_time() -> None:
    assert local("2026-10-24T12:00", 2, cron=("30 2 * * *",), tz=BERLIN) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]


@pytest.mark.parametrize("seconds", [0, 1, 1799, 1800, 3599, 3600, 5399])
def test_a_fixed_time_does_not_fire_again_whenever_it_is_asked_for(seconds: int) -> None:
    asked = (
        f"2026-10-25T0{(1800 + seconds) // 3600}:{(1800 + seconds) // 60 % 60:02}:{seconds % 60:02}"
    )
    assert times(asked, 1, cron=("30 2 * * *",), tz=BERLIN) == ["2026-10-26T01:30:00"]


def test_by_the_clock_nothing_fires_in_a_skipped_hour_and_all_twice_in_a_repeated_one() -> None:
    cron = ("*/30 2 * * *",)
    assert local("2026-03-28T12:00", 1, cron=cron, tz=BERLIN) == ["2026-03-30T02:00:00+02:00"]
    assert local("2026-10-24T12:00", 5, cron=cron, tz=BERLIN) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-26T02:00:00+01:00",
    ]


def test_every_hour_is_every_hour_of_a_long_day_and_a_short_one() -> None:
    for begin, end, hours in (
        ("2026-03-28T22:59", "2026-03-29T22:00:00", 24),
        ("2026-10-24T21:59", "2026-10-25T23:00:00", 26),
    ):
        found = times(begin, 30, cron=("0 * * * *",), tz=BERLIN)
        assert found.index(end) + 1 == hours


def test_a_zone_whose_clocks_go_by_half_an_hour_loses_nothing() -> None:
    assert times("2026-04-04T13:00", 4, cron=("*/15 2 * * *",), tz="Australia/Lord_Howe") == [
        "2026-04-04T15:30:00",
        "2026-04-04T15:45:00",
        "2026-04-04T16:00:00",
        "2026-04-04T16:15:00",
    ]


def test_a_midnight_that_is_skipped_is_an_hour_later() -> None:
    assert local("2026-04-23T12:00", 2, cron=("@daily",), tz="Africa/Cairo") == [
        "2026-04-24T01:00:00+03:00",
        "2026-04-25T00:00:00+03:00",
    ]


def test_a_day_that_is_skipped_is_made_up_for_when_the_next_begins() -> None:
    """Samoa had no 30 December 2011."""
    assert local("2011-12-29T00:00", 3, cron=("0 5 * * *",), tz="Pacific/Apia") == [
        "2011-12-29T05:00:00-10:00",
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T05:00:00+14:00",
    ]


def test_clocks_that_go_back_at_midnight_show_the_evening_twice() -> None:
    """Paraguay, 2023: 2023-03-25 had 25 hours."""
    assert local("2023-03-25T12:00", 3, cron=("30 23 * * *",), tz="America/Asuncion") == [
        "2023-03-25T23:30:00-03:00",
        "2023-03-26T23:30:00-04:00",
        "2023-03-27T23:30:00-04:00",
    ]


def test_hours_of_work_stay_where_they_are_on_the_clock() -> None:
    """Nine to four is nine to four on the day of the change too."""
    found = local("2024-03-09T13:00", 16, cron=("0 9-16 * * *",), tz="America/New_York")
    assert [one[11:] for one in found[::8]] == ["09:00:00-05:00", "09:00:00-04:00"]
    assert [one[11:13] for one in found] == [f"{hour:02}" for hour in range(9, 17)] * 2


def test_the_day_of_a_skipped_time_has_its_run_and_so_has_the_day_after() -> None:
    """`0 2 * * *` in New York, 2024-03-10: one run, and none of zero length before the next."""
    assert times("2024-03-09T07:00", 3, cron=("0 2 * * *",), tz="America/New_York") == [
        "2024-03-10T07:00:00",
        "2024-03-11T06:00:00",
        "2024-03-12T06:00:00",
    ]
    assert times("2024-03-10T07:00", 1, cron=("0 2 * * *",), tz="America/New_York") == [
        "2024-03-11T06:00:00"
    ]


def test_the_repeated_hour_has_no_run_ahead_of_its_time() -> None:
    """`0 1 * * *` in New York, 2024-11-03: the first of both ones, asked from between them."""
    cron, zone = ("0 1 * * *",), "America/New_York"
    assert times("2024-11-03T04:30", 2, cron=cron, tz=zone) == [
        "2024-11-03T05:00:00",
        "2024-11-04T06:00:00",
    ]
    assert times("2024-11-03T05:30", 1, cron=cron, tz=zone) == ["2024-11-04T06:00:00"]


def test_every_five_minutes_goes_on_while_the_clocks_go_back() -> None:
    found = times("2018-10-28T00:00", 24, cron=("*/5 * * * *",), tz="Europe/Amsterdam")
    assert [one[11:16] for one in found] == [
        f"{minute // 60:02}:{minute % 60:02}" for minute in range(5, 125, 5)
    ]


def test_seconds_that_a_star_begins_are_by_the_clock_and_others_fixed_times() -> None:
    every = ("*/30 30 2 * * *",)
    assert local("2026-03-28T12:00", 1, cron=every, tz=BERLIN) == ["2026-03-30T02:30:00+02:00"]
    fixed = ("15 30 2 * * *",)
    assert local("2026-03-28T12:00", 1, cron=fixed, tz=BERLIN) == ["2026-03-29T03:00:00+02:00"]


def test_an_interval_counts_on_whatever_the_clocks_do() -> None:
    assert local("2026-10-24T12:00", 3, every=86_400, tz=BERLIN) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-26T01:00:00+01:00",
        "2026-10-27T01:00:00+01:00",
    ]


def notes(after: str, number: int, *cron: str, tz: str = BERLIN) -> list[str]:
    return [" ".join(row.notes) for row in rows(after, number, cron=cron, tz=tz)]


SPRING = "Clocks go forward on 2026-03-29 from 02:00 to 03:00"
AUTUMN = "Clocks go back on 2026-10-25 from 03:00 to 02:00"


def test_explained_a_skipped_time_says_for_what_it_fires() -> None:
    assert notes("2026-03-28T00:00", 3, "30 2 * * *") == [
        "",
        f"{SPRING}: fires at 03:00 for 02:30, which the clocks do not show.",
        "",
    ]


def test_explained_the_time_after_a_skip_says_what_does_not_fire() -> None:
    left_out = "02:00, 02:10, 02:20 and 3 more"
    assert notes("2026-03-29T00:50", 2, "*/10 2-3 * * *") == [
        f"{SPRING}: does not fire for {left_out}, which the clocks do not show.",
        "",
    ]


def test_explained_a_repeated_time_says_which_of_both_it_is() -> None:
    assert notes("2026-10-24T23:30", 4, "0 2 * * *", "30 1-3 * * *") == [
        f"{AUTUMN}: shown twice, and fires the first time only.",
        f"{AUTUMN}: shown twice, and fires the first time only.",
        "",
        "",
    ]
    assert notes("2026-10-24T23:30", 3, "0 * * * *") == [
        f"{AUTUMN}: shown twice, and fires both times; this is the first.",
        f"{AUTUMN}: shown twice, and fires both times; this is the second.",
        "",
    ]


def test_explained_an_interval_says_that_it_counts_on() -> None:
    found = rows("2026-10-24T12:00", 3, every=43_200, tz=BERLIN)
    assert [row.notes for row in found] == [(), (f"{AUTUMN}; the interval counts on.",), ()]


def test_explained_what_is_excluded_is_not_told() -> None:
    found = rows("2026-03-28T12:00", 1, cron=("30 2 * * *",), tz=BERLIN, exclude=("2026-03-29",))
    assert [(row.local, row.notes) for row in found] == [("2026-03-30T02:30:00+02:00", ())]


def test_explained_rows_say_local_time_utc_and_id() -> None:
    [row] = rows("2026-11-22T12:00", 1, cron=("0 7 * * *",), tz=BERLIN)
    assert (row.local, row.utc) == ("2026-11-23T07:00:00+01:00", "2026-11-23T06:00:00Z")
    assert row.occurrence.id == "nightly:20261123T060000Z"
