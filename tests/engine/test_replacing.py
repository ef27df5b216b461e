"""With overlap="replace" the newest occurrence of a schedule takes the place of the one before
(docs/rulings.md, R39), whatever the older one is doing and whoever dies."""

from contextlib import suppress
from typing import Any

import pytest

from andon.contract.outcomes import Created
from andon.engine.base import Submission
from andon.engine.holding import Holding
from andon.lifecycle.commands import Complete
from andon.lifecycle.firing import occurrence_key
from andon.lifecycle.unique import derived_key
from andon.model.errors import InvalidSubmission, StoreUnavailable
from andon.model.recurrence import Recurrence
from andon.model.task import Task
from andon.model.words import Event, Reason, State

from .conftest import START, Shop
from .test_schedules import NO, at, made, put, request, schedule, states

WRITES = ("create", "commit", "link", "settle")
"""The store's operations by which an occurrence takes the place of another."""

MOST_WRITES = 12


async def test_one_that_waits_is_cancelled_and_the_newest_keeps_its_place_in_line(
    shop: Shop,
) -> None:
    await made(shop, overlap="replace")
    await shop.later(60)
    first = await shop.task(at(1))
    await shop.later(60)
    assert await states(shop, range(1, 4)) == [State.CANCELLED, State.PENDING, None]
    was, newest = await shop.task(at(1)), await shop.task(at(2))
    assert (was.status.reason, was.status.successor) == (Reason.SUPERSEDED, newest.id)
    assert newest.status.order == first.status.order
    assert (newest.definition.bearer, newest.definition.predecessor) == ("s", was.id)
    assert (await schedule(shop)).fired == 2
    assert [event.event for event in (await shop.engine.history(was.id)).events] == [
        Event.SUBMIT,
        Event.CANCEL,
        Event.DELIVER,
    ]
    assert (await shop.run()).id == newest.id


async def test_an_active_one_is_asked_to_cancel_and_the_newest_begins_at_its_end(
    shop: Shop,
) -> None:
    await made(shop, overlap="replace", pause_after=1)
    await shop.later(60)
    (active,) = await shop.claim(lease_ms=600_000)
    await shop.later(60)
    assert (await shop.task(active.id)).status.cancel_requested_at is not None
    await shop.later(60)
    assert await states(shop, range(1, 4)) == [State.ACTIVE, State.CANCELLED, State.BLOCKED]
    assert await shop.claim() == []
    assert await shop.engine.report(active, NO) is State.CANCELLED
    await shop.told()
    assert (await shop.run()).id == at(3)
    assert (await schedule(shop)).failures == 0, "one that was replaced is no failure"
    await shop.later(60)
    assert await states(shop, range(4, 5)) == [State.PENDING]


async def test_of_several_that_are_due_at_once_only_the_newest_is_borne(shop: Shop) -> None:
    await made(shop, overlap="replace")
    await shop.later(5 * 60)
    assert await states(shop, range(1, 7)) == [None] * 4 + [State.PENDING, None]


async def test_run_now_replaces_too_and_a_backfill_replaces_nothing(shop: Shop) -> None:
    await made(shop, overlap="replace")
    await shop.later(60)
    shop.clock.ms += 5_000
    (acted,) = await shop.engine.schedules.act(["s"], "run")
    assert acted.error is None
    assert await shop.state(at(1)) is State.CANCELLED
    newest = (await schedule(shop)).last_id
    done = await shop.engine.schedules.backfill("s", START - 3_600_000, START - 3_600_000 + 1)
    assert (done.created, done.refused) == (1, ())
    assert await shop.state(newest) is State.PENDING


async def test_one_of_another_task_and_queue_is_replaced_whatever_its_type_says_of_keys(
    shop: Shop,
) -> None:
    ends = {"unique_states": ("pending", "completed"), "unique_period": 1.0}
    await made(shop, overlap="replace", task={"options": ends})
    await shop.later(60)
    await shop.run()
    await shop.later(60)
    assert await states(shop, range(1, 3)) == [State.COMPLETED, State.PENDING]
    other = request(overlap="replace", task={"name": "other", "queue": "elsewhere"})
    (edited,) = await put(shop, other, how="edit")
    assert edited.error is None
    await shop.later(60)
    assert await states(shop, range(2, 4)) == [State.CANCELLED, State.PENDING]
    assert (await shop.task(at(3))).definition.queue == "elsewhere"


