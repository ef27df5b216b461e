"""Workers: what each runs and can run, and the tasks that none can run."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.widget import Widget
from textual.widgets import Static

from andon.dashboard.reading_fleet import workers
from andon.dashboard.views.fleet import WorkerRow, Workers
from andon.dashboard.views.tasks import TaskFilter
from andon.model.words import State
from andon.top import texts
from andon.top.page import Column, ListPage, Row
from andon.top.tasks import TasksPage

_MOST_LACKING = 3
_SIGNS = {"running": ("▶", "green"), "quiet": ("‖", "dim"), "stopping": ("◼", "dim")}


class WorkersPage(ListPage):
    """Workers alive."""

    tab = "workers"
    what = "workers"
    columns: ClassVar[Sequence[Column]] = (
        Column("worker", 26),
        Column("state", 11),
        Column("slots", 10),
        Column("seen", 9),
        Column("runs now", None),
    )
    empty = "No worker is alive. Start one with: andon worker APP."

    def heading(self) -> Text:
        """How many there are."""
        view: Workers | None = self.view
        return texts.words(("Workers", "bold"), f"  {len(view.rows):,}" if view else "")

    def above(self) -> Iterable[Widget]:
        """What no worker can run."""
        yield Static(id="looks")

    async def read(self) -> Workers:
        """Workers, with what they run."""
        return await workers(self.desk.reader)

    def show(self, view: Workers) -> None:
        """Show them, below what none of them can run."""
        self.put("looks", texts.joined(_lacking(view)))
        self.query_one("#looks").display = bool(view.lacking)
        super().show(view)

    def rows_of(self, view: Workers) -> list[Row]:
        """A worker a row."""
        return [_row(one, view.now) for one in view.rows]

    def open(self, key: str) -> None:
        """The tasks that a worker runs."""
        self.go(TasksPage(self.desk, TaskFilter(worker=key, states=(State.ACTIVE,))))


def _lacking(view: Workers) -> Iterable[Text]:
    for one in view.lacking[:_MOST_LACKING]:
        yield texts.words(("⚠ ", "red"), (one.queue, "bold"), f": {one.said} ", (one.text, "red"))
    if len(view.lacking) > _MOST_LACKING:
        yield texts.words((f"and {len(view.lacking) - _MOST_LACKING:,} more", "dim"))


def _row(one: WorkerRow, now: int) -> Row:
    sign, style = _SIGNS.get(one.state, ("?", "dim"))
    seen = texts.age(one.seen_at, now)
    if one.is_late:
        seen = texts.words(("⚠ ", "red"), seen)
    runs = ", ".join(f"{run.id} {run.name} {run.progress} %" for run in one.runs)
    return Row(
        one.id,
        [
            texts.plain(one.id, most=80),
            texts.words((f"{sign} {one.state}", style)),
            texts.plain(f"{one.active:,} of {one.concurrency:,}"),
            seen,
            texts.plain(runs),
        ],
        texts.joined(
            [
                texts.words(
                    (one.id, "bold"),
                    f"  {one.host} pid {one.pid}" if one.pid else f"  {one.host}",
                    ("  claims from ", "dim"),
                    ", ".join(one.queues[:20]),
                ),
                texts.words(("can run ", "dim"), _types(one)),
            ]
        ),
    )


def _types(one: WorkerRow) -> str:
    if one.takes_all:
        shown = "whatever it is given: it names no types"
    elif one.types is None:
        shown = "what is not known here"
    else:
        shown = ", ".join(one.types[:40])
    return f"{shown}; signed with {', '.join(one.trusts)} only" if one.trusts else shown
