"""Batches as types: values that tasks written together share are held once. Pure.

Tasks that are submitted together mostly differ in their ids and arguments alone. A store derives,
encodes and counts what they share once for all of them; that they are shared follows from type and
value, never from identity. The same goes for runs that end together.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Generic, TypeVar

import msgspec

from andon.lifecycle.births import owes
from andon.lifecycle.effects import DecidedMove, Effects, of_change, of_new
from andon.lifecycle.indexes import IndexEntry
from andon.lifecycle.interrupting import BY_OTHERS
from andon.model.task import Status, Task
from andon.model.words import State

_ACTIVE = State.ACTIVE  # see `admission`

Move = TypeVar("Move", bound=DecidedMove)


class NewTasks(msgspec.Struct, frozen=True, gc=False):
    """New tasks that begin alike: one status, one index entry, one set of effects."""

    status: Status
    effects: Effects
    tasks: Sequence[Task]

    @property
    def entry(self) -> IndexEntry:
        """The index entry of each."""
        entry = self.effects.entry
        assert entry is not None, "a new record is indexed"
        return entry


class Moves(msgspec.Struct, Generic[Move], frozen=True, gc=False):
    """Decided moves that do the same to what is derived from their records."""

    effects: Effects
    moves: Sequence[Move]


def alike(tasks: Sequence[Task]) -> list[NewTasks]:
    """New records as batches, in their order: those that follow each other and begin alike are
    one."""
    if len(tasks) == 1:
        return [NewTasks(tasks[0].status, of_new(tasks[0]), tasks)]
    batches: list[NewTasks] = []
    for _, group in groupby(tasks, beginning_of):
        some = list(group)
        batches.append(NewTasks(some[0].status, of_new(some[0]), some))
    return batches


def beginning_of(task: Task) -> tuple[object, ...]:
    """What a new record begins with: its status, and the fields of its definition that
    `indexes.entry_of` and `effects.of_new` read. Records begin alike if these are equal."""
    d = task.definition
    return (
        task.status,
        d.queue,
        d.name,
        d.version,
        d.key,
        d.group,
        d.unique_key,
        d.predecessor,
        len(d.dependencies),
        d.needs,
        d.tags,
        d.policy,
    )


def moved_alike(moves: Sequence[Move]) -> list[Moves[Move]]:
    """Decided moves as batches, in their order. Ends of runs that follow each other and are alike
    are one, which is most of what workers report; every other move is a batch by itself."""
    if len(moves) == 1:
        return [Moves(of_change(moves[0]), moves)]
    batches: list[Moves[Move]] = []
    start = 0
    while start < len(moves):
        first, end = moves[start], start + 1
        effects = of_change(first)
        if end < len(moves) and _end_alike(first, moves[end]) and _is_common_end(first, effects):
            end += 1
            while end < len(moves) and _end_alike(first, moves[end]):
                end += 1
        batches.append(Moves(effects, moves[start:end]))
        start = end
    return batches


def _is_common_end(move: DecidedMove, effects: Effects) -> bool:
    """Whether a worker ends a run for good, and the record stays and owes nothing."""
    after = move.after
    return (
        effects.ends_run
        and effects.ends
        and move.event.event not in BY_OTHERS
        and after is not None
        and not owes(after)
    )


def _end_alike(common: DecidedMove, other: DecidedMove) -> bool:
    """Whether another move has the effects of a common end: these are the fields that
    `effects.of_change` and `indexes.entry_of` read of one."""
    one, two = common.after, other.after
    if one is None or two is None or one.finished_at != two.finished_at:
        return False  # the most frequent answer
    a, b = common.before.definition, other.before.definition
    event, its_event = common.event, other.event
    return (
        one.expires_at == two.expires_at
        and one.state is two.state
        and one.reason is two.reason
        and not owes(two)
        and other.discard is None
        and other.before.status.state is _ACTIVE
        and event.event is its_event.event
        and event.source is its_event.source
        and event.target is its_event.target
        and a.queue == b.queue
        and a.name == b.name
        and a.group == b.group
        and a.tags == b.tags
        and b.key is None
        and a.unique_key == b.unique_key
        and one.policy == two.policy
        and a.policy == b.policy
    )
