"""The demo takes its steps by what is stored, and ends the schedule when nothing is to come."""

import asyncio
import time
from pathlib import Path

import pytest

from andon import Andon
from andon.demo import scratch
from andon.demo.conducting import Conductor
from andon.demo.crew import Crew
from andon.demo.place import Place, Round
from andon.demo.tally import Tally
from andon.demo.view import View
from andon.model.task import TaskEvent
from andon.model.words import Event, State


def view_of(home: Path, report: State | None) -> View:
    """A flow of one file, whose report is in this state."""
    round_ = Round(folder="/code", url="memory://")
    place = Place(folder=Path("/code"), home=home, url="memory://", round=round_)
    view = View(place=place, tally=Tally(place.names.prefix), started=time.monotonic())
    view.add_flow(1, ("a.py",))
    if report is not None:
        view.tally.add(TaskEvent(1, 1, Event.SUBMIT, None, report, task=view.report(1)))
    return view


@pytest.mark.parametrize(
    ("report", "paused", "said", "then"),
    [
        (State.BLOCKED, False, "", (False, False)),
        (State.COMPLETED, False, "The demo changes a file of its own", (True, False)),
        (State.FAILED, False, "Flow 1 has no report", (False, True)),
        (State.BLOCKED, True, "looks at /code have failed", (False, True)),
        (None, False, "", (False, False)),
    ],
)
def test_each_step_waits_for_its_time(
    tmp_path: Path, report: State | None, paused: bool, said: str, then: tuple[bool, bool]
) -> None:
    """`then`: whether the file is changed, and whether the schedule has ended."""
    scratch.begin(tmp_path)
    view = view_of(tmp_path, report)
    names = view.place.names

    async def main() -> tuple[str, bool]:
        async with Andon("memory://") as app:
            await app.schedules.add(names.schedule, app.draft("t"), every=3600)
            if paused:
                await app.schedules.pause(names.schedule)
            crew = Crew(url="memory://", queue="q", size=1, concurrency=1, log=tmp_path / "log")
            step = await Conductor(app, names, crew, None).step(view)
            schedule = await app.schedules.get(names.schedule)
            assert schedule is not None
            return step, schedule.state is State.CANCELLED

    step, has_ended = asyncio.run(main())
    assert said in step if said else step == ""
    assert (scratch.has_changed(tmp_path), has_ended) == then
