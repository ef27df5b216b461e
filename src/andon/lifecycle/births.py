"""Births: tasks that exist if and only if the move that bears them was written (docs/rulings.md,
R38). Pure.

The record keeps what a move bears as a debt, written with the move itself. The process that wrote
it then stores the tasks and makes the move `deliver`, which clears the debt; if it dies before, the
record's timer pays (`lifecycle.timers`). Until then the record takes no other move and is not
deleted, so that nothing it owes is lost. What an edited task owes its successor
(`lifecycle.succession`) is a debt of the same kind.
"""

from collections.abc import Collection, Sequence
from hashlib import blake2b

import msgspec

from andon.lifecycle.admission import check_id
from andon.model.errors import InvalidSubmission, InvalidTransition
from andon.model.task import Definition, Status, Task, TaskError
from andon.model.words import OVER, Event

MOST_BIRTHS = 100
"""Tasks that one move can bear."""

MOST_BIRTHS_BYTES = 64 * 1024
"""Bytes of all that one move bears, as the record keeps it until it is stored."""

FIELD = "follow_ups"
"""The field that errors about them name, as in reports over HTTP."""

_INSTEAD = "Let one follow-up submit the others"

_encode = msgspec.msgpack.Encoder().encode


def birth_id(run: str, place: int) -> str:
    """The id, 32 hex digits, of a follow-up that was given none: the same whenever the run, named
    by its random id, reports its follow-ups again."""
    return blake2b(f"{run}\0{place}".encode(), digest_size=16, person=b"follow-up").hexdigest()


def owes(status: Status) -> bool:
    """Whether the record owes tasks that are not stored yet."""
    return bool(status.owes) or status.owed is not None


def is_over(status: Status) -> bool:
    """Whether the task has ended and its births are stored. Waiting for an end waits for this, so
    that the follow-ups can then be found."""
    return status.state in OVER and not owes(status)


def owed_ids(status: Status) -> tuple[str, ...]:
    """The ids of what the record owes."""
    if status.owed is not None:
        return (status.successor,)
    return tuple(d.id for d in status.owes)


def keeps_key(status: Status, states: Collection[str]) -> bool:
    """Whether a record that has ended keeps its unique key: it held the key (it came from one of
    these states), and owes it to a successor that is not stored yet. No other task may take it in
    between."""
    if not status.successor or not owes(status) or not status.events:
        return False
    return status.events[-1].source in states


def check_paid(task: Task, event: Event) -> None:
    """Raise `InvalidTransition` for a move of a record that owes, unless it is the payment: any
    other could lose the debt."""
    status = task.status
    if event is Event.DELIVER:
        return
    if owed_ids(status)[0] == status.successor:
        what = f"Its successor {status.successor!r} is"
    else:
        first, more = status.owes[0].id, len(status.owes) - 1
        what = f"Its follow-up {first!r} is" if not more else f"Its {more + 1} follow-ups are"
    raise InvalidTransition(
        task.id, event, task.state, f"{what} not stored yet; try again in a moment."
    )


def too_many(count: int) -> InvalidSubmission:
    """Why a run with so many follow-ups is refused."""
    return InvalidSubmission(
        f"A run has at most {MOST_BIRTHS} follow-ups, not {count:,}. {_INSTEAD}.", field=FIELD
    )


def check_follow_ups(sizes: Sequence[int]) -> None:
    """Raise `InvalidSubmission` for too many follow-ups, or for arguments that alone take more
    bytes than one move may bear: the checks that are possible in the handler, before the rest is
    known."""
    if len(sizes) > MOST_BIRTHS:
        raise too_many(len(sizes))
    if sum(sizes) > MOST_BIRTHS_BYTES:
        raise _too_large(sum(sizes))


def check_births(bearer: str, births: Sequence[Definition]) -> None:
    """Raise `InvalidSubmission` for more than one move may bear, and for ids that cannot be."""
    if len(births) > MOST_BIRTHS:
        raise too_many(len(births))
    seen = {bearer}
    for d in births:
        check_id(d.id)
        if d.id in seen:
            whose = "the task's own" if d.id == bearer else "that of two follow-ups"
            raise InvalidSubmission(f"The id {d.id!r} is {whose}; give another.", field=FIELD)
        seen.add(d.id)
    size = len(_encode(births))
    if size > MOST_BIRTHS_BYTES:
        raise _too_large(size)


def _too_large(size: int) -> InvalidSubmission:
    return InvalidSubmission(
        f"The follow-ups of a run take {size:,} bytes, the limit is {MOST_BIRTHS_BYTES:,}. "
        f"{_INSTEAD}, or pass references to the data.",
        field=FIELD,
    )


def refusal(refused: Sequence[tuple[str, Exception]]) -> TaskError | None:
    """The error in the event `deliver` about refused births: each by its id, and why."""
    if not refused:
        return None
    said = " ".join(f"{task_id} was not stored: {error}" for task_id, error in refused[:_SHOWN])
    more = len(refused) - _SHOWN
    told = f"{said} And {more} more were not." if more > 0 else said
    return TaskError(message=told, code=REFUSED)


_SHOWN = 10
REFUSED = "follow-up-refused"
"""The code of the error in a `deliver` event that says what was refused."""
