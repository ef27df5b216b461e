"""Text of tasks as a terminal may show it.

A task's error, log, key or worker's name may be any text. On a terminal it could move the cursor,
set the title or the clipboard, answer for its reader, or turn the order of letters so that a line
reads as what it is not. So what is printed has no escape sequences (colours neither), no control
characters, and nothing that turns the direction of writing.
"""

import re

_SEQUENCES = re.compile(
    r"""
    (?:\x1b[\]PX^_] | [\x9d\x90\x98\x9e\x9f]) [^\x07\x1b\x9c\n]* (?:\x07 | \x1b\\ | \x9c)?
    | (?:\x1b\[ | \x9b) [0-?]* [ -/]* [@-~]?
    | \x1b [ -/]* [0-~]?
    """,
    re.VERBOSE,
)
"""Strings (titles, clipboard, links) with their content, CSI sequences (colours, the cursor), and
other escapes; in seven bits and in eight."""

_UNSEEN = dict.fromkeys(
    (
        *range(0x20),  # C0
        *range(0x7F, 0xA0),  # DEL and C1
        0x2028,  # line and paragraph separators
        0x2029,
    ),
    " ",
) | dict.fromkeys(
    (
        0x061C,  # marks of a direction
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),  # embeddings and overrides
        *range(0x2066, 0x206A),  # isolates
        *range(0xD800, 0xE000),  # halves of characters, which no terminal takes
        0xFEFF,
    ),
    "",
)

_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def clean_line(text: str) -> str:
    """The text on one line."""
    if text.isascii() and text.isprintable():
        return text
    return _SEQUENCES.sub("", text).translate(_UNSEEN)


def clean(text: str) -> str:
    """The text, its lines staying lines."""
    return "\n".join(map(clean_line, text.split("\n")))


def clean_below(text: str) -> str:
    """The text with every line after its first indented: none of them can pass for a line of its
    own."""
    return clean(text.rstrip("\n")).replace("\n", "\n    ")


def safe_json(encoded: bytes) -> str:
    """JSON as text that says the same and has nothing for a terminal to act on."""
    text = encoded.decode("utf-8", "backslashreplace")
    return text if text.isascii() else _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
