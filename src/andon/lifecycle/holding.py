"""The rules of `on_held`: what a submit does if another task holds its unique key. Pure.

A holder that waits is superseded: one write cancels it and owes the newer task (docs/rulings.md,
R38). One that is active is left to its run, and the newer task is blocked until it has ended. Both
take over the key by naming the task whose place they take (`effects.Effects.heir_of`), so at every
moment one task holds it.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Literal, get_args

from msgspec.structs import replace

from andon.lifecycle.admission import LATEST_MS
from andon.lifecycle.births import owes
from andon.lifecycle.firing import occurrence_key
from andon.model.errors import InvalidSubmission
from andon.model.task import Definition, OnHeld, Task
from andon.model.words import TERMINAL, UNFINISHED, WAITING, State

Way = Literal["refuse", "supersede", "extend"]
"""What a submit does that finds its key held."""

WAYS: tuple[str, ...] = get_args(Way)


class Step(Enum):
    """What comes next for a submit that found its key held."""

    AGAIN = "submit again"  #: the holder has gone, or is on its way
    PAY = "store what the holder owes first"
    SUPERSEDE = "cancel the holder, which bears the new task"
    FOLLOW = "store the new task, to begin at the holder's end"
    REFUSE = "refuse"


def on_held_of(way: str, *, supersede_active: bool, max_delay: float | None) -> OnHeld | None:
    """The rule of a definition; `max_delay` in seconds. Raises `InvalidSubmission` for options that
    contradict each other."""
    if way not in WAYS:
        raise InvalidSubmission(
            f"on_held is one of {', '.join(WAYS)}, not {way!r}.", field="on_held"
        )
    if way == "extend":
        if max_delay is None:
            raise InvalidSubmission(
                "on_held='extend' needs max_delay: for how many seconds at the most newer submits "
                "may put the start off.",
                field="max_delay",
            )
        if not 0 < max_delay <= LATEST_MS / 1000:
            raise InvalidSubmission(
                f"max_delay is a number of seconds above 0, not {max_delay}.", field="max_delay"
            )
    elif max_delay is not None:
        raise InvalidSubmission(
            f"max_delay is for on_held='extend'; on_held={way!r} puts no start off.",
            field="max_delay",
        )
    if way == "refuse":
        if supersede_active:
            raise InvalidSubmission(
                "supersede_active is for on_held='supersede' and 'extend'; give one of them.",
                field="supersede_active",
            )
        return None
    most = None if max_delay is None else round(max_delay * 1000)
    return OnHeld("extend" if way == "extend" else "supersede", supersede_active, most)


def check_on_held(d: Definition) -> None:
    """Raise `InvalidSubmission` for a definition that cannot supersede as it asks."""
    on_held = d.on_held
    if on_held is None:
        return
    asked = f"on_held={on_held.way!r}"
    if d.unique_key is None:
        raise InvalidSubmission(
            f"{asked} is about the holder of a unique key, and none is given: give unique, "
            "unique_by or unique_key.",
            field="on_held",
        )
    if on_held.way == "extend" and d.run_at is None:
        raise InvalidSubmission(
            f"{asked} moves the start, and none is given: give delay, the seconds without a newer "
            "submit after which the task starts.",
            field="delay",
        )
    if d.dependencies:
        raise InvalidSubmission(
            f"{asked} does not go with dependencies: the task may have to wait for the holder of "
            "its key instead.",
            field="on_held",
        )
    free = sorted(state.value for state in UNFINISHED if state not in d.policy.unique_states)
    if free:
        raise InvalidSubmission(
            f"{asked} needs a unique key that holds while its task waits and runs; by "
            f"unique_states it does not in: {', '.join(free)}.",
            field="on_held",
        )


def limited(d: Definition, now: int) -> Definition:
    """The definition of a submit at `now` (ms UTC), its start no later than `max_delay` says."""
    on_held = d.on_held
    if on_held is None or on_held.max_delay is None or d.run_at is None:
        return d
    since = now if on_held.since is None else on_held.since
    return replace(d, run_at=min(d.run_at, since + on_held.max_delay))


def step_of(d: Definition, holder: Task | None) -> Step:
    """What comes next for a definition whose key this task holds; None: there is no record."""
    if holder is None:
        return Step.AGAIN
    if owes(holder.status):
        return Step.PAY
    state = holder.state
    if state in TERMINAL and state not in holder.policy.unique_states:
        return Step.AGAIN
    if not _may_supersede(d, holder.definition):
        return Step.REFUSE
    if state in WAITING:
        return Step.SUPERSEDE
    return Step.FOLLOW if state is State.ACTIVE else Step.REFUSE


def _may_supersede(d: Definition, held: Definition) -> bool:
    """Whether the holder of its key is this definition's to cancel: one of its name and queue, or
    one that the same schedule bore, whose task may have been another one then."""
    if held.name == d.name and held.queue == d.queue:
        return True
    return bool(d.bearer) and held.bearer == d.bearer and d.unique_key == occurrence_key(d.bearer)


def followed(holder: Task, parents: Sequence[Task | None]) -> str:
    """The active task at whose end a holder that waits is to begin, of those that it waits for;
    else empty. A task that supersedes the holder waits for the same one."""
    key = holder.definition.unique_key
    for parent in parents:
        if parent is None or parent.state in TERMINAL:
            continue
        if parent.definition.unique_key == key:
            return parent.id
    return ""


def superseding(d: Definition, holder: Task, follows: str) -> Definition:
    """The definition that takes the place of a holder that waits. It keeps the holder's place in
    the queue; otherwise a task that is superseded again and again would never run."""
    on_held, held = d.on_held, holder.definition.on_held
    assert on_held is not None, "it supersedes"
    since = order = None
    if on_held.way == "extend":
        since = holder.status.created_at if held is None or held.since is None else held.since
    if holder.state is State.PENDING:
        order = holder.status.order
    kept = replace(on_held, since=since, order=order)
    heir = replace(d, on_held=kept, predecessor=holder.id)
    return limited(_after(heir, follows) if follows else heir, holder.status.created_at)


def following(d: Definition, holder: Task) -> Definition:
    """The definition that waits for the end of an active holder."""
    return _after(replace(d, predecessor=holder.id), holder.id)


def _after(d: Definition, parent: str) -> Definition:
    return replace(d, dependencies=(parent,), requires="all-resolved")
