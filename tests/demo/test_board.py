"""The board shows what the events say."""

import time
from pathlib import Path

import pytest
from rich.console import Console

from andon.demo.board import draw
from andon.demo.place import Place, Round
from andon.demo.tally import Tally
from andon.demo.view import View
from andon.model.fleet import WorkerInfo
from andon.model.task import TaskError, TaskEvent
from andon.model.words import Event, State


def place() -> Place:
    round_ = Round(folder="/code", url="sqlite:///x.db")
    return Place(folder=Path("/code"), home=Path("/home"), url="sqlite:///x.db", round=round_)


def view() -> View:
    """A flow of two files, of which one task was lost once and has completed, one has failed; and a
    second flow, of a file that has changed."""
    names = place().names
    a, b = names.analysis(1, 0), names.analysis(1, 1)
    tally = Tally(names.prefix)
    error = TaskError(message="line 1: invalid syntax")

    for event in (
        TaskEvent(1, 900, Event.SUBMIT, None, State.RECURRING, task=names.schedule),
        TaskEvent(
            1, 900, Event.SUBMIT, None, State.PENDING, task=f"{names.schedule}:19700101T000000Z"
        ),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task=names.scan(1)),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task=a),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task=b),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.BLOCKED, task=names.report_of(1, 2)),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task="another-1-flow1:2"),
        TaskEvent(2, 1050, Event.CLAIM, State.PENDING, State.ACTIVE, task=a),
        TaskEvent(3, 1060, Event.LOSE, State.ACTIVE, State.PENDING, worker="v", task=a),
        TaskEvent(4, 1100, Event.CLAIM, State.PENDING, State.ACTIVE, task=a),
        TaskEvent(2, 1100, Event.CLAIM, State.PENDING, State.ACTIVE, task=b),
        TaskEvent(5, 1500, Event.COMPLETE, State.ACTIVE, State.COMPLETED, worker="w", task=a),
        TaskEvent(3, 1300, Event.FAIL, State.ACTIVE, State.FAILED, worker="w", error=error, task=b),
    ):
        tally.add(event)
    shown = View(
        place=place(),
        tally=tally,
        started=time.monotonic(),
        workers=(WorkerInfo(id="w", pid=4242),),
        pids=(4242,),
        now=2500,
    )
    shown.add_flow(1, ("a.py", "b.py"))
    shown.add_flow(2, ("c.py",))
    return shown


def test_the_tally_adds_up_one_round_only_and_leaves_out_the_schedule_itself() -> None:
    tally = view().tally
    assert (tally.total, tally.ended, tally.live) == (5, 2, 3)
    assert tally.counts[State.BLOCKED] == 1
    assert tally.percentiles(0.5, 0.95) == [400, 400]
    assert tally.rate(2500, seconds=1) == 2
    assert tally.by_worker == {"w": 2, "v": 1}
    assert (len(tally.lost), tally.recovered) == (1, 1)


def test_the_view_tells_flows_apart() -> None:
    shown = view()
    assert (shown.newest, shown.fired) == (2, 1)
    assert [(shown.ended(flow), shown.total(flow)) for flow in (1, 2)] == [(2, 4), (0, 3)]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_frame_fits_and_says_it_all(width: int) -> None:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(draw(view(), width=width))
    text = captured.get()
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("completed", "failed", "blocked", "400 ms", "b.py", "4242", "flow 2"):
        assert word in text


def test_a_frame_has_the_same_height_whatever_there_is_to_show() -> None:
    empty = View(place=place(), tally=Tally("r-1"), started=time.monotonic())
    heights: set[int] = set()
    for shown in (empty, view()):
        console = Console(width=100)
        with console.capture() as captured:
            console.print(draw(shown, width=100))
        heights.add(len(captured.get().splitlines()))
    assert len(heights) == 1
