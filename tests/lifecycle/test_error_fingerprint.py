"""The fingerprint of an error: what is taken out of a message, what stays, its bounds."""

from random import Random

import pytest

from andon.lifecycle.error_fingerprint import (
    MOST_SHOWN,
    error_fingerprint,
    error_pattern,
    letter_fingerprint,
    letter_pattern,
)
from andon.model.task import Definition, Status, Task, TaskError
from andon.model.words import Reason, State


def pattern(message: str, kind: str = "E") -> str:
    return error_pattern(TaskError(message=message, type=kind))


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Order 4711 not found", "Order # not found"),
        ("got -5", "got #"),
        ("took 3.14 s", "took # s"),
        ("took 5ms", "took #"),
        ("at 2026-11-25T10:00:00.123Z", "at #"),
        ("10.0.0.1:5432 refused", "# refused"),
        ("row 019a3f5e8c2d4b7aa1b2c3d4e5f60718 is locked", "row # is locked"),
        ("row 7b1e0a52-3c4d-4e5f-8a9b-0c1d2e3f4a5b is locked", "row # is locked"),
        ("token Zm9vYmFy-aB3_xYz9QkLmNw is spent", "token # is spent"),
        ("<Thing object at 0x7f3a5c2b1d90>", "<Thing object at #>"),
        ("no key 'name'", 'no key "…"'),
        ('no key "a b c"', 'no key "…"'),
        ("no key \u201cx\u201d", 'no key "…"'),
        ("\u2018it\u2019s\u2019 isn\u2019t", '"…" isn\u2019t'),
        ("no key `x`", 'no key "…"'),
        ("can't read 'it's'", 'can\'t read "…"'),
        ("can't and won't", "can't and won't"),
        ("[1, 2, 3] is too long", "[#] is too long"),
        ("[1, 2] is too long", "[#] is too long"),
        ("mail to ann.smith@example.org bounced", "mail to <email> bounced"),
        ("connection\n  reset\tby peer", "connection reset by peer"),
        ("ConnectionResetByPeerError", "ConnectionResetByPeerError"),
    ],
)
def test_what_differs_from_task_to_task_is_taken_out(message: str, said: str) -> None:
    assert pattern(message) == f"E: {said}"


def test_errors_that_differ_in_values_only_have_one_fingerprint() -> None:
    random = Random(7)
    found = {
        error_fingerprint(
            TaskError(
                message=f"Order {random.getrandbits(random.choice((8, 40, 128))):x}0 of "
                f"'{random.choice(['Ann', 'Bo b', ''])}' failed after {random.random():.3f} s",
                type="shop.Failed",
            )
        )
        for _ in range(500)
    }
    assert len(found) == 1


def test_another_type_or_another_sentence_is_another_kind_of_error() -> None:
    first = TaskError(message="Order 1 not found", type="shop.NotFound")
    assert error_fingerprint(first) != error_fingerprint(
        TaskError(message="Order 1 not found", type="shop.Gone")
    )
    assert error_fingerprint(first) != error_fingerprint(
        TaskError(message="Order 1 not paid", type="shop.NotFound")
    )


def test_the_code_stands_for_an_error_without_a_type() -> None:
    error = TaskError(message="The run took longer than 3 s.", code="TIMEOUT")
    assert error_pattern(error) == "TIMEOUT: The run took longer than # s."
    assert error_pattern(TaskError(message="", code="TIMEOUT")) == "TIMEOUT"


def test_a_fingerprint_is_the_same_in_every_process_and_release() -> None:
    error = TaskError(message="Order 4711 of 'Ann' not found", type="shop.NotFound")
    assert error_fingerprint(error) == "87217a02cf2ec263"


def test_a_dead_letter_without_an_error_is_grouped_by_how_it_ended() -> None:
    def letter(error: TaskError | None) -> Task:
        status = Status(
            state=State.EXPIRED,
            created_at=0,
            reason=Reason.DEADLINE_EXCEEDED,
            last_error=error,
        )
        return Task(definition=Definition(id="a", name="n"), status=status)

    assert letter_pattern(letter(None)) == "expired: deadline-exceeded"
    error = TaskError(message="no", type="E")
    assert letter_pattern(letter(error)) == "E: no"
    assert letter_fingerprint(letter(error)) == error_fingerprint(error)


@pytest.mark.parametrize(
    "message",
    [
        "x" * 1_000_000,
        "'" * 100_000,
        "a'b" * 100_000,
        "1 " * 100_000,
        "a" * 1999 + "1",
        "a@" * 100_000,
        "-_" * 100_000,
        "a.b@c." * 50_000,
        "#" * 100_000,
        "'a" * 100_000,
    ],
)
def test_no_message_makes_it_long_or_endless(message: str) -> None:
    """An expression that goes astray on one of these would not come back within the test's time."""
    assert len(pattern(message)) <= MOST_SHOWN


def test_what_would_break_a_line_or_a_terminal_is_escaped() -> None:
    hostile = "\x1b[31mred\u202e\ud800\x00"
    said = pattern(hostile, kind="E\n")
    assert said.isprintable()
    assert len(error_fingerprint(TaskError(message=hostile))) == 16
