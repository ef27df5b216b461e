"""Dead letters by what failed: a bounded look, and acts on a whole group."""

import logging

import pytest

from andon.engine.bulk import act_on_found
from andon.engine.filtering import Filters
from andon.lifecycle.commands import Fail
from andon.lifecycle.letter_groups import Grouping, merged
from andon.lifecycle.profiles import profile
from andon.model.errors import ConfigurationError
from andon.model.task import Task, TaskError
from andon.model.words import State

from .conftest import Shop

NATIVE = profile("native")


async def dead(shop: Shop, task_id: str, message: str, **fields: str) -> None:
    await shop.submit(task_id, options={"dead_letter": "save"}, **fields)
    (task,) = await shop.claim(queues=(fields.get("queue", "default"),))
    error = TaskError(message=message, type="shop.Failed")
    await shop.engine.report(task, Fail(error=error, retryable=False))
    shop.clock.ms += 1


async def test_dead_letters_are_grouped_by_their_errors(shop: Shop) -> None:
    for number in range(3):
        await dead(shop, f"a{number}", f"Order {number} not found")
    await dead(shop, "b", "card 'x' declined", queue="other", name="charge")
    await shop.submit("alive")
    found = await shop.engine.letter_groups()
    assert [(one.count, one.pattern, one.newest) for one in found.groups] == [
        (3, "shop.Failed: Order # not found", "a2"),
        (1, 'shop.Failed: card "…" declined', "b"),
    ]
    assert (found.looked, found.whole, found.cursor) == (4, True, "")
    (only,) = (await shop.engine.letter_groups(queue="other")).groups
    assert only.newest == "b"
    (only,) = (await shop.engine.letter_groups(name="charge")).groups
    assert only.names == ("charge",)


async def test_a_look_is_bounded_and_goes_on(shop: Shop) -> None:
    for number in range(7):
        await dead(shop, f"a{number}", f"{'Paid' if number % 2 else 'Lost'} {number}")
    look = await shop.engine.letter_groups(look=3)
    assert (look.looked, look.whole) == (3, False)
    assert sum(one.count for one in look.groups) == 3
    while not look.whole:
        look = merged(look, await shop.engine.letter_groups(look=3, cursor=look.cursor))
    whole = await shop.engine.letter_groups()
    assert look.groups == whole.groups
    assert [one.count for one in whole.groups] == [4, 3]


async def test_a_bad_letter_is_in_no_group_and_the_others_are(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        await dead(shop, f"a{number}", f"Order {number} not found")
    add = Grouping.add

    def fails_for_one(self: Grouping, task: Task) -> None:
        if task.id == "a1":
            raise ValueError("cannot be read")
        add(self, task)

    monkeypatch.setattr(Grouping, "add", fails_for_one)
    with caplog.at_level(logging.WARNING):
        (group,) = (await shop.engine.letter_groups()).groups
    assert group.count == 2
    assert "Dead letter a1 is in no group" in caplog.text


async def test_a_whole_group_is_acted_on_and_nothing_else(shop: Shop) -> None:
    for number in range(5):
        await dead(shop, f"a{number}", f"{'Paid' if number % 2 else 'Lost'} {number}")
    group = (await shop.engine.letter_groups()).groups[0]
    asked = Filters(fingerprint=group.fingerprint)
    query = asked.query(NATIVE, dead_letters=True)
    engine, keep = shop.engine, asked.keep(NATIVE)
    would = await act_on_found(engine, query, engine.retry, keep=keep, dry_run=True)
    assert would.found == group.count == 3
    done = await act_on_found(engine, query, engine.retry, keep=keep)
    assert (done.found, done.changed) == (3, 3)
    states = [await shop.state(f"a{number}") for number in range(5)]
    assert states == [State.PENDING, State.FAILED] * 2 + [State.PENDING]
    (left,) = (await shop.engine.letter_groups()).groups
    assert left.count == 2


@pytest.mark.parametrize("look", [0, 10_001])
async def test_a_look_out_of_bounds_is_refused(shop: Shop, look: int) -> None:
    with pytest.raises(ConfigurationError, match="1 to 10,000"):
        await shop.engine.letter_groups(look=look)


async def test_a_cursor_that_no_look_gave_is_refused(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="cursor"):
        await shop.engine.letter_groups(cursor="nonsense")


def test_a_filter_of_a_group_keeps_schedules_out_and_says_what_it_is() -> None:
    asked = Filters(fingerprint="0123456789abcdef")
    assert asked.any
    assert str(asked) == "fingerprint 0123456789abcdef"
