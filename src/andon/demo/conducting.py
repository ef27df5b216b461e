"""The steps of the demo itself while its tasks run: it makes the schedule, kills workers, changes
its own file once the first report is there, and ends the schedule when that change was found.

The stored state decides when each step is taken, so a demo that was killed goes on where the last
one was.
"""

import asyncio
import contextlib
from pathlib import Path

from andon.client.app import Andon
from andon.demo import scanning, scratch
from andon.demo.app import watch
from andon.demo.crew import Crew
from andon.demo.names import Names
from andon.demo.view import View
from andon.model.words import TERMINAL, State

EVERY_S = 1
"""Seconds between two looks at the folder."""

CATCH_UP_S = 60
"""Looks that are later than this, after the demo was not running, are not made up for."""

WORTH_A_KILL = 200
"""Files of the first flow from which on a worker is killed unasked: with fewer all would wait for
its lease."""

_FAILURES = 3
"""Looks in a row that failed: then the folder cannot be watched."""


async def begin(app: Andon, names: Names) -> bool:
    """Have the schedule, and the first look at once; False if the round has it already."""
    if await app.schedules.get(names.schedule) is not None:
        return False
    scanning.forget(names)  # lists that a store which was deleted has left
    scratch.begin(Path(names.home))
    await app.schedules.add(
        names.schedule,
        watch.options(queue=names.queue).draft(names),
        every=EVERY_S,
        catch_up="all",
        catch_up_window=CATCH_UP_S,
        overlap="queue",
        pause_after=_FAILURES,
    )
    await app.schedules.run(names.schedule)
    return True


class Conductor:
    """Takes the steps of one round. `kills` is how many workers are killed in the first flow."""

    def __init__(self, app: Andon, names: Names, crew: Crew, kills: int | None) -> None:
        self._app = app
        self._names = names
        self._crew = crew
        self._kills = kills
        self._told = 0  # lost runs that were already reported

    async def step(self, view: View) -> str:
        """Take the next step if its time has come. Returns a line about it, or nothing."""
        names = self._names
        schedule = await self._app.schedules.get(names.schedule)
        if schedule is None or schedule.state is not State.RECURRING:
            return ""
        if schedule.paused:
            await self._app.schedules.cancel(names.schedule)
            return f"The last {_FAILURES} looks at {names.folder} have failed; the schedule ends."
        number = view.newest
        if not number:
            return ""
        if said := self._recovered(view):
            return said
        report = view.tally.states.get(view.report(number))
        if report not in TERMINAL:
            return self._kill(view)
        if report is not State.COMPLETED:
            await self._app.schedules.cancel(names.schedule)
            return f"Flow {number} has no report; the schedule ends."
        return await asyncio.to_thread(self._change) or await self._end()

    def _kill(self, view: View) -> str:
        """Kill a worker when a share of the first flow is done: what it had in hand is taken over
        long before the rest is done."""
        files = len(view.flows[1])
        wanted = self._kills if self._kills is not None else int(files >= WORTH_A_KILL)
        done = len(self._crew.killed)
        if view.newest > 1 or done >= wanted:
            return ""
        if view.ended(1) * (wanted + 2) < files * (done + 1):
            return ""
        pid = self._crew.kill_one()
        return f"kill -9 {pid}, a worker at work: another takes its place." if pid else ""

    def _recovered(self, view: View) -> str:
        """Report the runs that were lost with their workers once all their tasks have ended."""
        lost = view.tally.lost
        tasks = len(set(lost))
        if len(lost) == self._told or view.tally.recovered < tasks:
            return ""
        self._told = len(lost)
        what = "1 task" if tasks == 1 else f"{tasks:,} tasks"
        return f"Recovered: {what} whose worker was lost went back to the queue, and ended."

    def _change(self) -> str:
        home = Path(self._names.home)
        with contextlib.suppress(FileNotFoundError):  # it was removed: that is a change
            if scratch.has_changed(home):
                return ""
        scratch.change(home)
        return f"The first report is written. The demo changes a file of its own, {scratch.PATH}."

    async def _end(self) -> str:
        """End the schedule if the newest flow was of the changed file."""
        names = self._names
        newest = await asyncio.to_thread(scanning.newest, names)
        now = scanning.stamp(names, scratch.PATH)
        if newest is None or newest.files.get(scratch.PATH) != now:
            return ""
        report = await self._app.tasks.get(names.report_of(newest.flow, len(newest.changed)))
        if report is None or not report.ended:
            return ""
        await self._app.schedules.cancel(names.schedule)
        return (
            f"The schedule found that: flow {newest.flow} has analysed it, and the report is whole "
            "again."
        )
