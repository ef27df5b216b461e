"""Slots: so many at once, the others in line, and nobody in it for long."""

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from andon.worker import slots
from andon.worker.slots import Slots

if TYPE_CHECKING:
    from andon.worker.executors.base import RunInHand


class Lane:
    """Slots for two, and who was begun and released."""

    def __init__(self) -> None:
        self.begun: list[RunInHand] = []
        self.released: list[RunInHand] = []
        self.late = 0.0
        self.slots = Slots(
            2,
            begin=self.begun.append,
            release=self.released.append,
            clock=lambda: time.monotonic() + self.late,
        )
        self.runs = [cast("RunInHand", SimpleNamespace(number=n)) for n in range(6)]

    def ask(self, n: int) -> list[bool]:
        """The first steps of so many runs."""
        for _ in self.runs[:n]:
            self.slots.expect()
        return [self.slots.take(run) for run in self.runs[:n]]

    @property
    def counts(self) -> tuple[int, int]:
        return self.slots.running, self.slots.waiting


async def test_the_others_wait_and_begin_in_their_order():
    lane = Lane()
    assert lane.ask(5) == [True, True, False, False, False]
    assert lane.counts == (2, 3)
    lane.slots.free()
    lane.slots.free()
    assert lane.begun == lane.runs[2:4]
    assert lane.counts == (2, 1)
    for _ in range(3):
        lane.slots.free()
    assert lane.begun == lane.runs[2:5]
    assert lane.counts == (0, 0)
    assert lane.released == []


async def test_a_slot_that_was_given_on_is_not_free_for_who_comes_later():
    lane = Lane()
    lane.ask(3)
    lane.slots.free()
    lane.slots.expect()
    assert not lane.slots.take(lane.runs[3])


async def test_runs_whose_first_step_is_to_come_wait_too():
    lane = Lane()
    lane.slots.expect()
    assert lane.counts == (0, 1)


async def test_given_back_is_what_waits_and_what_is_about_to():
    lane = Lane()
    lane.ask(3)
    lane.slots.expect()

    async def first_step() -> None:
        assert not lane.slots.take(lane.runs[3])

    step = asyncio.ensure_future(first_step())
    lane.slots.give_back()
    assert lane.released == [lane.runs[2]]
    await step
    await asyncio.sleep(0)
    assert lane.released == lane.runs[2:4]
    assert lane.counts == (2, 0)


async def test_what_finds_no_slot_in_a_moment_is_given_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slots, "_LONGEST_WAIT_S", 0.01)
    lane = Lane()
    given = asyncio.Event()

    def release(run: Any) -> None:
        lane.released.append(run)
        given.set()

    lane.slots._release = release
    before = time.monotonic()
    lane.ask(3)
    async with asyncio.timeout(10):
        await given.wait()
    assert lane.released == [lane.runs[2]]
    assert lane.slots.given_back_at >= before
    assert lane.counts == (2, 0)


async def test_what_comes_late_to_its_first_step_is_given_back_down_to_what_may_run():
    lane = Lane()
    for _ in range(5):
        lane.slots.expect()
    assert lane.slots.take(lane.runs[0])
    lane.slots.free()  # a handler that kept the loop to itself
    lane.late = 10.0
    assert [lane.slots.take(run) for run in lane.runs[1:5]] == [False, False, True, True]
    assert lane.released == lane.runs[1:3]
    assert lane.slots.given_back_at > 0
    assert lane.counts == (2, 0)


async def test_what_may_run_at_once_begins_however_late_its_first_step():
    lane = Lane()
    for _ in range(2):
        lane.slots.expect()
    lane.late = 10.0
    assert [lane.slots.take(run) for run in lane.runs[:2]] == [True, True]
