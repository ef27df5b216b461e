"""The first page, and those of queues, task types, workers and flows."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from andon.dashboard import reading_fleet
from andon.dashboard.answers import Shown
from andon.dashboard.asking import Asked, Route
from andon.dashboard.editing import written
from andon.dashboard.pages import andon as andon_page
from andon.dashboard.pages import flows as flows_page
from andon.dashboard.pages import history as history_page
from andon.dashboard.pages import queues as queues_page
from andon.dashboard.pages import types as types_page
from andon.dashboard.pages import workers as workers_page
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.dashboard.views.types import types_of
from andon.engine.fleet import settings_of
from andon.engine.flows import list_flows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.dashboard.reading import Reader


class QueuePages:
    """The pages about many tasks at once: their queues, their types, their workers."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader

    @property
    def routes(self) -> "Sequence[Route]":
        """The pages of this module."""
        return (
            ("/", self.andon),
            ("/queues", self.queues),
            ("/queues/([^/]+)", self.queue),
            ("/types", self.types),
            ("/types/([^/]+)", self.type),
            ("/workers", self.workers),
            ("/flows", self.flows),
            ("/flows/([^/]+)", self.flow),
        )

    async def andon(self, asked: Asked) -> Shown:
        """The first page."""
        asked.need_some("queues:read:")
        view = (await self._reader.overview()).seen_by(asked.place.visitor)
        content = list(andon_page.content(asked.place, view))
        if not asked.place.may("queues:read:*"):
            return Shown("Andon", content, topics=("andon",))
        hour, day = await self._reader.history()
        content.append(history_page.cards(hour, day))
        return Shown("Andon", content, topics=("andon", "history"))

    async def queues(self, asked: Asked) -> Shown:
        """All queues."""
        asked.need_some("queues:read:")
        view = (await self._reader.overview()).seen_by(asked.place.visitor)
        return Shown("Queues", list(queues_page.content(asked.place, view)), topics=("andon",))

    async def queue(self, asked: Asked) -> Shown:
        """One queue."""
        name = asked.name
        asked.need(f"queues:read:{name}")
        view = (await self._reader.overview()).seen_by(asked.place.visitor)
        row = next((row for row in view.queues if row.name == name), None)
        if row is None:
            raise Refused(404, "Not here", f"There is no queue {name[:100]!r}.")
        engine = await self._reader.engine()
        [history] = await within(engine.queue_history(name))
        config = next(one for one, _ in await self._reader.queues() if one.name == name)
        minutes = history_page.cards(*await self._reader.history([name]))
        content = queues_page.one(
            asked.place,
            row,
            settings=settings_of(config),
            texts=written(config),
            days=history.days,
            minutes=minutes,
            now=view.now,
        )
        part = quote(name, safe="")
        return Shown(f"Queue {name}", list(content), topics=(f"queue/{part}", f"history/{part}"))

    async def types(self, asked: Asked) -> Shown:
        """Task types."""
        asked.need("queues:read:*")
        view = types_of(*await self._reader.minutes_by_type())
        return Shown("Task types", list(types_page.content(asked.place, view)), topics=("types",))

    async def type(self, asked: Asked) -> Shown:
        """One task type."""
        asked.need("queues:read:*")
        hour, day, whole = await self._reader.history_of_type(asked.name)
        content = types_page.one(asked.place, asked.name, hour, day, is_whole=whole)
        topic = f"type/{quote(asked.name, safe='')}"
        return Shown(f"Task type {asked.name}", list(content), topics=(topic,))

    async def workers(self, asked: Asked) -> Shown:
        """Workers."""
        asked.need("workers:read")
        view = await reading_fleet.workers(self._reader)
        seen = reading_fleet.seen_by(asked.place.visitor, view)
        return Shown("Workers", list(workers_page.content(asked.place, seen)), topics=("workers",))

    async def flows(self, asked: Asked) -> Shown:
        """The newest flows."""
        asked.need("tasks:read:*")
        engine = await self._reader.engine()
        found = await within(list_flows(engine, limit=reading_fleet.MOST_FLOWS))
        return Shown("Flows", list(flows_page.content(asked.place, found, engine.now())))

    async def flow(self, asked: Asked) -> Shown:
        """One flow."""
        asked.need("tasks:read:*")
        flow = await reading_fleet.flow(self._reader, asked.name)
        topic = f"flow/{quote(asked.name, safe='')}"
        content = list(flows_page.one(asked.place, flow))
        return Shown(f"Flow {flow.name or flow.id}", content, topics=(topic,))
