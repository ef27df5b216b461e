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


def view() -> View:
    tally = Tally("r-1")
    error = TaskError(message="line 1: invalid syntax")
    for event in (
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task="r-1-file-a"),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task="r-1-file-b"),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.BLOCKED, task="r-1-report"),
        TaskEvent(1, 1000, Event.SUBMIT, None, State.PENDING, task="another-1-file-b"),
        TaskEvent(2, 1100, Event.CLAIM, State.PENDING, State.ACTIVE, task="r-1-file-a"),
        TaskEvent(2, 1100, Event.CLAIM, State.PENDING, State.ACTIVE, task="r-1-file-b"),
        TaskEvent(
            3, 1500, Event.COMPLETE, State.ACTIVE, State.COMPLETED, worker="w", task="r-1-file-a"
        ),
        TaskEvent(
            3,
            1300,
            Event.FAIL,
            State.ACTIVE,
            State.FAILED,
            worker="w",
            error=error,
            task="r-1-file-b",
        ),
    ):
        tally.add(event)
    round_ = Round(folder="/code", url="sqlite:///x.db")
    place = Place(folder=Path("/code"), home=Path("/home"), url="sqlite:///x.db", round=round_)
    return View(
        place=place,
        tally=tally,
        started=time.monotonic(),
        paths={"r-1-file-a": "a.py", "r-1-file-b": "b.py"},
        workers=(WorkerInfo(id="w", pid=4242),),
        pids=(4242,),
        now=2500,
    )


def test_the_tally_adds_up_one_round_only() -> None:
    tally = view().tally
    assert (tally.total, tally.ended, tally.live) == (3, 2, 1)
    assert tally.counts[State.BLOCKED] == 1
    assert tally.percentiles(0.5, 0.95) == [400, 400]
    assert tally.rate(2500, seconds=1) == 2
    assert tally.by_worker == {"w": 2}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_frame_fits_and_says_it_all(width: int) -> None:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(draw(view(), width=width))
    text = captured.get()
    assert all(len(line) <= width for line in text.splitlines())
    for word in ("completed", "failed", "blocked", "400 ms", "a.py", "b.py", "4242"):
        assert word in text


def test_a_frame_has_the_same_height_whatever_there_is_to_show() -> None:
    empty = View(place=view().place, tally=Tally("r-1"), started=time.monotonic())
    heights: set[int] = set()
    for shown in (empty, view()):
        console = Console(width=100)
        with console.capture() as captured:
            console.print(draw(shown, width=100))
        heights.add(len(captured.get().splitlines()))
    assert len(heights) == 1