async def test_one_whose_place_cannot_be_taken_fails_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Holding.settle_at_once

    async def fails_once(self: Holding, task: Task, held: Created) -> tuple[Task, Created]:
        if task.definition.bearer == "bad":
            raise ZeroDivisionError("a defect")
        return await settle(self, task, held)

    for name in ("a", "bad", "z"):
        await made(shop, name, overlap="replace")
    await shop.later(60)
    with monkeypatch.context() as patch:
        patch.setattr(Holding, "settle_at_once", fails_once)
        await shop.later(60)
    for name in ("a", "z"):
        assert await states(shop, range(1, 3), name) == [State.CANCELLED, State.PENDING]
    assert await states(shop, range(1, 3), "bad") == [State.PENDING, None]
    said = (await shop.engine.history("bad")).events[-1].error
    assert said is not None
    assert f"{at(2, 'bad')} was not stored" in said.message
    await shop.later(60)
    assert await states(shop, range(1, 4), "bad") == [State.CANCELLED, None, State.PENDING]


async def test_no_submit_takes_the_key_of_a_schedules_occurrences(shop: Shop) -> None:
    """Neither by hand, nor as a follow-up; its neighbours in the call are accepted."""
    key = occurrence_key("s")
    one, taken, other = await shop.engine.submit(
        [
            Submission(id="one", name="job", unique_key="schedule:s"),
            Submission(id="taken", name="job", unique_key=key, on_held="supersede"),
            Submission(id="other", name="job"),
        ]
    )
    assert (one.error, other.error) == (None, None)
    assert isinstance(taken.error, InvalidSubmission)
    assert "which only the occurrences of schedules have" in str(taken.error)
    run = await shop.run()
    borne = Submission(id="borne", name="job", unique_key=key)
    with pytest.raises(InvalidSubmission, match="only the occurrences of schedules have"):
        await shop.engine.report(run, Complete(result=b"1"), [borne])
    named = derived_key("schedule", b"{}")  # a task type of that name has keys of its own
    [fine] = await shop.engine.submit([Submission(id="named", name="schedule", unique_key=named)])
    assert fine.error is None


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("active", [False, True], ids=["waiting", "active"])
async def test_a_crash_at_any_write_loses_and_doubles_nothing(
    shop: Shop, active: bool, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies at the first write, of another schedule at the second one, and so on,
    before or after that is stored; another one finishes."""
    for number in range(1, MOST_WRITES):
        name = f"s{number}"
        start = shop.clock.ms
        twice = Recurrence(every=60, anchor=start, count=2, catch_up="all")
        await made(shop, name, overlap="replace", recurrence=twice)
        await shop.later(60)
        first = (await schedule(shop, name)).last_id
        held = await shop.claim(lease_ms=600_000) if active else []
        shop.clock.ms += 60_000
        died = await _fire_dying(shop, monkeypatch, at_write=number, written=written)
        await shop.later(11)  # beyond the hold of who took the timer
        await shop.later(11)
        after = await schedule(shop, name)
        assert (after.fired, await shop.state(name)) == (2, State.COMPLETED)
        for run in held:
            assert run.id == first
            assert (await shop.task(first)).status.cancel_requested_at is not None, number
            assert await shop.engine.report(run, NO) is State.CANCELLED
            await shop.told()
        assert await shop.state(first) is State.CANCELLED
        newest = await shop.task(after.last_id)
        assert newest.state is State.PENDING, number
        for task_id in (first, newest.id):
            events = [e.event for e in (await shop.engine.history(task_id)).events]
            assert events.count(Event.SUBMIT) == 1
            assert events.count(Event.CANCEL) <= 1
        assert (await shop.run()).id == newest.id
        assert await shop.claim() == []
        if not died:
            assert number > 3, "it has died at none of its writes"
            return
    raise AssertionError(f"it has more than {MOST_WRITES} writes")


async def _fire_dying(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, at_write: int, written: bool
) -> bool:
    """Fire what is due; whether the process has died at that write."""
    count = 0

    def dying(call: Any) -> Any:
        async def write(*args: Any) -> Any:
            nonlocal count
            count += 1
            if count < at_write:
                return await call(*args)
            if written and count == at_write:
                await call(*args)
            raise StoreUnavailable("killed")

        return write

    with monkeypatch.context() as patch:
        for operation in WRITES:
            patch.setattr(
                shop.engine.store, operation, dying(getattr(shop.engine.store, operation))
            )
        with suppress(StoreUnavailable):
            await shop.fire()
        await shop.told()
    return count >= at_write
