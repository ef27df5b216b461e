"""Joins that grow: a blocked task that is to wait for the follow-ups of a run, too
(docs/decisions/members-added.md). Pure.

Only a run that the task waits for may add to it, so the task cannot start while that run is in
hand. What is added is written before the run completes. So for each addition it has to be checked
whether its run is the one that completed, and whether the run's follow-ups are stored yet.
"""

from collections.abc import Mapping
from enum import Enum

from andon.lifecycle.births import owes
from andon.lifecycle.fan_out import has_completed
from andon.lifecycle.parents import waits_for
from andon.model.headers import BEFORE_HEADER
from andon.model.task import Added, Task, Tombstone
from andon.model.words import State

MOST_WAITED_FOR = 10_000
"""Tasks that one may wait for, all that was added among them."""


def join_of(headers: Mapping[str, str]) -> str | None:
    """The id of the task that is to wait for a follow-up with these headers; None if none is."""
    return headers.get(BEFORE_HEADER)


def extended(before: tuple[Added, ...], added: Added) -> tuple[Added, ...]:
    """The additions with those of a run, which replace those that its task made before."""
    return (*(one for one in before if one.bearer != added.bearer), added)


def why_not_extended(join: Task, added: Added) -> str:
    """Why a blocked task cannot wait for what a run adds; empty if it can."""
    d = join.definition
    waited_for = waits_for(join)
    if added.bearer == d.id or added.bearer not in waited_for:
        return f"It does not wait for task {added.bearer!r}, whose run adds to it."
    if d.needs is not None:
        return (
            f"It needs {d.needs:,} of {len(d.dependencies):,} dependencies (`needs`), and takes no "
            "others."
        )
    if any(one.bearer == added.bearer and one.fence > added.fence for one in join.status.added):
        return f"A later run of task {added.bearer!r} has added to it."
    if d.id in added.tasks:
        return "It cannot wait for itself."
    kept = [one for one in join.status.added if one.bearer != added.bearer]
    count = len({*d.dependencies, *added.tasks}.union(*(one.tasks for one in kept)))
    if count > MOST_WAITED_FOR:
        return (
            f"It would wait for {count:,} tasks, the limit is {MOST_WAITED_FOR:,}. Let what is "
            "added have a closing task of its own, which this one waits for."
        )
    return ""


class Standing(Enum):
    """What an addition means for the task that was added to."""

    IN_HAND = "in-hand"  #: its run has not ended
    OWED = "owed"  #: its run completed, and its follow-ups are about to be stored
    BORNE = "borne"  #: its run completed: all that could be stored is
    VOID = "void"  #: its run did not complete, and bore nothing


def standing(added: Added, bearer: Task | None, left: Tombstone | None) -> Standing:
    """What an addition means, by the record of the task whose run made it, or by its tombstone. If
    nothing is known of the task any more, follow-ups that were not stored while it was known never
    will be."""
    if bearer is None and left is None:
        return Standing.VOID
    if bearer is not None and bearer.status.run == added.run:
        return Standing.IN_HAND
    if not has_completed(added.run, bearer, left):
        return Standing.VOID
    return Standing.OWED if bearer is not None and owes(bearer.status) else Standing.BORNE


def fails(now: Standing, state: State | None) -> bool:
    """Whether an added task that ended in this state, which does not satisfy the task that waits
    for it, fails that task. State None: it does not exist."""
    return now is Standing.BORNE or (now is Standing.OWED and state is not None)
