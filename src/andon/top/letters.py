"""Dead letters: grouped by their errors, and one by one."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from andon.dashboard import reading_letters
from andon.dashboard.acting import Meant
from andon.dashboard.views.letters import Letters
from andon.dashboard.views.tasks import PAGE, TaskFilter, TaskList, rows_of
from andon.model.letters import LetterGroup
from andon.top import doing, texts
from andon.top.asking import Form
from andon.top.desk import Desk
from andon.top.page import Column, ListPage, Row
from andon.top.tasks import TaskRows


class LettersPage(ListPage):
    """Dead letters by cause."""

    tab = "letters"
    what = "letters"
    columns: ClassVar[Sequence[Column]] = (
        Column("how many", 9),
        Column("last", 11),
        Column("type", 18),
        Column("what went wrong", None),
    )
    empty = "✓ There are none. What fails for good, and is kept, is listed here."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Of a queue"),
        Binding("r", "act('retry')", "Run again"),
        Binding("d", "act('delete')", "Delete"),
        Binding("R", "act_on_all('retry')", "Run all dead letters again", show=False),
        Binding("D", "act_on_all('delete')", "Delete all dead letters", show=False),
    ]

    def __init__(self, desk: Desk, queue: str = "") -> None:
        super().__init__(desk)
        self.queue = queue

    def heading(self) -> Text:
        """How many there are."""
        view: Letters | None = self.view
        total = f"  {view.total:,}" if view else ""
        looked = (
            f", the newest {view.found.looked:,} by cause" if view and not view.found.whole else ""
        )
        of_queue = f" of queue {self.queue}" if self.queue else ""
        return texts.words(("Dead letters", "bold"), of_queue, (total, "bold"), looked)

    async def read(self) -> Letters:
        """The groups."""
        return await reading_letters.letters(self.desk.reader, self.queue)

    def rows_of(self, view: Letters) -> list[Row]:
        """A cause a row."""
        return [_row(group, view.now) for group in view.groups]

    def open(self, key: str) -> None:
        """The dead letters of one cause."""
        view: Letters = self.view
        pattern = next((one.pattern for one in view.groups if one.fingerprint == key), "")
        self.go(LetterRows(self.desk, self.queue, key, pattern))

    @work(group="act")
    async def action_filter(self) -> None:
        """Ask for a queue."""
        hint = "The name of a queue; none: dead letters of all."
        queue = await self.ask(Form("Of which queue?", hint, self.queue))
        if queue is not None:
            self.queue = queue.strip()
            self.action_read_again()

    @work(group="act")
    async def action_act(self, act: str) -> None:
        """Act on all of one cause."""
        if self.current:
            await doing.to_many(self, act, _meant(self.queue, self.current))

    @work(group="act")
    async def action_act_on_all(self, act: str) -> None:
        """Act on all dead letters."""
        await doing.to_many(self, act, _meant(self.queue))


class LetterRows(TaskRows):
    """Dead letters of one cause, one by one."""

    tab = "letters"
    what = "letters"

    def __init__(self, desk: Desk, queue: str, fingerprint: str, pattern: str) -> None:
        super().__init__(desk, TaskFilter(queue=queue))
        self._fingerprint = fingerprint
        self._pattern = pattern

    def heading(self) -> Text:
        """The error that all of them share."""
        return texts.words(("Dead letters", "bold"), ": ", self._pattern)

    async def read(self) -> TaskList:
        """A page of them."""
        desk, asked = self.desk, self.asked
        page = await reading_letters.page_of(
            desk.reader,
            asked.queue,
            self._fingerprint,
            asked.cursor,
            visitor=desk.visitor,
            limit=PAGE,
        )
        now = (await desk.reader.engine()).now()
        return TaskList(
            asked=asked, rows=rows_of(page.tasks, now), next=page.cursor, now=now, total=None
        )

    def meant(self) -> Meant:
        """All of this cause."""
        return _meant(self.asked.queue, self._fingerprint)


def _meant(queue: str, fingerprint: str = "") -> Meant:
    return Meant(asked=TaskFilter(queue=queue), letters=True, fingerprint=fingerprint)


def _row(group: LetterGroup, now: int) -> Row:
    more = ", ".join(group.names[1:])
    return Row(
        group.fingerprint,
        [
            texts.number(group.count),
            texts.age(group.newest_at, now),
            texts.plain(group.names[0] if group.names else "", most=80),
            texts.plain(group.pattern, "red"),
        ],
        texts.joined(
            [
                texts.plain(group.pattern, "bold"),
                texts.words(
                    ("newest ", "dim"),
                    group.newest,
                    ("  queues ", "dim"),
                    ", ".join(group.queues),
                    ("  first ", "dim"),
                    texts.age(group.oldest_at, now),
                    f"  also of {more}" if more else "",
                ),
            ]
        ),
    )
