"""The ledger: checks the event log of a simulated fleet against the rules of the lifecycle.

Fed with every event in the order of the log, it holds each task to the table of moves, to one
chain of revisions and to one resolution per run, and gives the account at the end: what was
submitted, and how each of it ended.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from andon.lifecycle.moves import TARGETS
from andon.model.task import TaskEvent
from andon.model.words import TERMINAL, Event, State


class Unbalanced(AssertionError):
    """The log says something that must never happen."""


class Entry(msgspec.Struct):
    """One task as its events tell it. A task whose id is used again after it went begins anew."""

    state: State | None = None
    revision: int = 0
    at: int = 0
    cancel_requested: bool = False
    run: int | None = None  #: the run in hand
    claimed: int = 0  #: claims so far
    resolved: int = 0  #: claimed runs that have ended
    ends: int = 0  #: times it reached a terminal state
    completed_runs: list[int] = []  #: numbers of the runs whose completion was accepted
    lives: int = 1  #: records that this id has had


class Ledger:
    """Reads events; raises `Unbalanced` at the first that cannot be.

    With `may_repeat` the very same event may come again, as from a log that is read again.
    """

    def __init__(self, *, may_repeat: bool = False) -> None:
        self._seen: set[tuple[str, int, int, str]] | None = set() if may_repeat else None
        self.tasks: dict[str, Entry] = {}
        self.moves: Counter[str] = Counter()

    def read(self, events: Iterable[TaskEvent]) -> None:
        """Take events in the order of the log."""
        for event in events:
            self.one(event)

    def one(self, event: TaskEvent) -> None:
        """Take one event."""
        if self._seen is not None:
            key = (event.task, event.revision, event.at, event.write_id)
            if key in self._seen:
                return
            self._seen.add(key)
        entry = self.tasks.get(event.task)
        if event.event is Event.SUBMIT:
            if entry is not None and entry.state is not None:
                raise Unbalanced(f"{event.task} was submitted twice: {event}")
            lives = 1 if entry is None else entry.lives + 1
            entry = self.tasks[event.task] = Entry(lives=lives)
        if entry is None:
            raise Unbalanced(f"{event.task} moved before it was submitted: {event}")
        self._check(entry, event)
        self._follow(entry, event)
        self.moves[event.event.value] += 1

    def _check(self, entry: Entry, event: TaskEvent) -> None:
        if event.revision != entry.revision + 1:
            raise Unbalanced(f"{event.task}: revision {entry.revision} is followed by {event}")
        if event.source is not entry.state:
            raise Unbalanced(f"{event.task} was {entry.state}, but moved so: {event}")
        if event.at < entry.at:
            raise Unbalanced(f"{event.task}: time went back from {entry.at} to {event}")
        targets = TARGETS.get((event.event, event.source, entry.cancel_requested))
        if targets is None or event.target not in targets:
            raise Unbalanced(f"{event.task}: the table has no such move: {event}")

    def _follow(self, entry: Entry, event: TaskEvent) -> None:
        entry.revision, entry.state, entry.at = event.revision, event.target, event.at
        if event.event is Event.CLAIM:
            entry.claimed += 1
            entry.run = event.run
        elif event.source is State.ACTIVE and event.target is not State.ACTIVE:
            # A move straight back to pending names the run that it opens.
            opened = None if entry.run is None else entry.run + 1
            expected = opened if event.target is State.PENDING else entry.run
            if event.target is not State.UNKNOWN and event.run != expected:
                raise Unbalanced(f"{event.task}: run {entry.run} is in hand, but see {event}")
            entry.resolved += 1
            entry.run = None
            if event.event is Event.COMPLETE and event.run is not None:
                entry.completed_runs.append(event.run)
        if event.event is Event.REQUEST_CANCEL:
            entry.cancel_requested = True
        elif event.target is not State.ACTIVE:
            entry.cancel_requested = False
        if event.target in TERMINAL:
            entry.ends += 1

    # --- the account ---

    def states(self) -> Counter[State | None]:
        """How many tasks stand where; None is gone."""
        return Counter(entry.state for entry in self.tasks.values())

    def unresolved(self) -> dict[str, State | None]:
        """Tasks that have not ended."""
        return {
            task: entry.state
            for task, entry in self.tasks.items()
            if entry.state is not None and entry.state not in TERMINAL
        }

    def balance(self, submitted: Iterable[str]) -> None:
        """Everything submitted has ended, every run claimed was resolved, nothing came of itself.

        Raises `Unbalanced` with what is missing.
        """
        wanted = set(submitted)
        lost = wanted - set(self.tasks)
        if lost:
            raise Unbalanced(f"{len(lost)} submitted tasks were never seen, such as {min(lost)}")
        extra = set(self.tasks) - wanted
        if extra:
            raise Unbalanced(f"{len(extra)} tasks were seen that nobody submitted: {min(extra)}")
        waiting = self.unresolved()
        if waiting:
            raise Unbalanced(
                f"{len(waiting)} tasks have not ended: {dict(list(waiting.items())[:5])}"
            )
        for task, entry in self.tasks.items():
            if entry.claimed != entry.resolved:
                raise Unbalanced(f"{task}: {entry.claimed} runs claimed, {entry.resolved} resolved")
