"""The pages of tasks: lists, one task and its files, search, dead letters, and acts on many."""

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from andon.dashboard import reading_letters, reading_tasks
from andon.dashboard.answers import Shown
from andon.dashboard.asking import Asked, Route
from andon.dashboard.downloads import Download
from andon.dashboard.pages import bulk as bulk_page
from andon.dashboard.pages import letters as letters_page
from andon.dashboard.pages import messages
from andon.dashboard.pages import task as task_page
from andon.dashboard.pages import tasks as tasks_page
from andon.dashboard.requests import Answer, Refused, see_other
from andon.dashboard.searching import search
from andon.dashboard.sources import MOST_TOPIC
from andon.dashboard.views.tasks import PAGE, TaskFilter, TaskList, filter_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.dashboard.bulk import Bulk
    from andon.dashboard.reading import Reader


class TaskPages:
    """The pages about tasks themselves."""

    def __init__(self, reader: "Reader", bulk: "Bulk") -> None:
        self._reader = reader
        self._bulk = bulk

    @property
    def routes(self) -> "Sequence[Route]":
        """The pages of this module."""
        return (
            ("/tasks", self.tasks),
            ("/tasks/([^/]+)", self.task),
            ("/tasks/([^/]+)/artifacts/([0-9]{1,9})/([^/]+)", self.artifact),
            ("/dead-letters", self.letters),
            ("/dead-letters/list", self.letter_list),
            ("/bulk/([^/]+)", self.doing),
            ("/search", self.search),
        )

    async def tasks(self, asked: Asked) -> Shown:
        """A list of tasks."""
        wanted = filter_of(asked.query)
        view = await reading_tasks.task_list(self._reader, wanted, asked.place.visitor)
        queues = await self._queues_to_read(asked)
        query = asked.query.encoded()
        return Shown(
            f"Tasks: {wanted.words}",
            list(tasks_page.content(asked.place, view, queues)),
            topics=() if wanted.cursor else (f"tasks/{query}",),
        )

    async def _queues_to_read(self, asked: Asked) -> list[str]:
        return [
            config.name
            for config, _ in await self._reader.queues()
            if asked.place.may(f"tasks:read:{config.name}")
        ]

    async def task(self, asked: Asked) -> Shown:
        """One task."""
        seen_as, visitor = asked.query.get("as"), asked.place.visitor
        run = asked.query.get("run")
        wanted = int(run) if run.isdecimal() and len(run) < 10 else None
        view = await reading_tasks.task_page(self._reader, asked.name, seen_as, visitor)
        log = await reading_tasks.LogTail(asked.name, wanted).read(self._reader)
        artifacts = await reading_tasks.artifact_rows(self._reader, asked.name)
        of_run = "" if wanted is None else f"/{wanted}"
        return Shown(
            f"{view.name} {view.id}",
            list(task_page.content(asked.place, view, log, artifacts)),
            topics=(f"task/{asked.name}/{seen_as or 'native'}", f"log/{asked.name}{of_run}"),
        )

    async def artifact(self, asked: Asked) -> Download:
        """A file that a run left behind."""
        task_id, run, name = asked.names
        engine = await self._reader.engine()
        await reading_tasks.readable_task(engine, task_id, asked.place.visitor)
        places = await engine.artifacts()
        found = [one for one in await places.find(task_id, int(run)) if one.name == name]
        if not found:
            raise Refused(404, "Not here", "There is no such artifact (any more).")
        return Download(name, found[0].size, places.read(found[0]))

    async def search(self, asked: Asked) -> Shown | Answer:
        """The result of a search: the text is taken as an id first, then as a name, key, group,
        tag. A name that only failures have leads to these."""
        text = asked.query.get("q").strip()
        place = asked.place
        if not text:
            return see_other(place.to("/tasks"))
        sought = await search(self._reader, text, place.visitor)
        if sought.is_task:
            return see_other(place.task(text))
        if sought.asked is not None:
            return see_other(f"{place.to('/tasks')}?{urlencode(sought.asked.pairs)}")
        topic = f"search/{quote(text, safe='')}"
        goes_on = not sought.is_over and len(topic) <= MOST_TOPIC
        content = messages.sought(place, sought, goes_on=goes_on)
        return Shown("Nothing found", [content], topics=(topic,) if goes_on else ())

    async def letters(self, asked: Asked) -> Shown:
        """Dead letters by group."""
        queue, looks_on = asked.query.get("queue"), bool(asked.query.get("on"))
        view = await reading_letters.letters_of_a_moment(
            self._reader, queue, asked.place.visitor, looks_on=looks_on
        )
        return Shown(
            "Dead letters",
            list(letters_page.content(asked.place, view)),
            topics=() if looks_on else (f"letters/{quote(queue, safe='')}",),
        )

    async def letter_list(self, asked: Asked) -> Shown:
        """Dead letters one by one."""
        query = asked.query
        queue, fingerprint = query.get("queue"), query.get("fingerprint")
        cursor = query.get("cursor")
        page = await reading_letters.page_of(
            self._reader, queue, fingerprint, cursor, visitor=asked.place.visitor, limit=PAGE
        )
        now = (await self._reader.engine()).now()
        view = TaskList(
            asked=TaskFilter(queue=queue, cursor=cursor),
            rows=rows_of(page.tasks, now),
            next=page.cursor,
            now=now,
            total=None,
        )
        return Shown(
            "Dead letters",
            list(letters_page.listed(asked.place, view, fingerprint, page.tasks[:1])),
        )

    async def doing(self, asked: Asked) -> Shown:
        """The progress of an act on many."""
        doing = self._bulk.find(asked.name)
        if doing is None:
            raise Refused(
                404, "Not here", "This board knows of no such act: it may be an older process's."
            )
        return Shown(
            doing.label,
            list(bulk_page.progress(asked.place, doing)),
            topics=() if doing.is_over else (f"bulk/{doing.id}",),
        )
