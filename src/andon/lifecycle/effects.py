"""What a write does to everything that is derived from the record: effects as data. Pure.

A record is written by a submit, a move, a claim or a deletion. What follows for the indexes, the
counters, the keys, the edges and the notifications is the same in every store, so it is decided
here, once, and a store executes it (docs/decisions/effects-as-data.md). What only the store can
know stays with it: whether a guard holds, who has reserved a key, whether the limit of a queue or a
key has room, whether there are edges.
"""

from typing import TYPE_CHECKING, Protocol

import msgspec

from andon.lifecycle.daily import Tally, tally_of
from andon.lifecycle.indexes import IndexEntry, ReadyEntry, entry_of, lists_of
from andon.lifecycle.interrupting import interrupted_worker
from andon.lifecycle.unique import lapsed
from andon.model.task import Task
from andon.model.words import LIVE, TERMINAL, State

if TYPE_CHECKING:
    from andon.model.task import Status, TaskEvent

_PENDING, _ACTIVE, _BLOCKED = State.PENDING, State.ACTIVE, State.BLOCKED
_ON_ITS_OWN = frozenset((None, *State)) - {_BLOCKED, State.UNKNOWN}
"""Where a record comes from if nothing is kept of it but itself, its lists and its timer: a blocked
task has a count of dependencies beside it, and of one that does not decode it is not known what it
has."""
_NO_LISTS: tuple[str, ...] = ()


class DecidedMove(Protocol):
    """The parts of a decided change that its effects follow from; a store's `Change` has them."""

    @property
    def before(self) -> Task: ...
    @property
    def after(self) -> "Status | None": ...
    @property
    def event(self) -> "TaskEvent": ...
    @property
    def discard(self) -> "TaskEvent | None": ...


class Effects(msgspec.Struct, frozen=True, gc=False):
    """All that one write does to what is derived from the record."""

    queue: str
    key: str | None  #: the concurrency key, which counts the task while it is pending or active
    left: State | None  #: the state that the record leaves; None: there was no record
    state: State | None  #: the state that it enters, or stays in; None: the record goes
    entry: IndexEntry | None  #: what is indexed from now on; None: the record goes
    ready_out: ReadyEntry | None  #: the place in its queue that the record leaves
    ready_in: ReadyEntry | None
    """The place in its queue that the record takes. Claims that wait for the queue are notified,
    unless the limit of its key holds the task back."""
    dead_letter_out: bool  #: it was marked as a dead letter, and is to be unmarked
    takes_key: str | None  #: the unique key that it begins to hold, unless the period has `lapsed`
    frees_key: str | None  #: the unique key that it holds no longer
    tally: Tally | None  #: what it is counted as in the daily history, on the day of its event
    interrupts: str  #: the worker that must learn of the move; empty if none need
    frees_slot: bool
    """Whether a run is over: a queue with a limit across the fleet may have room again, and claims
    that wait for it are notified."""
    discards: bool  #: the record is deleted right after, unless edges hold it
    heir_of: str = ""
    """The task whose unique key a new record takes over: that task's reservation does not keep the
    new record from the key. So the key goes from a holder to its successor in one step, and no
    other task takes it in between. Empty: none."""
    lists_out: tuple[str, ...] = ()  #: lists by name that the record leaves (`indexes.lists_of`)
    lists_in: tuple[str, ...] = ()  #: and those that it enters

    @property
    def is_separate(self) -> bool:
        """Whether nothing that other tasks share is touched: no key, no edges, no stub. Then many
        of them may be written at once, in any order."""
        return (
            self.key is None
            and self.takes_key is None
            and self.frees_key is None
            and self.state is not None
            and self.state is not _BLOCKED
            and not self.discards
            and self.left in _ON_ITS_OWN
        )

    @property
    def is_bare(self) -> bool:
        """Whether nothing but the record, its lists and its timer follows: it takes and leaves no
        place in a queue, leaves no list, is not unmarked, and no dependents wait anew for it."""
        return (
            self.ready_in is None
            and self.ready_out is None
            and not self.lists_out
            and not self.dead_letter_out
            and self.is_separate
            and not self.revives
        )

    @property
    def ends_run(self) -> bool:
        """Whether a run in hand ends, and is `is_bare`: by far the most frequent change. An active
        task has no place in a queue and no mark to leave, and had not ended."""
        return self.frees_slot and self.ready_in is None and not self.lists_out and self.is_separate

    @property
    def stays_in_place(self) -> bool:
        """Whether it leaves a place in its queue and takes the same one."""
        out, into = self.ready_out, self.ready_in
        return (
            out is not None
            and into is not None
            and (out.kind, out.priority, out.order) == (into.kind, into.priority, into.order)
        )

    @property
    def leaves_key(self) -> bool:
        """Whether the concurrency key counts it no longer, and the next of that key may come."""
        return (
            self.key is not None
            and (self.left is _PENDING or self.left is _ACTIVE)
            and self.state is not _PENDING
            and self.state is not _ACTIVE
        )

    @property
    def dead_letter_in(self) -> bool:
        """Whether it is to be marked as a dead letter."""
        return self.entry is not None and self.entry.dead_letter

    @property
    def timer(self) -> int | None:
        """The timer to set, ms UTC; None: the record has none. A timekeeper is notified of one that
        is due before it would look by itself (`constants.NEAR_TIMER_MS`)."""
        return None if self.entry is None else self.entry.timer

    @property
    def unblocks(self) -> bool:
        """Whether the count of its dependencies is to be forgotten."""
        return self.left is _BLOCKED and self.state is not _BLOCKED

    @property
    def ends(self) -> bool:
        """Whether it has ended after the write: its dependents, if any, are to be notified."""
        return self.state in TERMINAL

    @property
    def revives(self) -> bool:
        """Whether a task that had ended lives again: its dependents wait on."""
        return self.left is not None and self.left not in LIVE and self.state in LIVE

    def key_to_reserve(self, now: int) -> str | None:
        """The unique key that must be reserved for this write at `now` (ms UTC): none that is held
        already, and none whose period has passed."""
        if self.takes_key is None or self.entry is None or lapsed(self.entry, now):
            return None
        return self.takes_key


