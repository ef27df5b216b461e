"""Lists of tasks: filters, and acts on the chosen ones."""

import shlex
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from andon.dashboard.acting import Meant
from andon.dashboard.looking_on import LookingOn
from andon.dashboard.reading_tasks import task_list
from andon.dashboard.requests import Fields
from andon.dashboard.views.tasks import (
    ORDERS,
    STATES,
    TEXTS,
    TaskFilter,
    TaskList,
    TaskRow,
    filter_of,
)
from andon.model.errors import ConfigurationError
from andon.model.wording import plural
from andon.top import doing, texts
from andon.top.asking import Form
from andon.top.desk import Desk
from andon.top.page import Column, ListPage, Row
from andon.top.task import TaskPage

_HINT = f"""\
Fields and values, apart by spaces; none: all tasks. For example:
  state=failed queue=mail      name=shop.charge order=oldest
Fields: state, {", ".join(TEXTS)}, order. A word alone is a state.
States: {", ".join(STATES)}.
Orders: {", ".join(ORDERS)}. id= is how ids begin; quote what has spaces."""


class TaskRows(ListPage):
    """Tasks, to be chosen and acted on."""

    columns: ClassVar[Sequence[Column]] = (
        Column("", 1),
        Column("task", 26),
        Column("name", 18),
        Column("state", 13),
        Column("created", 11),
        Column("note", None),
    )
    empty = "No task is like that."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x,space", "choose", "Choose"),
        Binding("r", "act('retry')", "Run"),
        Binding("c", "act('cancel')", "Cancel"),
        Binding("a", "act('archive')", "Archive"),
        Binding("d", "act('delete')", "Delete"),
        Binding("R", "act_on_all('retry')", "Run again all that match", show=False),
        Binding("C", "act_on_all('cancel')", "Cancel all that match", show=False),
        Binding("A", "act_on_all('archive')", "Archive all that match", show=False),
        Binding("D", "act_on_all('delete')", "Delete all that match", show=False),
        Binding("n", "next", "The next page of the list", show=False),
        Binding("p", "first", "The first page of the list", show=False),
    ]

    def __init__(self, desk: Desk, asked: TaskFilter | None = None) -> None:
        super().__init__(desk)
        self.asked = asked or TaskFilter()
        self.chosen: dict[str, None] = {}

    def rows_of(self, view: TaskList) -> list[Row]:
        """A task a row."""
        return [self._row(one, view.now) for one in view.rows]

    def _row(self, one: TaskRow, now: int) -> Row:
        mark = "✓" if one.id in self.chosen else " "
        cells = [
            Text(mark, "bold"),
            texts.plain(one.id, most=80),
            texts.plain(one.name, most=80),
            texts.state(one.state),
            texts.age(one.created_at, now),
            texts.plain(one.note, "red" if one.is_bad else ""),
        ]
        tries = f"  tried {plural(one.tries, 'time')}" if one.tries else ""
        about = texts.joined(
            [
                texts.words(
                    (one.id, "bold"), "  ", one.name, ("  queue ", "dim"), one.queue, tries
                ),
                texts.plain(one.note, "red" if one.is_bad else ""),
            ]
        )
        return Row(one.id, cells, about)

    def open(self, key: str) -> None:
        """The task of a row."""
        self.go(TaskPage(self.desk, key))

    def action_choose(self) -> None:
        """Choose the task under the cursor, or choose it no more; go to the next."""
        task_id = self.current
        if not task_id:
            return
        if task_id in self.chosen:
            del self.chosen[task_id]
        else:
            self.chosen[task_id] = None
        self.redraw()
        self.action_move(1)

    def action_next(self) -> None:
        """The next page."""
        if self.view is not None and self.view.next:
            self.asked = msgspec.structs.replace(self.asked, cursor=self.view.next)
            self.action_read_again()

    def action_first(self) -> None:
        """The first page."""
        self.asked = msgspec.structs.replace(self.asked, cursor="")
        self.action_read_again()

    def meant(self) -> Meant:
        """All that are listed here, on whatever page."""
        return Meant(asked=msgspec.structs.replace(self.asked, cursor=""))

    @work(group="act")
    async def action_act(self, act: str) -> None:
        """Act on those that are chosen; else on the one under the cursor."""
        ids = tuple(self.chosen) or tuple(filter(None, [self.current]))
        if ids and await doing.to_many(self, act, Meant(chosen=ids)):
            self.chosen = {}
            self.redraw()

    @work(group="act")
    async def action_act_on_all(self, act: str) -> None:
        """Act on all that are like those listed."""
        await doing.to_many(self, act, self.meant())


class TasksPage(TaskRows):
    """A list of tasks by a filter."""

    tab = "tasks"
    what = "tasks"

    BINDINGS: ClassVar[list[BindingType]] = [Binding("slash", "filter", "Filter")]

    def __init__(self, desk: Desk, asked: TaskFilter | None = None) -> None:
        super().__init__(desk, asked)
        self._list = LookingOn(self.asked)

    def heading(self) -> Text:
        """What is listed, and how many there are."""
        view: TaskList | None = self.view
        total = "" if view is None or view.total is None else f"  {view.total:,}"
        more = "  n: next page" if view is not None and view.next else ""
        if view is not None and view.is_cut:
            more = "  not all tasks are looked through yet" + more
        chosen = f"  {len(self.chosen):,} chosen" if self.chosen else ""
        return texts.words(
            ("Tasks", "bold"), ": ", self.asked.words, (total, "bold"), chosen, (more, "dim")
        )

    async def read(self) -> TaskList:
        """The page of the list."""
        if self.asked.cursor:
            return await task_list(self.desk.reader, self.asked)
        if self._list.asked != self.asked:
            self._list = LookingOn(self.asked)
        return await self._list.read(self.desk.reader)

    @work(group="act")
    async def action_filter(self) -> None:
        """Ask for another filter."""
        text = await self.ask(Form("Which tasks?", _HINT, written(self.asked), filter_in))
        if text is not None:
            self.look_for(filter_in(text))

    def look_for(self, asked: TaskFilter) -> None:
        """List other tasks."""
        self.asked, self.chosen = asked, {}
        self.action_read_again()


def filter_in(text: str) -> TaskFilter:
    """The filter from the user's text. Raises `ValueError` saying what is wrong with it."""
    pairs: list[tuple[str, str]] = []
    for part in shlex.split(text):
        name, equals, value = part.partition("=")
        if not equals:
            name, value = "state", part
        if name not in ("state", "order", *TEXTS):
            raise ValueError(
                f"There is no field {name[:40]!r}; there are state, order, {', '.join(TEXTS)}."
            )
        pairs.append((name, value))
    try:
        asked = filter_of(Fields(pairs))
        asked.query()
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return asked


def written(asked: TaskFilter) -> str:
    """A filter as it may be written."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in asked.pairs)
