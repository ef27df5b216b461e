"""Notes: small values beside the tasks, each under a name, written by compare and set.

What is kept of a group, or of a worker that only claims, is decided by pure rules (`lifecycle`) and
written here. Nobody is notified of a note, and none is on the way of a task that has none.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec


class NoteName(NamedTuple):
    """The name of a note: of one kind, in a scope whose notes are listed together."""

    kind: str
    scope: str
    key: str


class PutNote(msgspec.Struct, frozen=True, gc=False):
    """A note to be written, if it still is what it was decided on."""

    name: NoteName
    value: bytes | None  #: None deletes it
    expect: bytes | None  #: None: it is not there yet


class NotePut(StrEnum):
    """What became of a note that was to be written."""

    WRITTEN = "written"
    OTHER = "other"  #: it is not what it was decided on; nothing was changed
    INVALID = "invalid"  #: it cannot be written; nothing was changed


class Note(msgspec.Struct, frozen=True, gc=False):
    """A note as a list has it."""

    key: str
    value: bytes
