"""The fingerprint of an error: its type and message without what differs from one task to the next.
Pure.

Errors of one cause say almost the same thing thousands of times: "Order 4711 not found", "Order
4712 not found". `error_pattern` takes out what differs, and `error_fingerprint` is a short hash of
the type and that pattern, by which dead letters are grouped and a new kind of error is noticed.

What is taken out, in this order: quoted values become `"…"`, addresses of mail `<email>`, every
word with a digit in it (a number, a date, an id, a hash, an address in memory) `#`, and numbers
side by side one `#`, so that a list of three looks like a list of five. Words made of letters alone
stay, whatever they mean. The rules are fixed: a fingerprint that was noted yesterday, or by another
release, is that of the same errors today.

A message is read up to `MOST_READ` characters, and a pattern is cut at `MOST_SHOWN`; no input makes
either slow.
"""

import re
from hashlib import blake2b

from andon.model.task import Task, TaskError
from andon.model.text import one_line

MOST_READ = 2_000
"""Characters of a message that are looked at."""

MOST_SHOWN = 200
"""Characters that a pattern has at the most; errors that differ only after them are alike."""

_BYTES = 8

_QUOTED = re.compile(
    r"""(?<!\w)(?:"[^"]*"|'(?:[^']|(?<=\w)'(?=\w))*'|`[^`]*`|\u201c[^\u201d]*\u201d"""
    r"""|\u2018(?:[^\u2019]|(?<=\w)\u2019(?=\w))*\u2019|«[^»]*»)(?!\w)"""
)
"""A value in quotes. What stands between letters (`can't`) is an apostrophe and ends nothing."""

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")

_LONG_ID = re.compile(r"(?<![\w-])(?=[\w-]{16})(?=[A-Za-z_-]*\d)[\w-]+")
"""A word with a digit and perhaps hyphens, as long as random ids are: UUIDs, base64, task ids."""

_WORD_WITH_DIGIT = re.compile(r"(?:(?<![\w#])[-+])?\w*\d\w*")
"""A number with its sign and unit, or any other word with a digit."""

_NUMBERS = re.compile(r"#(?:(?:[.:/_-]+|[.,:;]? +)?[-+]?#)+")
"""Parts of one number, date or address, or numbers of a list."""

_SPACE = re.compile(r"\s+")


def error_pattern(error: TaskError) -> str:
    """The common text of errors of this kind, in one line, without what differs between them; it
    begins with the error's type, or its code where it has none.

    Example:
        from andon.lifecycle.error_fingerprint import error_pattern
        from andon.model.task import TaskError

        error = TaskError(message="Order 4711 of 'Ann' not found", type="shop.NotFound")
        assert error_pattern(error) == 'shop.NotFound: Order # of "…" not found'
    """
    return _shown(error.type or error.code, error.message)


def error_fingerprint(error: TaskError) -> str:
    """Sixteen hex digits, the same for errors of one pattern."""
    return fingerprint_of_pattern(error_pattern(error))


def letter_pattern(task: Task) -> str:
    """The pattern of the error that a dead letter ended with, or of its reason if nothing was
    raised: an expired task, or one that can never run."""
    status = task.status
    if status.last_error is not None:
        return error_pattern(status.last_error)
    return _shown(status.state.value, "" if status.reason is None else status.reason.value)


def letter_fingerprint(task: Task) -> str:
    """The fingerprint by which a dead letter is grouped."""
    return fingerprint_of_pattern(letter_pattern(task))


def fingerprint_of_pattern(pattern: str) -> str:
    """The fingerprint of the errors that have this pattern."""
    return blake2b(pattern.encode("utf-8", "backslashreplace"), digest_size=_BYTES).hexdigest()


def _shown(kind: str, message: str) -> str:
    said = _without_values(message[:MOST_READ])
    return one_line(f"{kind[:MOST_SHOWN]}: {said}" if said else kind)[:MOST_SHOWN]


def _without_values(message: str) -> str:
    said = _QUOTED.sub('"…"', _SPACE.sub(" ", message).strip())
    said = _EMAIL.sub("<email>", said)
    said = _LONG_ID.sub("#", said)
    said = _WORD_WITH_DIGIT.sub("#", said)
    return _NUMBERS.sub("#", said)
