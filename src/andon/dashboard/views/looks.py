"""How states, levels and texts look on every surface: a sign and a tone for each state, so that
colour is never the only sign, and texts of tasks made safe to show."""

import re
from typing import Literal

import msgspec

from andon.model.cleaning import clean, clean_line
from andon.model.words import State

Tone = Literal["quiet", "waits", "ready", "runs", "good", "bad", "off"]

MOST_LINE = 300
MOST_TEXT = 64 * 1024
"""How many characters of a text a page shows; it says how many more there are."""


class Look(msgspec.Struct, frozen=True):
    """A sign and a tone."""

    sign: str
    tone: Tone


LOOKS: dict[str, Look] = {
    State.BLOCKED: Look("◫", "waits"),
    State.SCHEDULED: Look("◷", "waits"),
    State.PENDING: Look("○", "ready"),
    State.ACTIVE: Look("▶", "runs"),
    State.RETRY: Look("↻", "waits"),
    State.RECURRING: Look("⟳", "waits"),
    State.COMPLETED: Look("✓", "good"),
    State.FAILED: Look("✗", "bad"),
    State.CANCELLED: Look("⊘", "off"),
    State.STALLED: Look("⚠", "bad"),
    State.DROPPED: Look("⌀", "bad"),
    State.EXPIRED: Look("⌛", "bad"),
    State.UNREACHABLE: Look("⊗", "bad"),
    State.UNKNOWN: Look("?", "bad"),
}
"""The look of each state, by Andon's name for it."""

GONE = Look("∅", "off")


def look_of(state: str | None) -> Look:
    """The look of a state by its name; without a name, that of a record that no longer exists."""
    return LOOKS.get(state or "", GONE)


class Shortened(msgspec.Struct, frozen=True):
    """The part of a text that is shown."""

    text: str
    more: int = 0  #: characters that are left out


def line_of(text: str, most: int = MOST_LINE) -> str:
    """The text on one line, cut if it is long."""
    seen = clean_line(text[: 4 * most])
    return seen if len(seen) <= most and len(text) <= 4 * most else f"{seen[:most]}…"


def lines_of(text: str, most: int = MOST_TEXT) -> Shortened:
    """The text with its lines, cut if it is long."""
    return Shortened(clean(text[:most]), max(0, len(text) - most))


_SPACES = re.compile(r"\s+")


def words_of(text: str) -> str:
    """The text with single spaces, for a title."""
    return _SPACES.sub(" ", line_of(text, 120)).strip()
