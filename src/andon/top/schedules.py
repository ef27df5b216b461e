"""Schedules: when each fires next, and what it bears."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from andon.dashboard import acting
from andon.dashboard.patience import within
from andon.dashboard.reading_fleet import schedules
from andon.dashboard.views.schedules import times_of
from andon.engine.schedule_views import is_paused, next_due, next_times, schedule_of
from andon.lifecycle.faces.fields import iso
from andon.model.errors import TaskNotFound
from andon.model.task import Task
from andon.top import doing, texts
from andon.top.desk import Desk
from andon.top.page import Column, ListPage, Page, Row, TextPage
from andon.top.task import TaskPage

if TYPE_CHECKING:
    from andon.engine.schedule_requests import ScheduleAct

_TIMES = 10


class SchedulesPage(ListPage):
    """Schedules that are live."""

    tab = "schedules"
    what = "schedules"
    columns: ClassVar[Sequence[Column]] = (
        Column("schedule", 24),
        Column("fires", 20),
        Column("next", 10),
        Column("fired", 7),
        Column("task", None),
    )
    empty = "There are none. Declare one in code, @app.task(cron=…), or: andon schedules add."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause or resume"),
        Binding("r", "run", "Run now"),
        Binding("l", "last", "Its last task"),
        Binding("n", "next", "The next page of the list", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._cursor = ""

    def heading(self) -> Text:
        """How many are listed."""
        more = ("  n: next page" if self.view and self.view[2] else "", "dim")
        return texts.words(
            ("Schedules", "bold"), f"  {len(self.view[0]):,}" if self.view else "", more
        )

    async def read(self) -> tuple[list[Task], int, str]:
        """A page of them, now, and the cursor of the next page."""
        found, more = await schedules(self.desk.reader, self._cursor)
        return found, (await self.desk.reader.engine()).now(), more

    def rows_of(self, view: tuple[list[Task], int, str]) -> list[Row]:
        """A schedule a row."""
        return [_row(task, view[1]) for task in view[0]]

    def open(self, key: str) -> None:
        """One schedule with its next times."""
        self.go(SchedulePage(self.desk, key))

    def action_next(self) -> None:
        """The next page, and after the last the first."""
        self._cursor = self.view[2] if self.view else ""
        self.action_read_again()

    @property
    def _found(self) -> Task | None:
        found: list[Task] = self.view[0] if self.view else []
        return next((task for task in found if task.id == self.current), None)

    @work(group="act")
    async def action_pause(self) -> None:
        """Pause it, or resume it."""
        if self._found is not None:
            await _to_one(self, self._found, "resume" if is_paused(self._found) else "pause")

    @work(group="act")
    async def action_run(self) -> None:
        """Make it submit one task now."""
        if self._found is not None:
            await _to_one(self, self._found, "run")

    def action_last(self) -> None:
        """The task that it bore last."""
        last = "" if self._found is None else schedule_of(self._found, self.current).last_id
        if last:
            self.go(TaskPage(self.desk, last))
        else:
            self.say("It has borne no task yet.")


class SchedulePage(TextPage):
    """One schedule."""

    tab = "schedules"
    what = "schedules"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause or resume"),
        Binding("r", "run", "Run now"),
    ]

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk)
        self._schedule = name

    def heading(self) -> Text:
        """Its name."""
        return texts.words(("Schedule ", "dim"), (self._schedule, "bold"))

    async def read(self) -> tuple[Task, int]:
        """The schedule as it is now."""
        engine = await self.desk.reader.engine()
        [task] = await within(engine.get([self._schedule]))
        if task is None or task.status.schedule is None:
            raise TaskNotFound(self._schedule)
        return task, engine.now()

    def text(self, view: tuple[Task, int]) -> Text:
        """The widgets of the page."""
        task, now = view
        schedule = schedule_of(task, task.id)
        d = schedule.template
        due = next_due(task)
        told = texts.listed(
            [
                ("state", texts.words("‖ paused") if is_paused(task) else texts.state(task.state)),
                ("fires", times_of(schedule.recurrence)),
                ("next", texts.age(due, now) if due else "not"),
                ("task", d.name),
                ("queue", d.queue),
                ("overlap", schedule.overlap),
                ("fired", f"{schedule.fired:,} times"),
                ("failures", f"{schedule.failures:,} in a row" if schedule.failures else ""),
                ("last", schedule.last_id),
                ("application", schedule.application),
                ("release", schedule.release),
            ]
        )
        times = texts.table(
            ["when", "at (UTC)", "local time", "notes"],
            [
                [
                    texts.age(one.occurrence.due, now),
                    texts.plain(iso(one.occurrence.due)[:19].replace("T", " ")),
                    texts.plain(one.local),
                    texts.plain(", ".join(one.notes)),
                ]
                for one in next_times(task, now, _TIMES)
            ],
        )
        args = self.desk.reader.redaction.seen(d.args)
        parts = [told, Text("\nNext times", "bold underline"), times]
        if args is not None and args.text:
            parts += [Text("\nArguments", "bold underline"), texts.lines(args.text)]
        return texts.joined(parts)

    @work(group="act")
    async def action_pause(self) -> None:
        """Pause it, or resume it."""
        if self.view is not None:
            await _to_one(self, self.view[0], "resume" if is_paused(self.view[0]) else "pause")

    @work(group="act")
    async def action_run(self) -> None:
        """Make it submit one task now."""
        if self.view is not None:
            await _to_one(self, self.view[0], "run")


_QUESTIONS: "dict[ScheduleAct, tuple[str, str]]" = {
    "pause": ("Pause schedule {}?", "It bears no task until it is resumed."),
    "resume": ("Let schedule {} go on?", "It fires again at its times."),
    "run": ("Run schedule {} now?", "It bears 1 task now; its times stay as they are."),
}


async def _to_one(page: Page, task: Task, act: "ScheduleAct") -> None:
    title, explains = _QUESTIONS[act]
    if await doing.sure(page, title.format(task.id), explains):
        desk = page.desk
        await doing.do(page, acting.act_on_schedule(desk.reader, desk.visitor, act, task.id))


def _row(task: Task, now: int) -> Row:
    schedule = schedule_of(task, task.id)
    d = schedule.template
    paused = is_paused(task)
    bad = f"⚠ {schedule.failures:,} failed in a row" if schedule.failures else ""
    return Row(
        task.id,
        [
            texts.plain(task.id, most=80),
            texts.plain(times_of(schedule.recurrence), most=80),
            Text("‖ paused", "yellow") if paused else texts.age(next_due(task), now),
            texts.number(schedule.fired),
            texts.words((f"{bad} ", "red") if bad else "", d.name),
        ],
        texts.joined(
            [
                texts.words((task.id, "bold"), "  ", times_of(schedule.recurrence)),
                texts.words(
                    ("queue ", "dim"),
                    d.queue,
                    ("  last ", "dim"),
                    schedule.last_id,
                    (f"  {bad}", "red"),
                ),
            ]
        ),
    )
