"""The first page: stations, flow, what needs a look, and the queues."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Sparkline, Static

from andon.dashboard import acting
from andon.dashboard.views.andon import Andon, QueueRow, Station
from andon.dashboard.views.rates import Rates, per_second
from andon.dashboard.views.tasks import TaskFilter
from andon.model.wording import ago, plural
from andon.model.words import State
from andon.top import changing, doing, texts
from andon.top.page import Column, ListPage, Row
from andon.top.tasks import TasksPage

_MOST_LOOKS = 3


class QueueList(ListPage):
    """A page with the queues, which can be paused."""

    what = "andon"
    columns: ClassVar[Sequence[Column]] = (
        Column("queue", 20),
        Column("pending", 9),
        Column("oldest", 10),
        Column("active", 8),
        Column("later", 8),
        Column("dead", 7),
        Column("ends/s", 6),
        Column("", None),
    )
    empty = "There is no queue yet: the first task makes one."

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause or resume"),
        Binding("e", "configure", "Limits"),
    ]

    async def read(self) -> Andon:
        """The queues, with the widgets above them."""
        overview = await self.desk.reader.overview()
        return overview.seen_by(self.desk.visitor)

    def rows_of(self, view: Andon) -> list[Row]:
        """A queue a row."""
        return [self._row(row, view.now) for row in view.queues]

    def _row(self, row: QueueRow, now: int) -> Row:
        return Row(
            row.name,
            [
                texts.plain(row.name, most=80),
                texts.number(row.pending),
                texts.age(row.oldest_at, now),
                texts.number(row.active),
                texts.number(row.later),
                texts.number(row.dead_letters),
                _rate(row.rates.processed, row.rates),
                _marks(row),
            ],
            texts.joined(
                [
                    texts.words(
                        (row.name, "bold"),
                        f"  {plural(row.workers, 'worker')}",
                        f"  {row.limits}" if row.limits else "",
                        f"  {row.parked:,} held back by their key" if row.parked else "",
                    ),
                    texts.words(*((f"{one.text}  ", _tone(one.is_wrong)) for one in row.waits[:2])),
                ]
            ),
        )

    def open(self, key: str) -> None:
        """The tasks of a queue."""
        self.go(TasksPage(self.desk, TaskFilter(queue=key)))

    @work(group="act")
    async def action_pause(self) -> None:
        """Pause the queue under the cursor, or resume it."""
        view: Andon | None = self.view
        row = next((row for row in view.queues if row.name == self.current), None) if view else None
        if row is None:
            return
        if row.paused:
            title = f"Let queue {row.name} go on?"
            explains = f"{plural(row.pending, 'task')} of it may be claimed then."
        else:
            title = f"Pause queue {row.name}?"
            explains = (
                f"Nothing is claimed from it then: {plural(row.pending, 'pending task')}. "
                f"What runs goes on: {plural(row.active, 'task')}."
            )
        if await doing.sure(self, title, explains):
            desk = self.desk
            await doing.do(
                self,
                acting.set_paused(desk.reader, desk.visitor, row.name, paused=not row.paused),
            )

    @work(group="act")
    async def action_configure(self) -> None:
        """Change the limits of the queue under the cursor."""
        if self.current:
            await changing.configure(self, self.current)


class AndonPage(QueueList):
    """The whole board on one page."""

    tab = "andon"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "failed", "Failed tasks", show=False),
    ]

    def heading(self) -> Text:
        """Where the tasks are."""
        return texts.words((self.desk.location, "dim"))

    def above(self) -> Iterable[Widget]:
        """Stations, the last minutes, and what needs a look."""
        yield Static(id="stations")
        yield Sparkline(summary_function=max, id="throughput")
        yield Static(id="looks")

    def show(self, view: Andon) -> None:
        """Show the board."""
        self.put("stations", texts.joined(_stations(view)))
        line = self.query_one("#throughput", Sparkline)
        line.data = [processed for _, processed, _ in view.line]
        line.display = any(line.data)  # it draws nothing but zeros as if they were a lot
        self.put("looks", texts.joined(_looks(view)))
        super().show(view)

    def action_failed(self) -> None:
        """Tasks that failed."""
        self.go(TasksPage(self.desk, TaskFilter(states=(State.FAILED,))))


class QueuesPage(QueueList):
    """Queues alone."""

    tab = "queues"

    def heading(self) -> Text:
        """How many there are."""
        view: Andon | None = self.view
        return texts.words(("Queues", "bold"), f"  {len(view.queues):,}" if view else "")


def _stations(view: Andon) -> Iterable[Text]:
    rates = view.rates
    yield texts.words(("waits  ", "dim"), *_spaced(view.waits))
    yield texts.words(
        ("ready  ", "dim"),
        _station(view.ready),
        f"   oldest {ago(view.oldest_at, view.now)}" if view.oldest_at else "   nothing waits",
        ("   in ", "dim"),
        _rate(rates.submitted, rates),
        ("/s", "dim"),
    )
    slots: tuple[str, str] | str = ""
    if view.fleet is not None:
        fleet = view.fleet
        slots = f"   {fleet.active:,} of {fleet.slots:,} slots, {plural(fleet.workers, 'worker')}"
        if not fleet.workers:
            slots = ("   ⚠ no worker is alive", "red")
    yield texts.words(("runs   ", "dim"), _station(view.runs), slots)
    bad = rates.failed >= 0.05
    yield texts.words(
        ("ended  ", "dim"),
        *_spaced(view.ends),
        ("out ", "dim"),
        _rate(rates.processed, rates),
        ("/s", "dim"),
        (f", {per_second(rates.failed)}/s failed", "red") if bad else "",
    )


def _spaced(stations: Sequence[Station]) -> Iterable[Text]:
    for one in stations:
        yield _station(one)
        yield Text("   ")


def _station(one: Station) -> Text:
    name = "schedules" if one.state == State.RECURRING else one.state
    shown = texts.words(texts.state(one.state, name), " ", (f"{one.count:,}", "bold"))
    if not one.count:
        return Text(shown.plain, "dim")
    return shown


def _looks(view: Andon) -> Iterable[Text]:
    """What needs a look, the first of it."""
    found: list[Text] = []
    if view.dead_letters:
        found.append(texts.words((f"✗ {plural(view.dead_letters, 'dead letter')}", "red")))
    found += [texts.words("‖ ", (name, "bold"), " is paused") for name in view.paused]
    found += [
        texts.words((row.name, "bold"), ": ", (one.text, _tone(one.is_wrong)))
        for row in view.queues
        for one in row.waits[:2]
    ]
    shown = found[:_MOST_LOOKS] if len(found) > _MOST_LOOKS else found
    if len(found) > len(shown):
        last = shown[-1]
        shown[-1] = texts.words(last, (f"   and {len(found) - len(shown):,} more", "dim"))
    for place, one in enumerate(shown):
        yield texts.words(("look   " if not place else "       ", "dim"), one)
    if not shown:
        yield texts.words(("look   ", "dim"), ("✓ nothing", "green"))


def _tone(is_wrong: bool) -> str:
    return "red" if is_wrong else "yellow"


def _rate(value: float, rates: Rates) -> Text:
    return Text(per_second(value) if rates.is_known else "…", end="")


def _marks(row: QueueRow) -> Text:
    if row.paused:
        return Text("‖ paused", "yellow")
    if row.pending and not row.workers:
        return Text("⚠ no worker", "red")
    return texts.plain(row.limits, "dim", most=80)
