"""What answers carry, where it is not a record as a profile shows it."""

import msgspec

from andon.model.words import State


class Accepted(msgspec.Struct, gc=False):
    """A task that is stored."""

    id: str
    state: State | None
    created: bool  #: False: the same submission was stored before
