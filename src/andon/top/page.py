"""The base of all pages of `andon top`: a page reads only while it is shown."""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Static

from andon.dashboard.patience import AWAY, EVERY, until_next
from andon.dashboard.requests import Refused
from andon.model.errors import AccessError, StoreError, TaskNotFound
from andon.top import texts
from andon.top.desk import Desk, sentence

if TYPE_CHECKING:
    from textual.worker import Worker

T = TypeVar("T")

TABS = (
    ("1", "andon", "Andon"),
    ("2", "tasks", "Tasks"),
    ("3", "letters", "Dead letters"),
    ("4", "queues", "Queues"),
    ("5", "workers", "Workers"),
    ("6", "schedules", "Schedules"),
    ("7", "flows", "Flows"),
)
"""The pages that a key opens: key, name, label."""


def bindings_of(owner: type[DOMNode]) -> list[Binding]:
    """The keys that a class has of its own."""
    return [one for one in vars(owner).get("BINDINGS", ()) if isinstance(one, Binding)]


class Page(Screen[None]):
    """One page."""

    tab: ClassVar[str] = ""  #: of `TABS`, the one that it belongs to
    what: ClassVar[str]  #: of `patience.EVERY`: how often it is read

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "back", "Back", show=False),
        Binding("f5", "read_again", "Read again", show=False),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._woken = asyncio.Event()
        self._reading: Worker[None] | None = None
        self._texts: dict[str, Text] = {}
        self.view: Any = None  #: what was read last

    # --- what a page defines ---

    def body(self) -> Iterable[Widget]:
        """The widgets below the title."""
        raise NotImplementedError

    def heading(self) -> Text:
        """The line below the title: what the page shows."""
        raise NotImplementedError

    async def read(self) -> Any:
        """What is shown."""
        raise NotImplementedError

    def show(self, view: Any) -> None:
        """Show what was read."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Draw anew what was read."""
        if self.view is not None:
            self.show(self.view)
            self.put("heading", self.heading())

    def put(self, name: str, text: Text) -> bool:
        """Show a text, if it is another than is shown: the terminal may be far away. Whether it
        was another."""
        before = self._texts.get(name)
        if before is not None and before == text and before.style == text.style:
            return False
        self._texts[name] = text
        self.query_one(f"#{name}", Static).update(text)
        return True

    def repaint(self) -> None:
        """Draw all anew, in other colours."""
        self._texts.clear()
        self.redraw()

    # --- what all do ---

    @property
    def top(self) -> App[None]:
        """The application."""
        return cast("App[None]", self.app)  # pyright: ignore[reportUnknownMemberType]

    def go(self, page: "Page") -> None:
        """To another page; the way back is here."""
        self.top.push_screen(page)

    async def ask(self, question: ModalScreen[T]) -> T:
        """Show a dialog. Returns the user's answer."""
        return await self.top.push_screen_wait(question)

    def compose(self) -> ComposeResult:
        """The frame: the title, errors, what is shown, and the keys."""
        yield Static(self._tabs(), id="tabs")
        yield Static(id="notice")
        yield Static(self.heading(), id="heading")
        yield from self.body()
        yield Static(id="said")
        yield Footer(show_command_palette=False)

    def _tabs(self) -> Text:
        line = Text(no_wrap=True, overflow="crop")
        for key, name, label in TABS:
            line.append("  " if line else " ")
            line.append(key, "dim")
            line.append(f" {label}", "bold underline" if name == self.tab else "")
        return line

    def on_screen_resume(self) -> None:
        """The page is shown: begin to read."""
        self._reading = self.run_worker(self._keep_reading, group="reading", exclusive=True)

    def on_screen_suspend(self) -> None:
        """The page is hidden: stop reading."""
        if self._reading is not None:
            self._reading.cancel()

    async def _keep_reading(self) -> None:
        failures = 0
        while True:
            self._woken.clear()
            try:
                self.view = await self.read()
                self.redraw()
                failures, trouble = 0, ""
            except (Refused, TaskNotFound, AccessError) as error:
                failures += 1
                trouble = error.detail if isinstance(error, Refused) else str(error)
            except (StoreError, OSError):
                failures += 1
                trouble = AWAY
            except Exception as error:
                failures += 1
                trouble = sentence(error)
            try:
                self.trouble(trouble)
            except NoMatches:  # the application ends, and the page has lost its widgets already
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until_next(EVERY[self.what], failures)):
                    await self._woken.wait()

    def trouble(self, text: str) -> None:
        """Show the current error; nothing if there is none."""
        self.put("notice", texts.words(("⚠ ", ""), text) if text else Text(""))
        self.query_one("#notice").display = bool(text)

    def say(self, text: str) -> None:
        """Show the outcome of an act."""
        self.put("said", texts.plain(text))
        self.query_one("#said").display = bool(text)

    def action_read_again(self) -> None:
        """Read now."""
        self.desk.reader.forget()
        self._woken.set()

    def action_back(self) -> None:
        """To the page before; from the first of a tab, nowhere."""
        if len(self.top.screen_stack) > 1:
            self.top.pop_screen()


