"""Text from outside made fit to be kept and to be shown. Pure.

A file name that is not UTF-8 reaches Python as text with half surrogates, which no encoder takes;
PostgreSQL keeps no NUL in a text. Where such text enters (progress, errors, tracebacks, log lines,
what programs print), it is made storable, so that it cannot make other writes with it fail.
"""

import re

_NUL = "\0"
_NUL_SHOWN = "\\x00"

_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f"  # control characters but the tab; terminals obey C1 ones too
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of what follows
    "\u2028\u2029"  # line and paragraph separators
    "\ud800-\udfff]"
)


def storable(text: str) -> str:
    r"""The text as every store can keep it: half surrogates and NUL are replaced by their escapes
    (`\udcff`, `\x00`), so that a reader sees that something was there, and what."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    elif type(text) is not str:  # a subclass, which no encoder needs to know
        text = str.__str__(text)
    return text.replace(_NUL, _NUL_SHOWN) if _NUL in text else text


def one_line(text: str) -> str:
    """The text as one line that is safe on a terminal and in a list of lines: control characters,
    line ends among them, are replaced by their escapes."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
