"""A position in an event log, as cursors name it.

A server that crashed, was replaced by its replica, or was restored from a backup may have lost the
newest events. The cursor of a reader that had read them then points beyond the end of the log, and
once the log has grown, behind events that the reader has not seen. So a cursor holds a check of the
event at its position, too, which differs then.
"""

import zlib
from typing import NamedTuple

_MOST_DIGITS = 19


class Place(NamedTuple):
    """Just behind an event."""

    position: int
    check: str = ""  #: of that event; empty if there was none

    def __str__(self) -> str:
        return f"{self.position}-{self.check}" if self.check else str(self.position)


def place_of(text: str, most: int) -> Place | None:
    """The place that a text names; None if it names none, or one beyond what the log counts."""
    position, _, check = text.partition("-")
    if not position.isdecimal() or len(position) > _MOST_DIGITS or int(position) > most:
        return None
    return Place(int(position), check)


def check_of(event: bytes) -> str:
    """The check of an event, by what was written of it."""
    return f"{zlib.crc32(event):08x}"
