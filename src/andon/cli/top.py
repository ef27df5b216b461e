"""`andon top`: the board. Refreshed when something happens, and at least every few seconds."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

import click

from andon.cli.errors import CommandFailed
from andon.cli.layout import Column
from andon.cli.output import Word, drawn
from andon.cli.session import Session, common
from andon.cli.values import DURATION
from andon.contract.topics import EVENTS_TOPIC
from andon.engine.fleet import known_queues
from andon.model.cleaning import clean_line
from andon.model.urls import shown
from andon.model.wording import span
from andon.model.words import TERMINAL, Event

if TYPE_CHECKING:
    from rich.console import RenderableType

    from andon.cli.output import Cell
    from andon.engine.base import Engine
    from andon.model.task import TaskEvent

_WINDOW_S = 10
_STILL_S = 2.0
"""Redrawn this often though nothing happens: ages grow."""
_PAGE = 500
_FAILURES = 8


@click.command()
@click.option("--every", type=DURATION, default=0.5, help="Redraw at most this often (0.5s).")
@common
async def top(session: Session, *, every: float) -> None:
    """Watch queues and workers live.

    Needs a terminal; for programs there are `andon events --follow --json` and
    `andon queues list --json`.
    """
    if not session.out.terminal:
        raise CommandFailed(
            "top draws on a terminal, and this is none. Use: andon queues list, or andon events."
        )
    from rich.live import Live

    async with session.engine() as engine:
        board = Board(session, engine)
        cursor = await engine.events_end()
        with (
            engine.listen([EVENTS_TOPIC]) as hints,
            Live(console=session.out.console, screen=True, auto_refresh=False) as live,
        ):
            while True:
                cursor = await board.read(cursor)
                live.update(await board.drawn(), refresh=True)
                await hints.wait(_STILL_S)
                await asyncio.sleep(max(every, 0.05))


class Board:
    """What is shown, and the events it is made of."""

    def __init__(self, session: Session, engine: "Engine") -> None:
        self._session = session
        self._engine = engine
        self._seen: deque[tuple[int, Event, bool]] = deque()
        self._failures: deque[TaskEvent] = deque(maxlen=_FAILURES)

    async def read(self, cursor: str) -> str:
        """Take in what has happened; the cursor after it."""
        while True:
            page = await self._engine.events(cursor, _PAGE)
            for event in page.events:
                self._seen.append((event.at, event.event, event.target in TERMINAL))
                if event.error is not None:
                    self._failures.append(event)
            if not page.events:
                return page.cursor
            cursor = page.cursor

    async def drawn(self) -> "RenderableType":
        """The board as it stands."""
        from rich.console import Group
        from rich.text import Text

        from andon.cli import queues, workers

        now = self._engine.now()
        rows = await known_queues(self._engine)
        found = await self._engine.workers()
        profile, out = self._session.profile, self._session.out
        width = out.console.width
        parts: list[RenderableType] = [
            Text(f"{shown(self._session.url)}   {self._rates(now)}", style="bold"),
            drawn(
                queues.columns(profile, out, rows),
                [queues.cells(profile, out, rows, row, now) for row in rows],
                width,
            ),
            drawn(workers.COLUMNS, [workers.cells(worker, out, now) for worker in found], width),
        ]
        if self._failures:
            columns = [
                Column("when", keeps=True),
                Column("task", named=True),
                Column("now", keeps=True),
                Column("error"),
            ]
            failures: list[list[Cell]] = [
                [
                    f"{span(max(now - event.at, 0) / 1000)} ago",
                    event.task,
                    Word("" if event.target is None else event.target.value, "red"),
                    "" if event.error is None else clean_line(event.error.message[:400])[:200],
                ]
                for event in reversed(self._failures)
            ]
            parts.append(drawn(columns, failures, width))
        return Group(*parts)

    def _rates(self, now: int) -> str:
        while self._seen and self._seen[0][0] < now - _WINDOW_S * 1000:
            self._seen.popleft()
        submitted = sum(event is Event.SUBMIT for _, event, _ in self._seen)
        ended = sum(ends for _, _, ends in self._seen)
        return (
            f"submitted {submitted / _WINDOW_S:.1f}/s   ended {ended / _WINDOW_S:.1f}/s   "
            f"(last {_WINDOW_S} s)"
        )
