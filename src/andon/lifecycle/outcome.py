"""The outcome of a move, as `decide` returns it and `apply` writes it. Pure data."""

import msgspec

from andon.model.task import Definition, Schedule, TaskError
from andon.model.words import Reason, State


class Outcome(msgspec.Struct, frozen=True):
    """Where a move goes. `resolution` is why the run in hand ends, `opened` why a new one opens."""

    state: State | None
    reason: Reason | None = None
    resolution: Reason | None = None
    opened: Reason | None = None
    run_at: int | None = None
    counts: bool = False  #: the run counts against the budget
    keeps_place: bool = False
    error: TaskError | None = None
    births: tuple[Definition, ...] = ()  #: the debt of the record from this move on
    schedule: Schedule | None = None  #: as it is from this move on; None leaves it as it is
