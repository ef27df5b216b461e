"""The memory store's row of one task, and the tombstone that remains of it."""

from collections import deque
from copy import copy
from itertools import count

import msgspec

from andon.lifecycle.constants import HISTORY_KEPT
from andon.lifecycle.discarded import Discarded
from andon.lifecycle.indexes import IndexEntry
from andon.model.task import Task, TaskEvent, Tombstone
from andon.model.words import State

Rank = tuple[int, int, int]
"""Place in a queue: the least is claimed first."""

_numbers = count()


class Row:
    """One record with what is known beside it. `entry` is always `entry_of(task)`."""

    __slots__ = (
        "entry", "held", "history", "id", "lane", "number", "partition", "place", "task", "token",
    )  # fmt: skip

    def __init__(self, task: Task, partition: int, entry: IndexEntry) -> None:
        self.id = task.definition.id
        self.task = task
        self.entry = entry
        self.partition = partition
        self.number = next(_numbers)  #: decides between equals, so that a release keeps its place
        self.place = (task.status.created_at, self.id)
        self.history: deque[TaskEvent] = deque(maxlen=HISTORY_KEPT)
        self.held = False  #: its timer was taken, and no move was made since
        self.token = ""  #: of the claim that handed out the run in hand
        self.lane: str | None = None  #: kind under which it may be claimed, while it may

    @property
    def rank(self) -> Rank:
        """Its place among the pending tasks of its queue."""
        ready = self.entry.ready
        assert ready is not None
        return (-ready.priority, ready.order, self.number)

    def copy(self) -> Task:
        """A copy of the record, to be handed out: changing it changes nothing here."""
        return copy(self.task)

    def wrote(self, event: TaskEvent) -> bool:
        """Whether this very write was made before (docs/rulings.md, R31)."""
        if not event.write_id or not self.history:
            return False
        index = event.revision - self.history[0].revision
        return 0 <= index < len(self.history) and self.history[index].write_id == event.write_id


class Stub(msgspec.Struct, frozen=True):
    """The tombstone of a deleted task, kept for the submit window (docs/rulings.md, R31)."""

    digest: str
    left: Tombstone
    until: int
    writes: tuple[str, ...]  #: write ids of its end and its deletion, whose replies may be lost
    discarded: Discarded | None = None  #: its last two moves, if it was discarded at its end

    @property
    def state(self) -> State:
        """The state that the task ended in."""
        return self.left.state

    def wrote(self, event: TaskEvent) -> bool:
        """Whether this very write ended or deleted the task."""
        return bool(event.write_id) and event.write_id in self.writes
