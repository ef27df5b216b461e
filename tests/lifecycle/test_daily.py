"""The daily history: what each move of the table is counted as, and how days are added up."""

import pytest

from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.daily import (
    KEPT_DAYS,
    Tally,
    day_of,
    first_day,
    histories,
    summed_up,
    tally_of,
    total,
)
from andon.lifecycle.moves import MOVES, Move
from andon.model.fleet import Tallied
from andon.model.task import TaskEvent
from andon.model.words import Event, State

MOVED = [move for move in MOVES if move.source is not None]


def counted(move: Move) -> Tally | None:
    return tally_of(TaskEvent(2, 0, move.event, move.source, move.target))


@pytest.mark.parametrize("move", [move for move in MOVES if move.event is Event.SUBMIT])
def test_every_way_to_be_stored_is_a_submit(move: Move) -> None:
    assert counted(move) is Tally.SUBMITTED


@pytest.mark.parametrize("move", [m for m in MOVED if m.source is not State.ACTIVE])
def test_a_move_of_a_task_that_is_not_running_counts_nothing(move: Move) -> None:
    assert counted(move) is None


def test_moves_of_a_run_count_once_as_its_end() -> None:
    by_tally: dict[Tally | None, set[tuple[Event, State | None]]] = {}
    for move in MOVED:
        if move.source is State.ACTIVE:
            by_tally.setdefault(counted(move), set()).add((move.event, move.target))
    assert {target for _, target in by_tally[Tally.FINISHED]} == {State.COMPLETED, State.CANCELLED}
    assert by_tally[None] == {
        (Event.REQUEST_CANCEL, State.ACTIVE),
        (Event.REPRIORITISE, State.ACTIVE),
        (Event.RELEASE, State.PENDING),
        (Event.SNOOZE, State.SCHEDULED),
        (Event.UNKNOWN_TASK, State.SCHEDULED),
        (Event.SET_ASIDE, State.UNKNOWN),
    }
    assert {target for _, target in by_tally[Tally.FAILED]} == {
        State.PENDING,
        State.RETRY,
        State.FAILED,
        State.STALLED,
        State.DROPPED,
        State.EXPIRED,
    }
    assert (Event.FAIL, State.PENDING) in by_tally[Tally.FAILED]


def test_days_are_those_of_utc_and_none_is_left_out() -> None:
    midnight = 20_000 * DAY_MS
    assert day_of(midnight) == day_of(midnight + DAY_MS - 1) == 20_000
    assert day_of(midnight - 1) == 19_999
    assert first_day(midnight) == 20_000 - KEPT_DAYS + 1
    found = [
        Tallied("a", 20_000, "submitted", 2),
        Tallied("a", 20_000, "submitted", 3),  # of another partition
        Tallied("a", 20_000, "failed", 1),
        Tallied("a", 19_998, "finished", 4),
        Tallied("b", 20_000, "finished", 1),
    ]
    a, b, c = histories(found, ["c", "a"], midnight, 3)
    assert [one.queue for one in (a, b, c)] == ["a", "b", "c"]
    shown = [(day.day, day.submitted, day.processed, day.failed) for day in a.days]
    assert shown == [("2024-10-04", 5, 1, 1), ("2024-10-03", 0, 0, 0), ("2024-10-02", 0, 4, 0)]
    sums = total(a.days)
    assert (sums.day, sums.submitted, sums.processed, sums.failed) == ("total", 5, 5, 1)
    together = summed_up(one.days for one in (a, b, c))
    assert [(day.day, day.processed) for day in together] == [
        ("2024-10-04", 2),
        ("2024-10-03", 0),
        ("2024-10-02", 4),
    ]
    assert summed_up([]) == []
    assert total([]).processed == 0
