"""What handlers say of their runs is checked, or made fit to be kept, where they say it."""

import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from andon.lifecycle.admission import admit
from andon.lifecycle.apply import stamped
from andon.model.task import Definition, Stamp
from andon.model.text import one_line, storable
from andon.worker.context import MOST_MESSAGE, Context
from andon.worker.control import Retry, Snooze
from andon.worker.outcomes import error_of

NAME = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
"""A file's name as Python gives it where it is not UTF-8."""


class Text(str):
    """A text that says something else when it is asked."""

    def __str__(self) -> str:
        raise RuntimeError("asked")


def context() -> Context:
    task = stamped(admit(Definition(id="a", name="n"), 1, "w"), Stamp("r", 1, "w", "t", 1, 30_001))
    return Context(task, "w", lambda _: None)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("plain", "plain"),
        ("café", "café"),
        (NAME, "caf\\udce9.txt"),
        ("half \ud83d", "half \\ud83d"),
        ("a\0b", "a\\x00b"),
        ("é\0", "é\\x00"),
        (Text("own"), "own"),
        (Text("öwn"), "öwn"),
    ],
)
def test_text_is_made_storable_and_shows_what_was_there(given: str, kept: str):
    made = storable(given)
    assert (made, type(made)) == (kept, str)
    assert msgspec.json.decode(msgspec.json.encode(made)) == kept


def test_one_line_holds_nothing_that_a_terminal_or_a_reader_of_lines_obeys():
    nasty = "a\nb\rc\x1b]0;x\x07\x9b31m\u202eright\u2028end\tcolumn\udce9"
    shown = one_line(nasty)
    assert shown == ("a\\nb\\rc\\x1b]0;x\\x07\\x9b31m\\u202eright\\u2028end\tcolumn\\udce9")
    assert len(shown.splitlines()) == 1


def test_a_progress_message_that_no_store_can_keep_is_kept_as_it_can_be():
    ctx = context()
    ctx.progress(10, f"reads {NAME}\0")
    assert (ctx.percent, ctx.message) == (10, "reads caf\\udce9.txt\\x00")
    ctx.progress(11, "\udce9" * MOST_MESSAGE)
    assert len(ctx.message) == MOST_MESSAGE


def test_a_progress_message_that_is_no_text_is_refused_and_changes_nothing():
    ctx = context()
    ctx.progress(10, "before")
    with pytest.raises(TypeError, match="is text, got a bytes"):
        ctx.progress(20, b"after")  # type: ignore[arg-type]
    assert (ctx.percent, ctx.message) == (10, "before")


DELAYS: list[Any] = [
    *(math.nan, math.inf, -math.inf, -1, -0.001, 1e306, 10**20, 10**5000, 100 * 367 * 86_400),
    *("5", b"5", None, [], Decimal("NaN"), Decimal(10) ** 400, object()),
]


@pytest.mark.parametrize(
    "seconds", DELAYS, ids=lambda value: f"{value!r:.20}" if value != 10**5000 else "huge"
)
def test_a_snooze_or_retry_that_cannot_be_is_refused_where_it_is_made(seconds: Any):
    with pytest.raises(ValueError, match="takes seconds, from 0 to 3153600000"):
        Snooze(seconds)
    if seconds is not None:
        with pytest.raises(ValueError, match="delay of a retry takes seconds"):
            Retry(seconds)


@pytest.mark.parametrize("seconds", [0, 0.5, 60, 100 * 365 * 86_400, Decimal("1.5")])
def test_a_snooze_of_up_to_a_hundred_years_is_fine(seconds: Any):
    assert Snooze(seconds).seconds == float(seconds)
    assert Retry(seconds).delay == float(seconds)


class BadCode(Exception):
    @property
    def code(self) -> str:
        raise RuntimeError("no code for you")


class BadText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Odd(Exception):
    __module__ = f"odd\0{NAME}"


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (BadCode("x"), "x", "BadCode"),
        (BadText(), "(its message cannot be shown)", "BadText"),
        (Odd("x"), "x", "Odd"),
        (ValueError(f"no {NAME}\0"), "no caf\\udce9.txt\\x00", "ValueError"),
        (ValueError(Text("own")), "(its message cannot be shown)", "ValueError"),
        (ExceptionGroup("many\0", [BadText()]), "many\\x00 (1 sub-exception)", "ExceptionGroup"),
    ],
)
def test_whatever_an_exception_is_its_error_can_be_kept(error: Exception, message: str, code: str):
    try:
        raise error
    except Exception as raised:
        kept = error_of(raised)
    assert (kept.message, kept.code) == (message, code)
    told = msgspec.json.encode(kept).decode()
    assert "\\u0000" not in told
