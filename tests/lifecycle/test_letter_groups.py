"""Groups of dead letters: one for each kind of error, counted, bounded, and added up."""

from andon.lifecycle.error_fingerprint import letter_fingerprint
from andon.lifecycle.letter_groups import MOST_NAMES, Grouping, merged
from andon.model.letters import LetterGroups
from andon.model.task import Definition, Status, Task, TaskError
from andon.model.words import State


def letter(
    number: int, message: str = "Order {} not found", *, name: str = "charge", queue: str = "q"
) -> Task:
    error = TaskError(message=message.format(number), type="shop.NotFound")
    status = Status(state=State.FAILED, created_at=0, finished_at=1_000 + number, last_error=error)
    return Task(definition=Definition(id=f"t{number}", name=name, queue=queue), status=status)


def grouped(*letters: Task, cursor: str = "") -> LetterGroups:
    grouping = Grouping()
    for one in letters:
        grouping.add(one)
    return grouping.groups(cursor)


def test_letters_of_one_kind_are_one_group_with_its_newest_and_its_span() -> None:
    found = grouped(letter(5), letter(9, queue="r"), letter(7), letter(8, "Paid {}"))
    first, second = found.groups
    assert (first.count, first.pattern) == (3, "shop.NotFound: Order # not found")
    assert (first.newest, first.newest_at, first.oldest_at) == ("t9", 1_009, 1_005)
    assert (first.names, first.queues) == (("charge",), ("q", "r"))
    assert second.count == 1
    assert first.fingerprint == letter_fingerprint(letter(1))
    assert (found.looked, found.whole) == (4, True)


def test_names_of_a_group_are_few_and_the_most_frequent_first() -> None:
    letters = [letter(n, name=f"n{n % 8}") for n in range(40)]
    (group,) = grouped(*letters, *(letter(n, name="often") for n in range(40, 60))).groups
    assert group.names[0] == "often"
    assert len(group.names) == MOST_NAMES


def test_two_looks_add_up_to_one() -> None:
    one = grouped(letter(9), letter(8, "Paid {}"), cursor="c")
    other = grouped(letter(1), letter(2), letter(3, "Lost {}"))
    whole = grouped(*(letter(n) for n in (9, 1, 2)), letter(8, "Paid {}"), letter(3, "Lost {}"))
    assert not one.whole
    assert merged(one, other) == whole
