"""The ledger: what was submitted against how it ended, counted from the store alone.

Three accounts are kept by different code paths and must agree: the records as a listing gives
them, the queue's counters that moves keep up, and the event log. The log is also followed task by
task: every move begins where the last one ended, stands in the table of moves, every run that was
claimed was resolved exactly once, and every task has ended once. So each file was analysed once for
each flow that it was part of. The schedule has an occurrence for each of its times.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from andon.contract.queries import Query
from andon.demo import occurrences
from andon.engine.base import Engine
from andon.lifecycle.moves import MOVES
from andon.model.task import Task, TaskEvent
from andon.model.words import TERMINAL, Event, State

_PAGE = 500
_TABLE = frozenset((move.event, move.source, move.target) for move in MOVES)


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """One round, added up."""

    submitted: int
    completed: int
    failed: int  #: every end but completed
    unfinished: int
    states: dict[str, int]  #: tasks by state
    dead_letters: int
    runs: int  #: claimed
    retried: int  #: tasks that took more than one run
    retries: int  #: runs that failed and were tried again
    lost: int  #: runs whose worker was lost
    released: int  #: runs handed back, as a worker was stopped
    occurrences: int  #: tasks that the schedule bore
    moves: int
    most_runs: str  #: id of the task that took the most runs; empty if none took two
    seconds: float  #: from the first submit to the last end
    problems: tuple[str, ...] = ()

    @property
    def balances(self) -> bool:
        """Whether everything submitted has ended once, by every account."""
        return not self.problems


class _Life:
    """One task's moves."""

    def __init__(self) -> None:
        self.state: State | None = None
        self.revision = 0
        self.claimed: set[int] = set()
        self.resolved: Counter[int] = Counter()
        self.ends = 0


class _Log:
    """The event log of a round, followed task by task."""

    def __init__(self) -> None:
        self.lives: dict[str, _Life] = {}
        self.fired: dict[str, list[int]] = {}  # times of `recur`, by schedule
        self.events: Counter[Event] = Counter()
        self.moves = 0
        self.retries = 0
        self.first = 0
        self.last = 0
        self.complete = True
        self.problems: list[str] = []

    def add(self, event: TaskEvent) -> None:
        life = self.lives.setdefault(event.task, _Life())
        self.moves += 1
        self.events[event.event] += 1
        self.first = self.first or event.at
        self.last = max(self.last, event.at) if event.target in TERMINAL else self.last
        source = State(event.source) if event.source is not None else None
        if source is not life.state or event.revision <= life.revision:
            self._problem(event, f"follows the state {life.state}, revision {life.revision}")
        if (event.event, source, event.target) not in _TABLE:
            self._problem(event, "is not in the table of moves")
        run = -1 if event.run is None else event.run
        if event.event is Event.CLAIM:
            if run in life.claimed:
                self._problem(event, f"claims run {run} a second time")
            life.claimed.add(run)
        elif source is State.ACTIVE and event.target is not State.ACTIVE:
            # A move into pending names the run that it opens, not the one that it resolves.
            life.resolved[run - (event.target is State.PENDING)] += 1
            self.retries += event.event is Event.FAIL and event.target not in TERMINAL
        life.ends += event.target in TERMINAL and source not in TERMINAL
        if event.event is Event.RECUR:
            self.fired.setdefault(event.task, []).append(event.at)
        life.state, life.revision = event.target, event.revision

    def check(self) -> None:
        """Look for runs that were resolved, and tasks that have ended, more or less than once."""
        for task, life in self.lives.items():
            if life.state not in TERMINAL:
                self.problems.append(f"Task {task} has not ended: it is {life.state}.")
            elif life.ends != 1:
                self.problems.append(f"Task {task} has ended {life.ends} times.")
            wrong = [r for r in life.claimed | set(life.resolved) if life.resolved[r] != 1]
            for run in wrong:
                self.problems.append(
                    f"Run {run} of task {task} was resolved {life.resolved[run]} times."
                )

    def _problem(self, event: TaskEvent, what: str) -> None:
        move = f"{event.event} from {event.source} to {event.target}"
        self.problems.append(f"Task {event.task}, revision {event.revision}: {move} {what}.")


