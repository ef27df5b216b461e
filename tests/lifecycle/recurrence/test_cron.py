"""Cron expressions: the days and times they match, and the sentence that says what is wrong."""

from datetime import datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from andon.lifecycle.recurrence.cron import parse
from andon.model.errors import InvalidSubmission
from lifecycle.recurrence.reference import Expression

EPOCH = datetime(1970, 1, 1)


def field(low: int, high: int, *extras: str) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    span = (
        st.tuples(value, value).filter(lambda ends: ends[0] < ends[1]).map("{0[0]}-{0[1]}".format)
    )
    step = st.tuples(st.one_of(st.just("*"), span, value.map(str)), st.integers(1, 9))
    term = st.one_of(value.map(str), span, step.map(lambda s: f"{s[0]}/{s[1]}"))
    if extras:
        term |= st.sampled_from(extras)
    return st.just("*") | st.lists(term, min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(
    field(0, 59),
    field(0, 23),
    field(1, 28, "L", "LW"),
    field(1, 12, "FEB", "jun"),
    field(0, 7, "5L", "0L", "2#1", "MON#5", "SUN", "tue"),
).map(" ".join)


@given(text=EXPRESSIONS, begin=st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)))
def test_it_steps_as_its_library_does_where_no_clock_is_set(text: str, begin: datetime) -> None:
    try:
        walls = parse(text).walls((begin - EPOCH) // timedelta(seconds=1) + 1)
    except InvalidSubmission as refused:
        assert "never fires" in str(refused)  # noqa: PT017
        return
    ours = [EPOCH + timedelta(seconds=wall) for wall in islice(walls, 20)]
    assert ours == list(islice(CronSim(text, begin), 20))


@given(text=EXPRESSIONS, minute=st.integers(1, 70 * 365 * 1440), length=st.integers(1, 3_000))
def test_it_matches_what_another_parser_does(text: str, minute: int, length: int) -> None:
    reference = Expression(text)
    wanted = [at for at in range(minute, minute + length) if reference.matches(at)]
    try:
        cron = parse(text)
    except InvalidSubmission:
        assert wanted == []
        return
    found = [wall // 60 for wall in islice(cron.walls(minute * 60), len(wanted) + 1)]
    assert [at for at in found if at < minute + length] == wanted
    assert [at for at in range(minute, minute + length, 7) if cron.matches(at * 60)] == [
        at for at in range(minute, minute + length, 7) if reference.matches(at)
    ]


def test_a_sixth_field_comes_first_and_is_seconds() -> None:
    walls = parse("*/20 59 23 31 12 *").walls(0)
    shown = [str(EPOCH + timedelta(seconds=wall)) for wall in islice(walls, 4)]
    assert shown == [
        "1970-12-31 23:59:00",
        "1970-12-31 23:59:20",
        "1970-12-31 23:59:40",
        "1971-12-31 23:59:00",
    ]


def test_a_range_of_one_value_is_that_value_whatever_its_step() -> None:
    walls = parse("5-5/2 0 1 1 *").walls(0)
    assert [wall % 3600 for wall in islice(walls, 3)] == [300, 300, 300]


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@daily", "0 0 * * *"),
        (" @midnight ", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_names_stand_for_expressions(name: str, meaning: str) -> None:
    ours, theirs = parse(name), parse(meaning)
    assert list(islice(ours.walls(0), 50)) == list(islice(theirs.walls(0), 50))
    assert ours.by_clock == theirs.by_clock


def test_two_restricted_days_are_an_or_and_a_star_makes_them_an_and() -> None:
    either = [EPOCH + timedelta(seconds=at) for at in islice(parse("0 0 1 * MON").walls(0), 5)]
    assert [at.day for at in either] == [1, 5, 12, 19, 26]
    both = [EPOCH + timedelta(seconds=at) for at in islice(parse("0 0 */2 * MON").walls(0), 3)]
    assert [(at.day, at.weekday()) for at in both] == [(5, 0), (19, 0), (9, 0)]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "A cron expression in cron is empty."),
        ("  ", "empty"),
        ("* * * *", "has 4 fields, not 5 (minute hour day-of-month month day-of-week)"),
        ("5", "has 1 field, not 5"),
        ("* * * * * * *", "has 7 fields"),
        ("0 25 * * *", "field 2, the hour: '25' is no value"),
        ("0 25 * * *", "values are 0 to 23"),
        ("0 0 25 * * *", "field 3, the hour: '25'"),
        ("60 * * * * *", "field 1, the second: '60'"),
        ("1,2,x * * * *", "field 1, the minute: 'x'"),
        ("1,,2 * * * *", "field 1, the minute: ''"),
        ("0 0 32 * *", "field 3, the day-of-month: '32'"),
        ("0 0 * 13 *", "field 4, the month: '13'"),
        ("0 0 * FEBR *", "field 4, the month: 'FEBR'"),
        ("0 0 * * FRI-MON", "field 5, the day-of-week: 'FRI-MON'"),
        ("0 0 * * MON#6", "field 5, the day-of-week: 'MON#6'"),
        ("*/0 * * * *", "field 1, the minute: '*/0'"),
        ("5-1 * * * *", "'5-1'"),
        ("0 0 L/2 * *", "field 3, the day-of-month: 'L/2'"),
        ("0 0 30 2 *", "'0 0 30 2 *' never fires: it matches no date."),
        ("0 0 31 4,6,9,11 *", "never fires"),
        ("* * */20 * 1L", "never fires"),
        ("@every 5m", "give the interval as every, in seconds"),
        ("@reboot", "those names are @yearly, @annually, @monthly"),
        ("CRON_TZ=Asia/Tokyo 0 0 * * *", "name the time zone as tz"),
        ("0 " * 300, "is not text of at most 512 characters"),
        ("0 0 * * \0", "is not text"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: str, part: str) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        parse(text)
    assert part in str(refused.value)
    assert refused.value.field == "cron"
    assert "\n" not in str(refused.value)


@given(text=st.text(max_size=40) | st.text("0123456789*/-,#LWSUN @", max_size=30))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        cron = parse(text)
    except InvalidSubmission as refused:
        assert refused.field == "cron"  # noqa: PT017
    else:
        assert next(cron.walls(0)) >= 0
