"""Notes: small values beside the tasks, each under a name, written by compare and set.

Pure rules (`lifecycle`) decide the content of the notes of groups and of workers that only claim. A
note causes no notification, and a task without one reads and writes none.
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
    """A note to be written, if its stored value is still the expected one."""

    name: NoteName
    value: bytes | None  #: None deletes it
    expect: bytes | None  #: None: it is not there yet


class NotePut(StrEnum):
    """The outcome of writing a note."""

    WRITTEN = "written"
    OTHER = "other"  #: its value is not the expected one; nothing was changed
    INVALID = "invalid"  #: it cannot be written; nothing was changed


class Note(msgspec.Struct, frozen=True, gc=False):
    """A note as a list has it."""

    key: str
    value: bytes
