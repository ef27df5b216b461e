"""Times as they are read and written: what `datetime` makes of them."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from andon.lifecycle.admission import LATEST_MS
from andon.lifecycle.faces.fields import iso, iso_seconds
from andon.service.taskcluster.times import a_year_after, read, written

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = 1_764_108_000_123


def moments() -> list[int]:
    rng = random.Random(1)
    near = [NOW + rng.randrange(-(10**10), 10**10) for _ in range(1_000)]
    far = [rng.randrange(LATEST_MS) for _ in range(1_000)]
    return [0, 1, 999, 59_999, 60_000, 86_399_999, 86_400_000, NOW, LATEST_MS, *near, *far]


def test_a_time_is_written_in_utc_with_milliseconds() -> None:
    for ms in moments():
        moment = EPOCH + timedelta(milliseconds=ms)
        assert iso(ms) == moment.isoformat(timespec="milliseconds")[:-6] + "Z"
        assert iso_seconds(ms) == moment.isoformat(timespec="seconds")[:-6] + "Z"


def test_a_time_that_no_date_can_be_written_of_is_the_nearest_that_can() -> None:
    assert iso(-1) == iso_seconds(-5_000)[:-1] + ".000Z" == "1970-01-01T00:00:00.000Z"
    assert iso(LATEST_MS + 1) == iso(10**18) == "9999-12-31T23:59:59.999Z"


def test_what_was_written_is_read() -> None:
    for ms in moments():
        assert read(written(ms)) == ms
        whole = ms // 1000 * 1000
        assert read(iso_seconds(ms)) == whole
        assert read(iso_seconds(ms).replace("T", " ").replace("Z", "z")) == whole


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-25T10:00:00.1239Z", "2026-11-25T10:00:00.123Z"),
        ("2026-11-25T10:00:00.5Z", "2026-11-25T10:00:00.500Z"),
        ("2026-11-25t10:00:00+02:30", "2026-11-25T07:30:00.000Z"),
        ("2026-11-25T10:00:00-02:30", "2026-11-25T12:30:00.000Z"),
        ("2026-01-01T00:00:00+23:59", "2025-12-31T00:01:00.000Z"),
        ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00.000Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"),
    ],
)
def test_a_time_may_have_an_offset_and_any_fraction(text: str, utc: str) -> None:
    assert written(read(text)) == utc


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a date and time"),
        ("2026-11-25", "is not a date and time"),
        ("2026-11-25T10:00:00", "is not a date and time"),
        ("2026-11-25T10:00:00.Z", "is not a date and time"),
        ("2026-11-25T10:00:00Z ", "is not a date and time"),
        ("\u0662026-11-25T10:00:00Z", "is not a date and time"),
        ("2026-13-25T10:00:00Z", "month must be in"),
        ("2026-02-29T10:00:00Z", "day is out of range"),
        ("0000-01-01T10:00:00Z", "year 0 is out of range"),
        ("2026-11-25T24:00:00Z", "hour must be in"),
        ("2026-11-25T10:60:00Z", "minute must be in"),
        ("2026-11-25T10:00:60Z", "second must be in"),
        ("2026-11-25T10:00:00+24:00", "offset that is none"),
        ("2026-11-25T10:00:00+00:60", "offset that is none"),
        ("1969-12-31T23:59:59Z", "before the year 1970"),
        ("1970-01-01T00:00:00+00:01", "before the year 1970"),
    ],
)
def test_what_is_no_time_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read(text)


def test_a_year_after_is_the_same_day_and_time() -> None:
    for text, after in (
        ("2026-11-25T10:00:00.123Z", "2027-11-25T10:00:00.123Z"),
        ("2024-02-29T23:59:59.999Z", "2025-03-01T23:59:59.999Z"),
        ("2023-03-01T00:00:00.000Z", "2024-03-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ):
        assert written(a_year_after(read(text))) == after
