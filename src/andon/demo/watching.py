"""Watches a round: follows its events into a `View`, and shows it until every task has ended."""

import asyncio
import contextlib
import os
import time
from collections.abc import Coroutine, Generator
from typing import Any, Protocol, TextIO

from andon.demo import scanning
from andon.demo.conducting import Conductor
from andon.demo.crew import Crew
from andon.demo.lines import Lines
from andon.demo.place import Place
from andon.demo.tally import Tally
from andon.demo.view import View
from andon.engine.base import Engine
from andon.model.errors import TaskNotFound
from andon.model.task import TaskEvent
from andon.model.words import TERMINAL, Event, State

_FRAME_S = 1 / 6
_LOOK_S = 1.0
"""How often workers and counters are read: small tables, and the workers make no events."""

_PAGE = 500


class Screen(Protocol):
    """Shows the board: drawn on a terminal, or printed in lines."""

    def show(self, view: View, *, last: bool = False) -> None:
        """Show a moment; the `last` one stays."""
        ...

    def say(self, text: str) -> None:
        """Print a line beside the board."""
        ...


@contextlib.contextmanager
def screen_on(out: TextIO) -> Generator[Screen]:
    """The board if `out` is a terminal that can show it, else plain lines."""
    if out.isatty() and os.environ.get("TERM") != "dumb":
        try:
            from rich.console import Console

            from andon.demo.board import Board
        except ImportError:  # the extra `cli` is not installed
            pass
        else:
            with Board(Console(file=out)) as board:
                yield board
            return
    with Lines(out) as lines:
        yield lines


class Watch:
    """Keeps a `View` up to date."""

    def __init__(self, engine: Engine, place: Place, crew: Crew, conductor: Conductor) -> None:
        self._engine = engine
        self._names = place.names
        self._crew = crew
        self._conductor = conductor
        self._cursor = place.round.cursor
        self._look_now = asyncio.Event()
        self._done = asyncio.Event()
        self._narrated: set[str] = set()
        self._loops: list[asyncio.Task[None]] = []
        tally = Tally(self._names.prefix)
        self.view = View(place=place, tally=tally, started=time.monotonic())

    async def catch_up(self) -> None:
        """Read what has happened so far in this round."""
        while True:
            page = await self._engine.events(self._cursor, _PAGE)
            self._cursor = page.cursor
            for event in page.events:
                self._add(event)
            if not page.events:
                break
        self.view.resumed = self.view.tally.ended

    async def until_done(self, screen: Screen, interrupted: asyncio.Event) -> bool:
        """Show the board until every task has ended; False when interrupted before.

        Raises what made watching or working impossible.
        """
        for loop in (self._follow(), self._look(screen), self._draw(screen)):
            self._spawn(loop)
        waits = [asyncio.ensure_future(e.wait()) for e in (self._done, interrupted)]
        try:
            while not any(wait.done() for wait in waits):
                await asyncio.wait(
                    (*waits, *self._loops, self._crew.failure),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._crew.failure.done():
                    await self._crew.failure
                for loop in [loop for loop in self._loops if loop.done()]:
                    self._loops.remove(loop)
                    await loop
        finally:
            for future in (*waits, *self._loops):
                future.cancel()
            await asyncio.gather(*waits, *self._loops, return_exceptions=True)
        self.view.doing = ""
        self.view.now = self._engine.now()
        screen.show(self.view, last=True)
        return self._done.is_set()

    def _spawn(self, loop: Coroutine[Any, Any, None]) -> None:
        self._loops.append(asyncio.ensure_future(loop))

    # --- what changes the view ---

    def _add(self, event: TaskEvent) -> None:
        view = self.view
        view.tally.add(event)
        following = view.newest + 1
        if event.task.startswith(f"{self._names.flow(following)}:"):
            # Its list is kept before the flow is submitted.
            view.add_flow(following, scanning.read(self._names, following).changed)
        if view.tally.live == 0 or (event.target in TERMINAL and self._is_long(event.task)):
            self._look_now.set()

    def _is_long(self, task: str) -> bool:
        """Whether it is a scan or a report, each of which is one for a whole flow."""
        return self.view.paths.get(task) in ("scan", "report")

    async def _follow(self) -> None:
        for task, state in self.view.tally.states.items():
            if state is State.ACTIVE and self._is_long(task):
                self._narrate(task)
        async for event in self._engine.follow(self._cursor):
            self._add(event)
            if event.event is Event.CLAIM and self._is_long(event.task):
                self._narrate(event.task)

    def _narrate(self, task: str) -> None:
        if task not in self._narrated:
            self._narrated.add(task)
            self._spawn(self._tell(task))

    async def _tell(self, task_id: str) -> None:
        """The progress message of a long task."""
        name = self.view.paths[task_id]
        with contextlib.suppress(TaskNotFound):
            async for task in self._engine.watch(task_id):
                cell = task.cell
                self.view.doing = f"{name}: {cell.message}" if cell and cell.message else ""
        self.view.doing = ""

    async def _look(self, screen: Screen) -> None:
        view, engine = self.view, self._engine
        while True:
            view.pids = tuple(self._crew.pids)
            view.replaced = self._crew.lost
            view.workers = tuple(await engine.workers())
            if said := await self._conductor.step(view):
                screen.say(f"{time.monotonic() - view.started:6.1f} s  {said}")
            if await self._has_ended():
                self._done.set()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._look_now.wait()
            self._look_now.clear()

    async def _has_ended(self) -> bool:
        stats = [s for s in await self._engine.stats() if s.queue == self._names.queue]
        live = sum(n for s in stats for state, n in s.counts.items() if state not in TERMINAL)
        return live == 0

    async def _draw(self, screen: Screen) -> None:
        while True:
            self.view.now = self._engine.now()
            screen.show(self.view)
            await asyncio.sleep(_FRAME_S)