class TextPage(Page):
    """A page of text that scrolls."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def body(self) -> Iterable[Widget]:
        """The text."""
        yield VerticalScroll(Static(id="text"), id="body")

    def on_mount(self) -> None:
        """Keys that scroll are the text's."""
        self.query_one("#body").focus()

    def text(self, view: Any) -> Text:
        """The whole text."""
        raise NotImplementedError

    def show(self, view: Any) -> None:
        """Show what was read, if it is not what is shown."""
        self.put("text", self.text(view))

    def action_scroll(self, lines: int) -> None:
        """Go down, or up."""
        self.query_one("#body").scroll_relative(y=lines, animate=False)


class Column:
    """A column of a table. `most`: cells that it is wide at the most; None: what is left."""

    def __init__(self, name: str, most: int | None = 12) -> None:
        self.name = name
        self.most = most


class Row:
    """A row of a table: its key, its cells, and the text about it below the table."""

    def __init__(self, key: str, cells: Sequence[Text], about: Text) -> None:
        self.key = key
        self.cells = cells
        self.about = about


_LEAST = 8
_GAP = 2


class ListPage(Page):
    """A page with one table and a cursor on its rows."""

    columns: ClassVar[Sequence[Column]]
    empty: ClassVar[str] = "There is nothing."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", "Down", show=False),
        Binding("k", "move(-1)", "Up", show=False),
        Binding("enter", "open", "Open", show=True),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.rows: list[Row] = []
        self._widths: list[int] = []

    def rows_of(self, view: Any) -> list[Row]:
        """The rows of what was read."""
        raise NotImplementedError

    def above(self) -> Iterable[Widget]:
        """Widgets above the table."""
        return ()

    def open(self, key: str) -> None:
        """Open the page of a row's item."""

    def body(self) -> Iterable[Widget]:
        """The widgets above the table, the table, and the text about the row under the cursor."""
        yield from self.above()
        yield DataTable[Text](id="table", cursor_type="row", show_row_labels=False)
        yield Static(self.empty, id="empty", markup=False)
        yield Static(id="about")

    def on_mount(self) -> None:
        """Keys that move are the table's."""
        self._table.focus()

    @property
    def _table(self) -> DataTable[Text]:
        return cast("DataTable[Text]", self.query_one("#table"))

    @property
    def current(self) -> str:
        """The key of the row under the cursor; empty if there is none."""
        place = self._table.cursor_row
        return self.rows[place].key if 0 <= place < len(self.rows) else ""

    def show(self, view: Any) -> None:
        """Show what was read: cells that are the same are left alone."""
        before, at, place = self.rows, self.current, self._table.cursor_row
        rows = self.rows_of(view)
        widths = self._widths_of(rows)
        table = self._table
        self.rows = rows
        if widths != self._widths:
            table.clear(columns=True)
            for column, width in zip(self.columns, widths, strict=True):
                table.add_column(Text(column.name, "dim"), width=width)
            self._widths, before = widths, []
        if [row.key for row in before] == [row.key for row in rows]:
            for place, (old, new) in enumerate(zip(before, rows, strict=True)):
                for which, cell in enumerate(new.cells):
                    if cell != old.cells[which] or cell.style != old.cells[which].style:
                        table.update_cell_at((place, which), texts.cut(cell, widths[which]))  # pyright: ignore[reportArgumentType]
        else:
            table.clear()
            for row in rows:
                table.add_row(*map(texts.cut, row.cells, widths))
            keys = [row.key for row in rows]
            if keys:
                there = keys.index(at) if at in keys else min(place, len(keys) - 1)
                table.move_cursor(row=max(0, there), animate=False)
        self.query_one("#empty").display = not rows
        self._tell()

    def _widths_of(self, rows: Sequence[Row]) -> list[int]:
        widths = [
            max([len(column.name), *(row.cells[place].cell_len for row in rows)])
            for place, column in enumerate(self.columns)
        ]
        widths = [
            width if column.most is None else min(width, column.most)
            for width, column in zip(widths, self.columns, strict=True)
        ]
        rest = [place for place, column in enumerate(self.columns) if column.most is None]
        taken = sum(width for place, width in enumerate(widths) if place not in rest)
        left = self.size.width - taken - _GAP * len(widths) - 2
        for place in rest:
            widths[place] = max(_LEAST, left // len(rest))
        return widths

    def _tell(self) -> None:
        place = self._table.cursor_row
        self.put("about", self.rows[place].about if 0 <= place < len(self.rows) else Text(""))

    def on_resize(self) -> None:
        """The width that is left for a column has changed."""
        self.redraw()

    def on_data_table_row_highlighted(self) -> None:
        """The cursor has moved."""
        self._tell()

    def on_data_table_row_selected(self) -> None:
        """A row is to be opened."""
        self.action_open()

    def action_open(self) -> None:
        """Open the page of the item under the cursor."""
        if self.current:
            self.open(self.current)

    def action_move(self, rows: int) -> None:
        """Go down, or up."""
        if rows > 0:
            self._table.action_cursor_down()
        else:
            self._table.action_cursor_up()
