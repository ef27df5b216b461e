"""Batches as types: what tasks that are written together have in common is said once. Pure.

Tasks that are submitted together mostly differ in their ids and arguments alone. A store derives,
encodes and counts what they share once for all of them; that it is shared is a matter of type and
of value, never of identity.
"""

from collections.abc import Sequence

import msgspec

from andon.lifecycle.effects import Effects, of_new
from andon.lifecycle.indexes import IndexEntry
from andon.model.task import Status, Task


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


def alike(tasks: Sequence[Task]) -> list[NewTasks]:
    """New records as batches, in their order: those that follow each other and begin alike are
    one."""
    if len(tasks) == 1:
        return [NewTasks(tasks[0].status, of_new(tasks[0]), tasks)]
    batches: list[NewTasks] = []
    start = 0
    for end in range(1, len(tasks) + 1):
        first = tasks[start]
        if end == len(tasks) or not _begin_alike(first, tasks[end]):
            batches.append(NewTasks(first.status, of_new(first), tasks[start:end]))
            start = end
    return batches


def _begin_alike(one: Task, other: Task) -> bool:
    """Whether two new records have one status, and definitions with the same index entry: these are
    the fields of a definition that `indexes.entry_of` and `effects.of_new` read."""
    a, b = one.definition, other.definition
    return (
        one.status == other.status
        and a.queue == b.queue
        and a.name == b.name
        and a.version == b.version
        and a.key == b.key
        and a.group == b.group
        and a.unique_key == b.unique_key
        and a.predecessor == b.predecessor
        and len(a.dependencies) == len(b.dependencies)
        and a.policy == b.policy
    )
