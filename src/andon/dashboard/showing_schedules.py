"""The pages of schedules, and their forms."""

from typing import TYPE_CHECKING

from andon.dashboard import reading_fleet
from andon.dashboard.answers import Shown
from andon.dashboard.asking import Asked, Route
from andon.dashboard.pages import schedule_forms
from andon.dashboard.pages import schedules as schedules_page
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.dashboard.scheduling import Scheduling, may_edit, may_make_some
from andon.engine.schedule_views import next_times, queues_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.model.task import Task

_TIMES = 10


class SchedulePages:
    """The pages about schedules."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._scheduling = Scheduling(reader)

    @property
    def routes(self) -> "Sequence[Route]":
        """The pages of this module. That of a new schedule comes before those of named ones."""
        return (
            ("/schedules", self.schedules),
            (schedule_forms.NEW, self.new_schedule),
            ("/schedules/([^/]+)", self.schedule),
            ("/schedules/([^/]+)/edit", self.edited_schedule),
        )

    async def schedules(self, asked: Asked) -> Shown:
        """Schedules."""
        asked.need_some("tasks:read:")
        cursor = asked.query.get("cursor")
        found, more = await reading_fleet.schedules(self._reader, cursor)
        seen = [task for task in found if _may_read(asked.place, task)]
        now = (await self._reader.engine()).now()
        may_make = may_make_some(asked.place.visitor)
        content = schedules_page.content(asked.place, seen, now, more, may_make=may_make)
        return Shown("Schedules", list(content), topics=() if cursor else ("schedules",))

    async def schedule(self, asked: Asked) -> Shown:
        """One schedule."""
        engine = await self._reader.engine()
        [task] = await within(engine.get([asked.name]))
        if task is None or task.status.schedule is None or not _may_read(asked.place, task):
            raise Refused(404, "Not here", f"There is no schedule {asked.name[:100]!r}.")
        now = engine.now()
        times = next_times(task, now, _TIMES)
        args = self._reader.redaction.seen(task.status.schedule.template.args)
        can = may_edit(asked.place.visitor, task)
        content = schedules_page.one(asked.place, task, times, args, now, may_edit=can)
        return Shown(f"Schedule {task.id}", list(content))

    async def new_schedule(self, asked: Asked) -> Shown:
        """The form of a new schedule."""
        return await self._scheduling.new(asked.place)

    async def edited_schedule(self, asked: Asked) -> Shown:
        """The form of a schedule."""
        return await self._scheduling.edited(asked.place, asked.name)


def _may_read(place: "Place", task: "Task") -> bool:
    """Whether the visitor may read a schedule: the tasks of any of its queues."""
    return all(place.may(f"tasks:read:{queue}") for queue in queues_of(task))
