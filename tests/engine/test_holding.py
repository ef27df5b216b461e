"""A submit whose unique key is held supersedes the holder: at every moment one task has the key."""

from typing import Any

import pytest

from andon.engine.debts import Debts
from andon.lifecycle.commands import Fail
from andon.model.errors import InvalidSubmission, StoreUnavailable, TaskConflict, UniqueKeyHeld
from andon.model.task import TaskError
from andon.model.words import Event, Reason, State

from .conftest import Shop, cannot_settle

SUPERSEDE: dict[str, Any] = {"unique_key": "k", "on_held": "supersede"}
EXTEND: dict[str, Any] = {"unique_key": "k", "on_held": "extend", "delay": 10, "max_delay": 25}


async def superseded_by(shop: Shop, task_id: str) -> str:
    task = await shop.task(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.SUPERSEDED), task
    assert task.status.owes == ()
    heir = await shop.task(task.status.successor)
    assert heir.definition.predecessor == task_id
    return heir.id


async def test_a_holder_that_waits_is_cancelled_and_bears_the_newer_task(shop: Shop) -> None:
    await shop.submit("a", args=b"[1]", **SUPERSEDE)
    first = (await shop.task("a")).status.order
    shop.clock.ms += 1_000
    b = await shop.try_submit("b", args=b"[2]", **SUPERSEDE)
    assert (b.error, b.state, b.created) == (None, State.PENDING, True)
    assert await superseded_by(shop, "a") == "b"
    assert (await shop.task("b")).status.order == first, "it keeps the place in line"
    events = (await shop.engine.history("a")).events
    assert [event.event for event in events] == [Event.SUBMIT, Event.CANCEL, Event.DELIVER]
    held = await shop.try_submit("c", unique_key="k")
    assert isinstance(held.error, UniqueKeyHeld)
    assert held.error.holder == "b"


async def test_the_newest_waits_for_the_end_of_an_active_holder(shop: Shop) -> None:
    await shop.submit("a", **SUPERSEDE, options={"retry_delay": 5.0})
    (active,) = await shop.claim()
    assert (await shop.try_submit("b", **SUPERSEDE)).state is State.BLOCKED
    assert (await shop.try_submit("c", **SUPERSEDE)).state is State.BLOCKED
    assert await superseded_by(shop, "b") == "c"
    assert (await shop.task("a")).status.cancel_requested_at is None
    failed = Fail(error=TaskError(message="no"), retryable=True)
    assert await shop.engine.report(active, failed) is State.RETRY
    assert await shop.state("c") is State.BLOCKED, "its next try is its own"
    await shop.later(6)
    assert (await shop.run()).id == "a"
    held = await shop.try_submit("d", unique_key="k")
    assert isinstance(held.error, UniqueKeyHeld)
    assert held.error.holder == "c"
    assert (await shop.run()).id == "c"
    await shop.submit("d", unique_key="k")


async def test_an_active_holder_is_asked_to_cancel_and_asked_again_by_a_repeat(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = {**SUPERSEDE, "supersede_active": True}

    async def crashed(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    await shop.submit("a", **SUPERSEDE)
    await shop.claim()
    with monkeypatch.context() as patch:
        patch.setattr("andon.engine.control.Control.cancel", crashed)
        with pytest.raises(StoreUnavailable):
            await shop.submit("b", **asks)
    again = await shop.try_submit("b", **asks)
    assert (again.error, again.created, again.state) == (None, False, State.BLOCKED)
    assert (await shop.task("a")).status.cancel_requested_at is not None


async def test_extend_moves_the_start_and_no_further_than_from_the_first(shop: Shop) -> None:
    start = shop.clock.ms
    await shop.submit("a", **EXTEND)
    for number, task_id in enumerate(("b", "c", "d"), 1):
        shop.clock.ms = start + number * 6_000
        assert (await shop.try_submit(task_id, **EXTEND)).state is State.SCHEDULED
    assert (await shop.task("c")).status.run_at == start + 22_000
    assert (await shop.task("d")).status.run_at == start + 25_000
    await shop.later(8)
    assert (await shop.run()).id == "d"
    assert [await superseded_by(shop, task_id) for task_id in "abc"] == ["b", "c", "d"]
    shop.clock.ms += 1_000
    await shop.submit("e", **EXTEND)
    assert (await shop.task("e")).status.run_at == shop.clock.ms + 10_000


async def test_a_crash_before_the_newer_task_is_stored_loses_neither_it_nor_the_key(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    await shop.submit("a", **SUPERSEDE, options={"retention": 0})
    with monkeypatch.context() as patch:
        patch.setattr(Debts, "_store_births", crashed)
        with pytest.raises(StoreUnavailable):
            await shop.submit("b", **SUPERSEDE)
    held = await shop.try_submit("c", unique_key="k")
    assert isinstance(held.error, UniqueKeyHeld)
    await shop.submit("d", **SUPERSEDE)  # it stores b first, and supersedes it then
    assert await superseded_by(shop, "b") == "d"
    assert await shop.state("a") is None, "its debt is paid"
    again = await shop.try_submit("b", **SUPERSEDE)
    assert (again.error, again.created, again.state) == (None, False, State.CANCELLED)


async def test_what_cannot_be_is_one_clear_sentence_and_supersedes_nothing(shop: Shop) -> None:
    await shop.submit("a", unique_key="k")
    await shop.submit("other", name="other", unique_key="o")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"on_held": "extend", "unique_key": "k", "delay": 1}, "needs max_delay"),
        ({"on_held": "extend", "unique_key": "k", "max_delay": 5}, "give delay"),
        ({"on_held": "extend", "delay": 1, "max_delay": 5}, "unique_by or unique_key"),
        ({"on_held": "extend", "unique_key": "k", "max_delay": -1}, "above 0"),
        ({"on_held": "supersede", "unique_key": "k", "max_delay": 5}, "on_held='extend'"),
        ({"supersede_active": True, "unique_key": "k"}, "on_held='supersede'"),
        ({**SUPERSEDE, "dependencies": ("a",)}, "dependencies"),
        ({**SUPERSEDE, "options": {"unique_states": ("pending",)}}, "in: active, blocked"),
    ]
    for fields, said in cases:
        refused = await shop.try_submit("b", **fields)
        assert isinstance(refused.error, InvalidSubmission), fields
        assert said in str(refused.error)
    assert await shop.state("a") is State.PENDING
    assert await shop.state("b") is None
    of_another_type = await shop.try_submit("b", unique_key="o", on_held="supersede")
    assert isinstance(of_another_type.error, UniqueKeyHeld)
    assert isinstance((await shop.try_submit("a", **SUPERSEDE)).error, TaskConflict)


async def test_one_of_a_call_that_cannot_be_decided_fails_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("bad", "good"):
        await shop.submit(key, unique_key=key)
    cannot_settle(monkeypatch, "bad2")
    bad, good, third = await shop.engine.submit(
        [
            shop.submission("bad2", unique_key="bad", on_held="supersede"),
            shop.submission("good2", unique_key="good", on_held="supersede"),
            shop.submission("third"),
        ]
    )
    assert isinstance(bad.error, InvalidSubmission)
    assert (good.error, third.error) == (None, None)
    assert await superseded_by(shop, "good") == "good2"
    assert await shop.state("bad") is State.PENDING
