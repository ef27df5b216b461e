"""An occurrence too few, or one too many, is found."""

import pytest

from andon.demo.occurrences import check
from andon.lifecycle.recurrence.occurrences import occurrence_id
from andon.model.recurrence import Recurrence
from andon.model.task import Definition, Schedule, Status, Task
from andon.model.words import State

CREATED = 1_000_500


def schedule(fired: int) -> Task:
    """One that was made at 1,000.5 s and has dealt with all times up to 1,010 s."""
    status = Status(
        state=State.CANCELLED,
        created_at=CREATED,
        schedule=Schedule(
            recurrence=Recurrence(every=2, catch_up="all", catch_up_window=60),
            template=Definition(id="w", name="t"),
            after=1_010_000,
            fired=fired,
        ),
    )
    return Task(definition=Definition(id="w", name="t"), status=status)


def ids(*seconds: int) -> set[str]:
    return {occurrence_id("w", 1000 * at) for at in seconds}


TIMES = (1002, 1004, 1006, 1008, 1010)


@pytest.mark.parametrize("more", [(), (1000,)])  # with the first look, which is of no time
def test_each_time_has_its_occurrence(more: tuple[int, ...]) -> None:
    assert check(schedule(5), ids(*TIMES, *more) | {"other:1"}, [1_010_000]) == []


@pytest.mark.parametrize(
    ("there", "fired", "said"),
    [
        ((1002, 1004, 1008, 1010), 4, "1 occurrences of w are missing"),
        ((*TIMES, 1005), 5, "1 occurrences that are of no time"),
        ((*TIMES, 999, 1000), 5, "2 occurrences that are of no time"),
        ((*TIMES, 1012), 5, "1 occurrences that are of no time"),
        (TIMES, 6, "has fired 6 times, and 5 are there"),
    ],
)
def test_one_too_few_or_too_many_is_a_problem(
    there: tuple[int, ...], fired: int, said: str
) -> None:
    [problem] = check(schedule(fired), ids(*there), [1_010_000])
    assert said in problem


def test_what_is_too_late_to_be_made_up_for_is_not_missing() -> None:
    fired_at = [1_002_000, 1_066_500]  # more than 60 s after 1,006, and less than that after 1,008
    assert check(schedule(3), ids(1002, 1008, 1010), fired_at) == []
    assert "1 occurrences" in check(schedule(2), ids(1002, 1010), fired_at)[0]
