"""What may be typed for durations, times, rates; and how numbers are told."""

import click
import pytest

from andon.cli.values import When, comma_separated, when_of
from andon.model.cleaning import clean
from andon.model.durations import seconds_of
from andon.model.rates import rate_of
from andon.model.wording import ago, size_of, span


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("0.5", 0.5), ("30s", 30), ("1h30m", 5400), ("2d", 172_800), ("250ms", 0.25)],
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "-5", "-5s", "nan", "inf", "1h30", "h"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds_of(text)


def test_times() -> None:
    assert when_of("now") == When()
    assert when_of("+5m").on(1_000) == 301_000
    assert when_of("1970-01-01T00:00:01Z").on(99) == 1_000
    assert when_of("1970-01-01T01:00:01+01:00").on(99) == 1_000
    assert when_of("1970-01-02").on(99) == 86_400_000
    for text in ("tomorrow", "5m", "+soon"):
        with pytest.raises(ValueError, match="is no"):
            when_of(text)


def test_rates() -> None:
    assert [rate_of(text) for text in ("5", "300/m", "3600/h", "2/s")] == [5, 5, 1, 2]
    for text in ("fast", "5/y", "5/", "-1"):
        with pytest.raises(ValueError, match="is no rate"):
            rate_of(text)


def test_lists() -> None:
    assert comma_separated(("a,b", "b", " c ,")) == ("a", "b", "c")
    for nothing in ("", " ", ","):
        with pytest.raises(click.UsageError, match="An empty name"):
            comma_separated(("a", nothing))


def test_numbers_are_told_in_fitting_units() -> None:
    assert [span(n) for n in (0.25, 3, 45, 90, 5400, 100_000)] == [
        "0.2s", "3s", "45s", "1m 30s", "1h 30m", "1d 3h",
    ]  # fmt: skip
    assert [size_of(n) for n in (12, 2048, 5 << 20, 3 << 40)] == [
        "12 B", "2.0 KiB", "5.0 MiB", "3.0 TiB",
    ]  # fmt: skip
    assert [ago(at, 100_000) for at in (100_000, 40_000, 160_000)] == ["now", "1m ago", "in 1m"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert clean("a\x1b[2J\x07b\nc\x85d") == "a b\nc d"