def of_new(task: Task, entry: IndexEntry | None = None) -> Effects:
    """The effects of storing a new record; `entry` if its index entry is known."""
    if entry is None:
        entry = entry_of(task)
    events = task.status.events
    tally = tally_of(events[-1]) if events else None
    return Effects(
        entry.queue,
        entry.key,
        None,
        entry.state,
        entry,
        None,
        entry.ready,
        False,
        entry.unique_key,
        None,
        tally,
        "",
        False,
        False,
        task.definition.predecessor,
        (),
        entry.lists,
    )


def of_change(
    change: DecidedMove, *, old: IndexEntry | None = None, after: IndexEntry | None = None
) -> Effects:
    """The effects of a decided change; `old` and `after` if the index entries of the record before
    and after it are known. Of its `discard` see `of_discard`."""
    before, status, event = change.before, change.after, change.event
    definition, left = before.definition, before.status.state
    state, ready_in, lists_in = None, None, _NO_LISTS
    if status is not None:
        if after is None:
            after = entry_of(Task(definition=definition, status=status, cell=before.cell))
        state, ready_in, lists_in = after.state, after.ready, after.lists
    unique = definition.unique_key is not None
    ready_out, dead_letter_out, takes, frees, lists_out = None, False, None, None, _NO_LISTS
    if left is not _ACTIVE or unique:  # else it is indexed by no more than its definition says
        if old is None:
            old = entry_of(before)
        ready_out, dead_letter_out = old.ready, old.dead_letter
        if unique:
            takes, frees = _key_moves(old, after)
        lists_out = old.lists
    elif lists_in:
        lists_out = lists_of(definition, left)
    if lists_in and lists_out:
        lists_out, lists_in = _list_moves(lists_out, lists_in)
    return Effects(
        definition.queue,
        definition.key,
        left,
        state,
        after,
        ready_out,
        ready_in,
        dead_letter_out,
        takes,
        frees,
        tally_of(event),
        interrupted_worker(before.status, event.event),
        left is _ACTIVE and state is not _ACTIVE,
        change.discard is not None,
        lists_out=lists_out,
        lists_in=lists_in,
    )


def between(old: IndexEntry, new: IndexEntry | None, event: "TaskEvent | None" = None) -> Effects:
    """The effects of a write that interrupts no worker, by the index entries before and after it: a
    claim, or a deletion. Without its event, for an index that only follows, nothing is counted."""
    state, ready_in, takes, frees = None, None, None, old.unique_key
    lists_out, lists_in = old.lists, () if new is None else new.lists
    if lists_out and lists_in:
        lists_out, lists_in = _list_moves(lists_out, lists_in)
    if new is not None:
        state, ready_in = new.state, new.ready
        if frees is not None or new.unique_key is not None:
            takes, frees = _key_moves(old, new)
    return Effects(
        old.queue,
        old.key,
        old.state,
        state,
        new,
        old.ready,
        ready_in,
        old.dead_letter,
        takes,
        frees,
        None if event is None else tally_of(event),
        "",
        old.state is _ACTIVE and state is not _ACTIVE,
        False,
        lists_out=lists_out,
        lists_in=lists_in,
    )


def of_discard(end: IndexEntry, event: "TaskEvent") -> Effects:
    """The effects of deleting a record right after its end, whose index entry is given."""
    return between(end, None, event)


def _list_moves(
    before: tuple[str, ...], after: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lists by name that are left, and those that are entered."""
    left = tuple(name for name in before if name not in after)
    return left, tuple(name for name in after if name not in before)


def _key_moves(old: IndexEntry, new: IndexEntry | None) -> tuple[str | None, str | None]:
    """The unique key that is taken, and the one that is freed."""
    held, holds = old.unique_key, None if new is None else new.unique_key
    if held is None:
        return holds, None
    return None, held if holds is None else None
