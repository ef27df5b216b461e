"""Live sources: each is read from time to time, and drawn as fragments.

A topic names a source, such as `andon` or `task/ID`; a page gets all its topics over one stream.
"""

from typing import TYPE_CHECKING
from urllib.parse import unquote

from andon.dashboard.pages import alerts as alerts_page
from andon.dashboard.pages import andon as andon_page
from andon.dashboard.pages import flows as flows_page
from andon.dashboard.pages import history as history_page
from andon.dashboard.pages import queues as queues_page
from andon.dashboard.pages import schedules as schedules_page
from andon.dashboard.pages import types as types_page
from andon.dashboard.pages import workers as workers_page
from andon.dashboard.patience import EVERY
from andon.dashboard.reading_fleet import flow, schedules, seen_by, workers
from andon.dashboard.source import Source
from andon.dashboard.sources_tasks import (
    BulkSource,
    LettersSource,
    LogSource,
    SearchSource,
    TaskSource,
    TasksSource,
)
from andon.dashboard.views.fleet import Workers
from andon.dashboard.views.types import Types, types_of
from andon.engine.alert_requests import HasAlerts
from andon.engine.schedule_views import queues_of
from andon.model.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from htpy import Renderable

    from andon.dashboard.access import Visitor
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Overview, Reader
    from andon.dashboard.views.minutes import Minutes
    from andon.lifecycle.flows import FlowDocument
    from andon.model.alerts import AlertsShown
    from andon.model.task import Task

MOST_TOPIC = 512
"""The most characters of a topic."""


class AlertsSource(Source):
    """Alert rules and their states."""

    every = EVERY["alerts"]

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may("admin:alerts")

    async def read(self, reader: "Reader") -> "tuple[AlertsShown, int] | None":
        engine = await reader.engine()
        return (
            (await engine.alerts.shown(), engine.now()) if isinstance(engine, HasAlerts) else None
        )

    def draw(
        self, place: "Place", seen: "tuple[AlertsShown, int] | None"
    ) -> "Iterable[Renderable]":
        if seen is not None:
            yield alerts_page.rules(place, *seen)


class AndonSource(Source):
    """The first page."""

    every = EVERY["andon"]

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may_some("queues:read:")

    async def read(self, reader: "Reader") -> "Overview":
        return await reader.overview()

    def draw(self, place: "Place", seen: "Overview") -> "Iterable[Renderable]":
        return andon_page.fragments(place, seen.seen_by(place.visitor))


class HistorySource(Source):
    """The last hour and day, of one queue or of all that a visitor may see."""

    every = EVERY["history"]

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._queue = unquote(rest)

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may(f"queues:read:{self._queue or '*'}")

    async def read(self, reader: "Reader") -> "tuple[Minutes, Minutes]":
        return await reader.history([self._queue] if self._queue else None)

    def draw(self, place: "Place", seen: "tuple[Minutes, Minutes]") -> "Iterable[Renderable]":
        yield history_page.cards(*seen)


class TypesSource(Source):
    """All task types over the last hour and day."""

    every = EVERY["types"]

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may("queues:read:*")

    async def read(self, reader: "Reader") -> Types:
        return types_of(*await reader.minutes_by_type())

    def draw(self, place: "Place", seen: Types) -> "Iterable[Renderable]":
        yield types_page.rows(place, seen)


class TypeSource(Source):
    """One task type over the last hour and day."""

    every = EVERY["type"]

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._name = unquote(rest)

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may("queues:read:*")

    async def read(self, reader: "Reader") -> "tuple[Minutes, Minutes, bool]":
        return await reader.history_of_type(self._name)

    def draw(self, place: "Place", seen: "tuple[Minutes, Minutes, bool]") -> "Iterable[Renderable]":
        hour, day, whole = seen
        yield types_page.charts(hour, day, is_whole=whole)


class StoreSource(Source):
    """Only whether the store answers: for pages that could not be made."""

    every = EVERY["store"]

    def is_for(self, visitor: "Visitor") -> bool:
        return True

    async def read(self, reader: "Reader") -> None:
        await reader.queues()

    def draw(self, place: "Place", seen: None) -> "Iterable[Renderable]":
        return ()


class QueueSource(Source):
    """One queue."""

    every = EVERY["queue"]

    def __init__(self, rest: str) -> None:
        super().__init__(rest)
        self._name = unquote(rest)

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may(f"queues:read:{self._name}")

    async def read(self, reader: "Reader") -> "Overview":
        return await reader.overview()

    def draw(self, place: "Place", seen: "Overview") -> "Iterable[Renderable]":
        view = seen.seen_by(place.visitor)
        row = next((row for row in view.queues if row.name == self._name), None)
        return () if row is None else queues_page.one_live(place, row, view.now)


class WorkersSource(Source):
    """Workers."""

    every = EVERY["workers"]

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may("workers:read")

    async def read(self, reader: "Reader") -> Workers:
        return await workers(reader)

    def draw(self, place: "Place", seen: Workers) -> "Iterable[Renderable]":
        return workers_page.fragments(place, seen_by(place.visitor, seen))


class SchedulesSource(Source):
    """The first page of schedules."""

    every = EVERY["schedules"]

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may_some("tasks:read:")

    async def read(self, reader: "Reader") -> "tuple[list[Task], int]":
        found, _ = await schedules(reader, "")
        return found, (await reader.engine()).now()

    def draw(self, place: "Place", seen: "tuple[list[Task], int]") -> "Iterable[Renderable]":
        found, now = seen
        mine = [
            task
            for task in found
            if all(place.may(f"tasks:read:{queue}") for queue in queues_of(task))
        ]
        yield schedules_page.rows(place, mine, now)


class FlowSource(Source):
    """One flow."""

    every = EVERY["flow"]

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may("tasks:read:*")

    async def read(self, reader: "Reader") -> "FlowDocument":
        return await flow(reader, unquote(self.rest))

    def draw(self, place: "Place", seen: "FlowDocument") -> "Iterable[Renderable]":
        return flows_page.fragments(place, seen)


KINDS: dict[str, type[Source]] = {
    "alerts": AlertsSource,
    "andon": AndonSource,
    "bulk": BulkSource,
    "flow": FlowSource,
    "history": HistorySource,
    "type": TypeSource,
    "types": TypesSource,
    "letters": LettersSource,
    "log": LogSource,
    "queue": QueueSource,
    "schedules": SchedulesSource,
    "search": SearchSource,
    "store": StoreSource,
    "task": TaskSource,
    "tasks": TasksSource,
    "workers": WorkersSource,
}


def source_of(topic: str) -> Source | None:
    """The source that a topic names; None if there is none."""
    kind, _, rest = topic.partition("/")
    made = KINDS.get(kind)
    if made is None or len(topic) > MOST_TOPIC:
        return None
    try:
        return made(rest)
    except ConfigurationError:
        return None
