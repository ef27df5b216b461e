"""Lists of tasks: the filter, and the rows that were found."""

from collections.abc import Sequence
from typing import Any

import msgspec

from andon.contract.queries import Query
from andon.contract.query_filter import has_due_order
from andon.dashboard.views.looks import Look, line_of, look_of
from andon.lifecycle.explaining import fires
from andon.lifecycle.leases import is_orphaned
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueConfig, QueueStats
from andon.model.task import Task
from andon.model.wording import ago
from andon.model.words import State

STATES = [state for state in State if state is not State.UNSUBMITTED]
TEXTS = ("queue", "name", "id", "key", "group", "tag", "worker")
ORDERS = ("newest", "oldest", "due")
PAGE = 50


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of a list. An empty field does not filter."""

    states: tuple[State, ...] = ()
    queue: str = ""
    name: str = ""
    id: str = ""  #: the beginning of the id
    key: str = ""
    group: str = ""
    tag: str = ""
    worker: str = ""
    order: str = ""  #: one of `ORDERS`; empty: the one that suits the filter
    cursor: str = ""

    @property
    def is_by_state_and_queue(self) -> bool:
        """Whether the store's own counters say how many there are."""
        return not (self.name or self.id or self.key or self.group or self.tag or self.worker)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filter as fields of a query or a form, without the cursor."""
        return [
            *(("state", state.value) for state in self.states),
            *((name, value) for name in TEXTS if (value := getattr(self, name))),
            *((("order", self.order),) if self.order else ()),
        ]

    @property
    def words(self) -> str:
        """The filter in words, for a sentence about tasks."""
        parts = [f"{name} {getattr(self, name)}" for name in TEXTS if getattr(self, name)]
        states = " or ".join(state.value for state in self.states)
        return ", ".join(filter(None, [states, *parts])) or "all"

    def query(self, limit: int = PAGE) -> Query:
        """The query of a page. Raises `ConfigurationError` for an unknown order."""
        query = Query(
            states=self.states,
            queue=self.queue or None,
            name=self.name or None,
            id_prefix=self.id or None,
            key=self.key or None,
            group=self.group or None,
            tag=self.tag or None,
            worker=self.worker or None,
            limit=limit,
            cursor=self.cursor,
        )
        due = self.order == "due" or (not self.order and has_due_order(query))
        newest = self.order == "newest" or (not self.order and not due)
        return msgspec.structs.replace(query, due_first=due, newest_first=newest)


def filter_of(values: Any) -> TaskFilter:
    """The filter in the fields of a query or a form. Raises `ConfigurationError`."""
    states: list[State] = []
    for name in values.all("state"):
        if not name:
            continue
        if name not in STATES:
            raise ConfigurationError(f"There is no state {name[:40]!r}.")
        states.append(State(name))
    order = values.get("order")
    if order and order not in ORDERS:
        raise ConfigurationError(f"Tasks are ordered by {', '.join(ORDERS)}, not {order[:40]!r}.")
    texts = {name: values.get(name).strip() for name in TEXTS}
    return TaskFilter(
        states=tuple(dict.fromkeys(states)), order=order, cursor=values.get("cursor"), **texts
    )


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """One task in a list."""

    id: str
    name: str
    queue: str
    state: str
    look: Look
    tries: int
    created_at: int
    note: str  #: the most important fact beside the state
    is_bad: bool  #: the note is about an error


class TaskList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tasks."""

    asked: TaskFilter
    rows: list[TaskRow]
    next: str  #: cursor of the next page; empty if this is the last
    now: int
    total: int | None  #: how many there are, if counters say so

    @property
    def is_cut(self) -> bool:
        """Whether a page is not full because searching for its tasks would have taken too long."""
        return bool(self.next) and len(self.rows) < PAGE


def rows_of(tasks: Sequence[Task], now: int) -> list[TaskRow]:
    """Tasks as rows."""
    return [row_of(task, now) for task in tasks]


def row_of(task: Task, now: int) -> TaskRow:
    """One task as a row."""
    d, s = task.definition, task.status
    note, is_bad = note_of(task, now)
    return TaskRow(
        id=task.id,
        name=line_of(d.name, 120),
        queue=d.queue,
        state=task.state.value,
        look=look_of(task.state),
        tries=s.tries,
        created_at=s.created_at,
        note=line_of(note, 200),
        is_bad=is_bad,
    )


def note_of(task: Task, now: int) -> tuple[str, bool]:
    """The most important fact beside the state, and whether it is an error."""
    s, cell, state = task.status, task.cell, task.state
    error = s.last_error.message if s.last_error else ""
    if cell is not None:
        if is_orphaned(task, now):
            return f"orphaned: {s.worker} lost its lease {ago(cell.lease_until, now)}", True
        said = f" {cell.message}" if cell.message else ""
        return f"{cell.progress} %{said} on {s.worker}", False
    if state is State.RECURRING:
        return fires(task, lambda at: ago(at, now)), False
    if state in (State.SCHEDULED, State.RETRY) and s.run_at is not None:
        when = f"runs {ago(s.run_at, now)}"
        return (f"{when}: {error}", True) if error else (when, False)
    if state in (State.PENDING, State.BLOCKED, State.COMPLETED):
        return "", False
    reason = "" if s.reason is None else s.reason.value
    return f"{reason}: {error}" if error else reason, bool(error)


def total_of(asked: TaskFilter, queues: Sequence[tuple[QueueConfig, QueueStats]]) -> int | None:
    """How many tasks a filter finds, by the store's counters; None if those do not say."""
    if not asked.is_by_state_and_queue:
        return None
    states = asked.states or tuple(state for state in STATES if state is not State.RECURRING)
    return sum(
        stats.counts.get(state.value, 0)
        for config, stats in queues
        for state in states
        if not asked.queue or config.name == asked.queue
    )
