"""Which page a path is, and what it shows."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlencode

import msgspec

from andon.dashboard import reading_fleet, reading_letters, reading_tasks
from andon.dashboard.alerting import Alerting
from andon.dashboard.answers import Shown
from andon.dashboard.downloads import Download
from andon.dashboard.editing import written
from andon.dashboard.pages import andon as andon_page
from andon.dashboard.pages import bulk as bulk_page
from andon.dashboard.pages import doctor as doctor_page
from andon.dashboard.pages import flows as flows_page
from andon.dashboard.pages import history as history_page
from andon.dashboard.pages import letters as letters_page
from andon.dashboard.pages import messages, schedule_forms
from andon.dashboard.pages import queues as queues_page
from andon.dashboard.pages import schedules as schedules_page
from andon.dashboard.pages import task as task_page
from andon.dashboard.pages import tasks as tasks_page
from andon.dashboard.pages import trust as trust_page
from andon.dashboard.pages import types as types_page
from andon.dashboard.pages import workers as workers_page
from andon.dashboard.patience import within
from andon.dashboard.requests import Answer, Fields, Refused, see_other
from andon.dashboard.scheduling import Scheduling, may_edit, may_make_some
from andon.dashboard.searching import search
from andon.dashboard.sources import MOST_TOPIC
from andon.dashboard.views.alerts import AlertForm
from andon.dashboard.views.tasks import PAGE, TaskFilter, TaskList, filter_of, rows_of
from andon.dashboard.views.types import types_of
from andon.engine import checks
from andon.engine.audit import MOST_RECORDS
from andon.engine.fleet import settings_of
from andon.engine.flows import list_flows
from andon.engine.schedule_views import next_times, queues_of

if TYPE_CHECKING:
    from andon.dashboard.bulk import Bulk
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.dashboard.tokens import TokenBook
    from andon.model.task import Task


class Asked(msgspec.Struct, frozen=True):
    """A page that is asked for."""

    path: str
    query: Fields
    place: "Place"
    names: tuple[str, ...] = ()  #: what the path names: a task, a queue, …

    @property
    def name(self) -> str:
        """The first of them."""
        return self.names[0] if self.names else ""

    def need(self, scope: str) -> None:
        """Raise `Refused` unless the visitor may."""
        if not self.place.may(scope):
            raise Refused(403, "Not allowed", f"This needs the scope {scope}, which you lack.")

    def need_some(self, kind: str) -> None:
        """The same of anything of a kind."""
        if not self.place.visitor.may_some(kind):
            raise Refused(403, "Not allowed", f"This needs a scope {kind}…, which you lack.")


_TIMES = 10
_ACTS = 100
"""Acts by hand that are shown at first."""

_DOCTOR_S = 30.0
"""The doctor reads a lot."""

Show = Callable[[Asked], Awaitable[Shown | Answer | Download]]


class Pages:
    """All pages of a board."""

    def __init__(self, reader: "Reader", bulk: "Bulk", tokens: "TokenBook | None") -> None:
        self._reader = reader
        self._bulk = bulk
        self._tokens = tokens
        self._alerting = Alerting(reader)
        self._scheduling = Scheduling(reader)
        self._routes: list[tuple[re.Pattern[str], Show]] = [
            (re.compile(pattern), show)
            for pattern, show in (
                ("/", self.andon),
                ("/tasks", self.tasks),
                ("/tasks/([^/]+)", self.task),
                ("/tasks/([^/]+)/artifacts/([0-9]{1,9})/([^/]+)", self.artifact),
                ("/dead-letters", self.letters),
                ("/dead-letters/list", self.letter_list),
                ("/bulk/([^/]+)", self.doing),
                ("/queues", self.queues),
                ("/queues/([^/]+)", self.queue),
                ("/types", self.types),
                ("/types/([^/]+)", self.type),
                ("/workers", self.workers),
                ("/schedules", self.schedules),
                (schedule_forms.NEW, self.new_schedule),
                ("/schedules/([^/]+)", self.schedule),
                ("/schedules/([^/]+)/edit", self.edited_schedule),
                ("/flows", self.flows),
                ("/flows/([^/]+)", self.flow),
                ("/alerts", self.alerts),
                ("/alerts/rule", self.alert_rule),
                ("/alerts/target", self.alert_target),
                ("/alerts/rules/([^/]+)", self.alert_rule),
                ("/alerts/targets/([^/]+)", self.alert_target),
                ("/tokens", self.tokens),
                ("/audit", self.audit),
                ("/doctor", self.doctor),
                ("/search", self.search),
            )
        ]

    async def show(self, asked: Asked) -> Shown | Answer | Download:
        """The page of a path. Raises `Refused` where there is none."""
        for pattern, show in self._routes:
            found = pattern.fullmatch(asked.path)
            if found is not None:
                names = tuple(map(unquote, found.groups()))
                return await show(msgspec.structs.replace(asked, names=names))
        raise Refused(404, "Not here", "There is no such page.")

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

    # --- tasks ---

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
        """What is looked for, by whatever it may be: an id first, then a name, key, group, tag.
        A name that only failures have leads to these."""
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

    # --- dead letters ---

    async def letters(self, asked: Asked) -> Shown:
        """Dead letters by cause."""
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

    # --- queues, workers, schedules, flows ---

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

    # --- alerts ---

    async def alerts(self, asked: Asked) -> Shown:
        """Alert rules and targets."""
        return await self._alerting.everything(asked.place)

    async def alert_rule(self, asked: Asked) -> Shown:
        """One rule, or the form of a new one."""
        form = AlertForm(name=asked.name, is_new=not asked.names)
        return await self._alerting.rule(asked.place, form)

    async def alert_target(self, asked: Asked) -> Shown:
        """One target, or the form of a new one."""
        form = AlertForm(name=asked.name, is_new=not asked.names)
        return await self._alerting.target(asked.place, form)

    # --- trust, and how it is ---

    async def tokens(self, asked: Asked) -> Shown:
        """Tokens."""
        if self._tokens is None:
            raise Refused(404, "Not here", "This board knows no tokens: andon serve has them.")
        asked.need("admin:tokens")
        rows = await within(self._tokens.rows())
        now = (await self._reader.engine()).now()
        return Shown("Tokens", list(trust_page.tokens(asked.place, rows, now)))

    async def audit(self, asked: Asked) -> Shown:
        """What was done by hand."""
        asked.need("admin:audit")
        actor = asked.query.get("actor")
        engine = await self._reader.engine()
        most = MOST_RECORDS if asked.query.get("all") else _ACTS
        records = await within(engine.acts(actor or None, MOST_RECORDS))
        content = trust_page.audit(
            asked.place, records[:most], engine.now(), actor, in_all=len(records)
        )
        return Shown("Audit", list(content))

    async def doctor(self, asked: Asked) -> Shown:
        """What the doctor finds."""
        asked.need("admin:storage")
        engine = await self._reader.engine()
        facts = await within(checks.read(engine), _DOCTOR_S)
        found = await asyncio.to_thread(lambda: list(checks.store_checks(facts)))
        return Shown("Doctor", list(doctor_page.content(found)))

    # --- acts on many ---

    async def doing(self, asked: Asked) -> Shown:
        """How far an act on many is."""
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


def _may_read(place: "Place", task: "Task") -> bool:
    """Whether a schedule is one that the visitor may read: of whichever of its queues."""
    return all(place.may(f"tasks:read:{queue}") for queue in queues_of(task))
