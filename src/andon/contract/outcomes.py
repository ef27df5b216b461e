"""The outcomes of single items of a call to a store."""

from enum import StrEnum

import msgspec

from andon.model.task import Task
from andon.model.words import State


class CreateKind(StrEnum):
    """How one creation ended."""

    CREATED = "created"
    EXISTS = "exists"  #: the id is taken: the same submit repeated, or a conflict (see digest)
    KEY_HELD = "key-held"
    FULL = "full"
    TOO_LARGE = "too-large"  #: the store cannot hold so large a record
    INVALID = "invalid"  #: the record cannot be written, now or later; `why` says what is wrong
    NOTE_CHANGED = "note-changed"
    """The note beside it is not the expected one: neither was written (`CreatesWithNotes`)."""


class Created(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one creation.

    EXISTS carries the digest and state of what is there (also of the stub of a deleted task),
    KEY_HELD the holder's id, FULL the oldest pending tasks that `discard-old` may evict, TOO_LARGE
    the bytes it would take and the most it may.
    """

    kind: CreateKind
    digest: str = ""
    state: State | None = None
    holder: str = ""
    oldest: tuple[Task, ...] = ()
    size: int = 0
    limit: int = 0
    why: str = ""


CREATED = Created(CreateKind.CREATED)
"""The outcome of most creations, which all of them share."""


class ChangeKind(StrEnum):
    """How one change ended."""

    APPLIED = "applied"
    CONFLICT = "conflict"  #: the revision or the seen lease has moved; `current` has the record
    GONE = "gone"
    KEY_HELD = "key-held"
    TOO_LARGE = "too-large"  #: the store cannot hold the record with this result
    INVALID = "invalid"  #: the change cannot be written, now or later; `why` says what is wrong


class Changed(msgspec.Struct, frozen=True, gc=False):
    """Outcome of one change."""

    kind: ChangeKind
    current: Task | None = None
    holder: str = ""
    size: int = 0  #: of TOO_LARGE: the bytes it would take, and the most it may
    limit: int = 0
    why: str = ""
    has_dependents: bool = False  #: the task has ended and has edges to be settled, or settled anew


APPLIED = Changed(ChangeKind.APPLIED)
"""The outcome of most changes, which all of them share."""

HAS_DEPENDENTS = Changed(ChangeKind.APPLIED, has_dependents=True)


class Verdict(StrEnum):
    """Answer to a renewal."""

    OK = "ok"
    CANCEL = "cancel"  #: renewed, and asked to stop
    LOST = "lost"  #: the run no longer holds the task; nothing was changed
    INVALID = "invalid"  #: this renewal cannot be written; nothing was changed, the lease goes on


class Due(msgspec.Struct, frozen=True):
    """Tasks whose timer has passed, each held back from other takers for `hold`."""

    tasks: tuple[Task, ...]
    now: int
    next_at: int | None  #: earliest timer not yet passed, in this partition
