"""Adds up the figures of the board from the event log alone, move by move.

No query to the store is needed for a frame, and a demo that goes on after a crash replays the
log of its round and has the whole picture again.
"""

from collections import Counter, deque
from collections.abc import Mapping

import msgspec

from andon.model.task import TaskEvent
from andon.model.words import TERMINAL, Event, State

_MOST_DURATIONS = 4_000
_MOST_FAILURES = 20
_SLOWEST = 12


class Failure(msgspec.Struct, frozen=True):
    """A run that did not succeed."""

    task: str
    state: State  #: where it took the task
    message: str

    def shown(self, paths: Mapping[str, str]) -> tuple[str, str]:
        """The name of the task, and the message without it."""
        name = named(self.task, paths)
        return name, self.message.removeprefix(f"{name}: ")


class Tally:
    """Adds up the moves of the tasks whose ids begin with `prefix`; of a schedule only how often it
    fired."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}-"
        self.states: dict[str, State] = {}  #: of every task of the round
        self.counts: Counter[State] = Counter()
        self.groups: dict[str, Counter[State]] = {}
        """By flow or schedule: what stands before the colon of an id."""
        self.retried = 0  #: runs that failed and are tried again
        self.lost: list[str] = []  #: tasks whose worker was lost, once for each run
        self.failures: deque[Failure] = deque(maxlen=_MOST_FAILURES)  #: that tasks ended with
        self.setbacks: deque[Failure] = deque(maxlen=_MOST_FAILURES)  #: that are tried again
        self.slowest: list[tuple[int, str]] = []  #: (ms, task), the slowest first
        self.by_worker: Counter[str] = Counter()  #: runs ended
        self.durations: deque[int] = deque(maxlen=_MOST_DURATIONS)  #: ms, of runs that ended
        self.newest = 0  #: time of the newest event, ms
        self._claimed: dict[str, int] = {}
        self._ended: Counter[int] = Counter()  # by second

    @property
    def total(self) -> int:
        """Tasks submitted."""
        return len(self.states)

    @property
    def ended(self) -> int:
        """Tasks in a terminal state."""
        return sum(self.counts[state] for state in TERMINAL)

    @property
    def live(self) -> int:
        """Tasks that have not ended."""
        return self.total - self.ended

    @property
    def recovered(self) -> int:
        """Tasks that have ended although a worker was lost with them."""
        return sum(self.states.get(task) in TERMINAL for task in set(self.lost))

    def add(self, event: TaskEvent) -> None:
        """Count one event."""
        task = event.task
        group, colon, _ = task.partition(":")
        if not task.startswith(self._prefix) or not colon:
            return
        self.newest = max(self.newest, event.at)
        counts = self.groups.setdefault(group, Counter())
        before = self.states.pop(task, None)
        if before is not None:
            self.counts[before] -= 1
            counts[before] -= 1
        if event.target is not None:
            self.states[task] = event.target
            self.counts[event.target] += 1
            counts[event.target] += 1
        if event.event is Event.CLAIM:
            self._claimed[task] = event.at
        elif event.source is State.ACTIVE and event.target is not State.ACTIVE:
            self._run_ended(event)
        if event.target in TERMINAL:
            self._ended[event.at // 1000] += 1

    def _run_ended(self, event: TaskEvent) -> None:
        claimed = self._claimed.pop(event.task, None)
        self.by_worker[event.worker] += 1
        if event.event is Event.LOSE:
            self.lost.append(event.task)
        elif claimed is not None:
            took = max(0, event.at - claimed)
            self.durations.append(took)
            self.slowest = sorted([*self.slowest, (took, event.task)], reverse=True)[:_SLOWEST]
        if event.target in (State.RETRY, State.PENDING) and event.event is Event.FAIL:
            self.retried += 1
        if event.error is not None and event.target is not None:
            failure = Failure(event.task, event.target, event.error.message)
            kept = self.failures if event.target in TERMINAL else self.setbacks
            kept.append(failure)

    # --- figures ---

    def rate(self, now: int, seconds: int = 5) -> float:
        """Tasks ended per second over the last whole seconds before `now` (ms)."""
        last = now // 1000
        return sum(self._ended[last - back] for back in range(1, seconds + 1)) / seconds

    def rates(self, now: int, seconds: int) -> list[int]:
        """Tasks ended in each of the last whole seconds before `now` (ms), the oldest first."""
        last = now // 1000
        return [self._ended[last - back] for back in range(seconds, 0, -1)]

    def percentiles(self, *shares: float) -> list[int]:
        """How long runs took, in ms: each share of them took no longer."""
        ordered = sorted(self.durations)
        if not ordered:
            return [0 for _ in shares]
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares]


def named(task: str, paths: Mapping[str, str]) -> str:
    """What a task is called on the board: its file, else the end of its id."""
    return paths.get(task) or task.rpartition("-")[2]