async def read_ledger(
    engine: Engine,
    *,
    prefix: str,
    queue: str,
    cursor: str,
    expected: Iterable[str],
    schedule: str = "",
) -> Ledger:
    """Add up the round of these ids. `expected` are the ids that should be there, for all that
    is known of the files; those of the occurrences of `schedule`, if one is named, are found from
    its times. `cursor` is where the event log stood when the round began."""
    log = await _read_log(engine, f"{prefix}-", cursor)
    every = {task.id: task async for task in _records(engine, queue)}
    records = {i: task for i, task in every.items() if task.status.schedule is None}
    stats = next((s for s in await engine.stats() if s.queue == queue), None)
    by_record = Counter(task.state.value for task in every.values())
    counters = {} if stats is None else {s: n for s, n in stats.counts.items() if n}
    problems: list[str] = []
    if log.complete:
        log.check()
        problems += log.problems
        by_log = Counter(life.state.value for life in log.lives.values() if life.state)
        problems += _differences("The event log", by_log, by_record)
    problems += _differences("The queue's counters", counters, by_record)
    borne = {i for i in records if schedule and i.startswith(f"{schedule}:")}
    problems += _absent(set(expected), set(records) - borne)
    if schedule and schedule not in every:
        problems.append(f"The schedule {schedule} is missing.")
    elif schedule and log.complete:
        problems += occurrences.check(every[schedule], borne, log.fired.get(schedule, []))
    states = Counter(task.state for task in records.values())
    ended = sum(states[state] for state in TERMINAL)
    unfinished = len(records) - ended
    if unfinished:
        problems.append(f"{unfinished:,} tasks have not ended.")
    completed = states[State.COMPLETED]
    return Ledger(
        submitted=len(records),
        completed=completed,
        failed=ended - completed,
        unfinished=unfinished,
        states={s.value: states[s] for s in State if states[s]},
        dead_letters=0 if stats is None else stats.dead_letters,
        runs=log.events[Event.CLAIM],
        retried=sum(_claimed(task) > 1 for task in records.values()),
        retries=log.retries,
        lost=log.events[Event.LOSE],
        released=log.events[Event.RELEASE],
        occurrences=len(borne),
        moves=log.moves,
        most_runs=_most_runs(records.values()),
        seconds=max(0, log.last - log.first) / 1000,
        problems=tuple(problems),
    )


async def _read_log(engine: Engine, prefix: str, cursor: str) -> _Log:
    log = _Log()
    while True:
        page = await engine.events(cursor, _PAGE)
        log.complete = log.complete and not page.gap
        for event in page.events:
            if event.task.startswith(prefix):
                log.add(event)
        if not page.events:
            return log
        cursor = page.cursor


async def _records(engine: Engine, queue: str) -> AsyncIterator[Task]:
    query = Query(queue=queue, limit=_PAGE)
    while True:
        page = await engine.find(query)
        for task in page.tasks:
            yield task
        if not page.cursor:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _most_runs(tasks: Iterable[Task]) -> str:
    most = max(tasks, key=_claimed, default=None)
    return most.id if most is not None and _claimed(most) > 1 else ""


def _claimed(task: Task) -> int:
    return sum(run.claimed_at is not None for run in task.status.runs)


def _differences(what: str, counts: dict[str, int], records: dict[str, int]) -> list[str]:
    return [
        f"{what} has {counts.get(state, 0):,} {state}, the records {records.get(state, 0):,}."
        for state in sorted({*counts, *records})
        if counts.get(state, 0) != records.get(state, 0)
    ]


def _absent(expected: set[str], there: set[str]) -> list[str]:
    problems: list[str] = []
    if missing := expected - there:
        problems.append(f"{len(missing):,} tasks are missing, the first is {min(missing)}.")
    if more := there - expected:
        problems.append(f"{len(more):,} tasks were not expected, the first is {min(more)}.")
    return problems


def as_json(ledger: Ledger, **more: Any) -> str:
    """The ledger as one JSON object, with `balances` and whatever else there is to say."""
    body = {"balances": ledger.balances, **msgspec.structs.asdict(ledger), **more}
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
