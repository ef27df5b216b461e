"""The application: pages by key, search, light and dark, and a clean end."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from andon.dashboard.reading_tasks import LOOK_S
from andon.dashboard.searching import search
from andon.top.andon import AndonPage, QueuesPage
from andon.top.asking import Form, Help, Question
from andon.top.desk import Desk, Wrong
from andon.top.flows import FlowsPage
from andon.top.letters import LettersPage
from andon.top.page import TABS, Page, bindings_of
from andon.top.schedules import SchedulesPage
from andon.top.task import TaskPage
from andon.top.tasks import TasksPage
from andon.top.workers import WorkersPage

if TYPE_CHECKING:
    from andon.engine.base import Engine

PAGES: dict[str, Callable[[Desk], Screen[Any]]] = {
    "andon": AndonPage,
    "tasks": TasksPage,
    "letters": LettersPage,
    "queues": QueuesPage,
    "workers": WorkersPage,
    "schedules": SchedulesPage,
    "flows": FlowsPage,
}
"""By name: the first page of each tab."""

_MOVES = [("↑ ↓ PgUp PgDn", "Move"), ("Home End", "To the beginning, to the end")]

DARK, LIGHT = "textual-dark", "textual-light"


class Top(App[None]):
    """The board on a terminal."""

    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"page('{name}')", label, show=False) for key, name, label in TABS),
        Binding("g", "search", "Go to a task", show=False),
        Binding("t", "theme", "Light or dark", show=False),
        Binding("question_mark", "help", "Keys"),
        Binding("q", "leave", "Quit"),
        Binding("ctrl+c", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        engine: "Engine",
        *,
        location: str,
        actor: str,
        light: bool = False,
        seen_as: str = "native",
    ) -> None:
        super().__init__()
        self.desk = Desk(engine, location=location, actor=actor, seen_as=seen_as)
        self.theme = LIGHT if light else DARK
        for name, page in PAGES.items():
            self.add_mode(name, partial(page, self.desk))  # pyright: ignore[reportUnknownMemberType]

    async def on_mount(self) -> None:
        """Begin with the whole board."""
        await self.switch_mode("andon")

    def on_unmount(self) -> None:
        """Close it. Acts on many tasks end, too; what they did stays done."""
        self.desk.reader.bulk.stop()

    async def action_page(self, name: str) -> None:
        """The first page of a tab; when it is there already, back to it."""
        if self.current_mode == name:
            while len(self.screen_stack) > 1:
                await self.pop_screen()
        await self.switch_mode(name)

    def action_theme(self) -> None:
        """Light after dark, dark after light."""
        self.theme = DARK if self.theme == LIGHT else LIGHT
        page = self.screen
        if isinstance(page, Page):
            page.repaint()

    def action_help(self) -> None:
        """The keys of the page, then those of all pages."""
        of_page = [base for base in type(self.screen).__mro__ if issubclass(base, Page)]
        bound = [*(one for base in of_page for one in bindings_of(base)), *bindings_of(Top)]
        self.push_screen(Help([(self._shown(one), one.description) for one in bound] + _MOVES))

    def _shown(self, binding: Binding) -> str:
        keys = (replace(binding, key=key) for key in binding.key.split(","))
        return " ".join(map(self.get_key_display, keys))

    @work(group="act")
    async def action_search(self) -> None:
        """To a task by its id, or to those of a name, key, group or tag."""
        text = await self.push_screen_wait(
            Form("Go to", "An id, or how it begins; or a name, key, group or tag.")
        )
        page = self.screen
        if not text or not text.strip() or not isinstance(page, Page):
            return
        text = text.strip()
        found = await self.desk.tried(
            search(self.desk.reader, text, self.desk.visitor, seconds=LOOK_S)
        )
        if isinstance(found, Wrong):
            page.say(f"⚠ {found}")
        elif found.is_task:
            self.push_screen(TaskPage(self.desk, text))
        elif found.asked is not None:
            self.push_screen(TasksPage(self.desk, found.asked))
        else:
            so_far = "" if found.is_over else " so far"
            page.say(
                f"No task was found{so_far} that has {text[:60]!r} as its id, name, key, group or "
                "tag."
            )

    @work(group="act")
    async def action_leave(self) -> None:
        """End it; if an act on many tasks is under way, only after the user confirms."""
        if self.desk.reader.bulk.is_busy:
            explains = "What it has done stays done, and doing it again is safe."
            asked = Question("An act on many tasks is under way. Stop it and quit?", explains)
            if await self.push_screen_wait(asked) != "yes":
                return
        self.exit()
