"""Submitting: what is stored, what is refused, and that a refusal changes nothing."""

import asyncio
from typing import Any

import pytest

from andon.contract.queries import Query
from andon.lifecycle.commands import Delete
from andon.model.errors import (
    InvalidSubmission,
    PayloadTooLarge,
    QueueFull,
    TaskConflict,
    UniqueKeyHeld,
)
from andon.model.words import Reason, State

from .conftest import START, Shop


async def stored(shop: Shop) -> list[str]:
    return [task.id for task in (await shop.engine.find(Query())).tasks]


async def test_a_submission_is_pending_at_once(shop: Shop) -> None:
    outcome = await shop.try_submit("a", args=b'{"x": 1}')
    assert (outcome.state, outcome.created) == (State.PENDING, True)
    task = await shop.task("a")
    assert (task.definition.args, task.status.created_at) == (b'{"x": 1}', START)


async def test_a_repeated_submission_is_the_same_task(shop: Shop) -> None:
    await shop.submit("a", delay=5.0)
    shop.clock.ms += 1_000
    again = await shop.try_submit("a", delay=5.0)
    assert (again.error, again.created, again.state) == (None, False, State.SCHEDULED)
    assert await stored(shop) == ["a"]


@pytest.mark.parametrize("is_gone", [False, True], ids=["stored", "gone"])
@pytest.mark.parametrize("beside", [0, 2], ids=["alone", "in bulk"])
async def test_a_repeat_after_the_deadline_is_answered_like_the_first(
    shop: Shop, is_gone: bool, beside: int
) -> None:
    late = shop.submission("late", deadline=START + 1_000)
    if is_gone:
        late = shop.submission(
            "late", deadline=START + 1_000, options={"discard_states": ("completed",)}
        )
    await shop.engine.submit([late])
    await shop.run()
    shop.clock.ms += 5_000
    others = [shop.submission(f"new{i}", deadline=START + 1_000) for i in range(beside)]
    again, *refused = await shop.engine.submit([late, *others])
    assert (again.error, again.created, again.state) == (None, False, State.COMPLETED)
    assert [type(outcome.error) for outcome in refused] == [InvalidSubmission] * beside
    assert await stored(shop) == ([] if is_gone else ["late"])


async def test_another_definition_under_the_same_id_is_a_conflict(shop: Shop) -> None:
    await shop.submit("a", args=b"1")
    conflict = await shop.try_submit("a", args=b"2")
    assert isinstance(conflict.error, TaskConflict)
    assert (await shop.task("a")).definition.args == b"1"


async def test_a_repeat_after_the_task_was_deleted_does_not_run_it_twice(shop: Shop) -> None:
    await shop.submit("a", options={"discard_states": ("completed",)})
    await shop.run()
    assert await shop.state("a") is None
    again = await shop.try_submit("a", options={"discard_states": ("completed",)})
    assert (again.error, again.created, again.state) == (None, False, State.COMPLETED)
    assert await shop.claim() == []


async def test_many_at_once_share_batches_and_stand_alone(shop: Shop) -> None:
    await shop.submit("taken", args=b"1")
    wishes = [shop.submission(f"n{i}") for i in range(450)]
    wishes.insert(100, shop.submission("taken", args=b"2"))
    wishes.insert(200, shop.submission("bad id!"))
    wishes.insert(300, shop.submission("long", unique_key="k" * 20_000))
    outcomes = await shop.engine.submit(wishes)
    assert [o.id for o in outcomes] == [w.id for w in wishes]
    refused = {o.id: type(o.error) for o in outcomes if o.error}
    assert refused == {
        "taken": TaskConflict,
        "bad id!": InvalidSubmission,
        "long": InvalidSubmission,
    }
    (counts,) = [queue.counts for queue in await shop.engine.stats()]
    assert counts == {"pending": 451}


async def test_concurrent_submits_are_all_stored(shop: Shop) -> None:
    ids = await asyncio.gather(*(shop.submit() for _ in range(300)))
    assert sorted(await _all(shop)) == sorted(ids)


async def _all(shop: Shop) -> list[str]:
    return [task.id for task in (await shop.engine.find(Query(limit=1_000))).tasks]


async def test_a_submit_whose_caller_has_gone_is_stored_all_the_same(shop: Shop) -> None:
    going = asyncio.ensure_future(shop.submit("a"))
    await asyncio.sleep(0)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    await shop.submit("b")
    assert sorted(await stored(shop)) == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task_id": "no spaces"}, "id"),
        ({"task_id": "x" * 65}, "id"),
        ({"name": ""}, "task"),
        ({"queue": "a b"}, "queue"),
        ({"priority": 9}, "priority"),
        ({"delay": -1.0}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"deadline_in": -1.0}, "deadline"),
        ({"deadline": START - 1}, "deadline"),
        ({"deadline_in": 5.0, "delay": 5.0}, "run_at"),
        ({"options": {"max_retries": -1}}, "max_retries"),
        ({"options": {"retention": {"nowhere": 1}}}, "retention"),
        ({"options": {"timeot": 1}}, "timeot"),
        ({"options": {"backoff": "sideways"}}, "backoff"),
        ({"unique_key": ""}, "unique_key"),
        ({"key": "k" * 1_025}, "key"),
        ({"group": "a\0b"}, "group"),
        ({"tags": ("half a character: \ud800",)}, ""),
        ({"priority": 10**30}, ""),
        ({"headers": {"number": 10**30}}, ""),
        ({"dependencies": ("absent",)}, "dependencies"),
        ({"args": b"x" * (256 * 1024 + 1)}, "args"),
    ],
)
async def test_what_can_never_work_is_refused_by_field(
    shop: Shop, fields: dict[str, object], field: str
) -> None:
    await shop.submit("p")
    before = await shop.engine.events_end()
    outcome = await shop.try_submit(**fields)  # pyright: ignore[reportArgumentType]
    assert isinstance(outcome.error, InvalidSubmission)
    assert outcome.error.field == field
    assert await shop.engine.events_end() == before, "a refusal changes nothing"


async def test_a_payload_above_the_limit_says_how_large_it_is(shop: Shop) -> None:
    outcome = await shop.try_submit(args=b"x" * 300_000)
    assert isinstance(outcome.error, PayloadTooLarge)
    assert "300,000" in str(outcome.error)


async def test_a_recorded_refusal_is_a_failed_task(shop: Shop) -> None:
    outcome = await shop.try_submit("a", deadline=START - 1, options={"on_invalid": "record"})
    assert isinstance(outcome.error, InvalidSubmission)
    task = await shop.task("a")
    assert (task.state, task.status.reason) == (State.FAILED, Reason.VALIDATION_ERROR)


INVALID: dict[str, Any] = {"invalid": "order is a number", "options": {"on_invalid": "record"}}
TOO_LATE: dict[str, Any] = {"deadline": START - 1, "options": {"on_invalid": "record"}}


@pytest.mark.parametrize("bad", [INVALID, TOO_LATE], ids=["arguments", "deadline"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "deleted"])
async def test_a_recorded_refusal_that_is_repeated_is_answered_like_the_first(
    shop: Shop, bad: dict[str, Any], kept: bool
) -> None:
    first = await shop.try_submit("a", **bad)
    if not kept:  # the tombstone answers
        [deleted] = await shop.engine.act(["a"], Delete())
        assert deleted.error is None
    again = await shop.try_submit("a", **bad)
    assert isinstance(again.error, InvalidSubmission)
    assert str(again.error) == str(first.error)
    assert (again.created, again.state) == (False, State.FAILED)
    many = await shop.engine.submit([shop.submission("a", **bad), shop.submission("b")])
    assert [type(one.error) for one in many] == [InvalidSubmission, type(None)]
    other = await shop.try_submit("a", **{**bad, "args": b"[1]"})
    assert isinstance(other.error, TaskConflict)


async def test_what_was_good_when_it_came_first_is_not_refused_when_it_comes_again_too_late(
    shop: Shop,
) -> None:
    wanted = {"deadline": START + 5_000, "options": {"on_invalid": "record"}}
    await shop.submit("a", **wanted)
    await shop.run()
    shop.clock.ms += 60_000
    again = await shop.try_submit("a", **wanted)
    assert (again.error, again.created) == (None, False)


async def test_a_unique_key_holds_until_its_task_has_ended(shop: Shop) -> None:
    await shop.submit("a", unique_key="k")
    refused = await shop.try_submit("b", unique_key="k")
    assert isinstance(refused.error, UniqueKeyHeld)
    assert refused.error.holder == "a"
    await shop.run()
    await shop.submit("b", unique_key="k")


async def test_a_full_queue_rejects(shop: Shop) -> None:
    await shop.engine.configure_queue("default", {"max_size": 2})
    await shop.submit()
    await shop.submit()
    refused = await shop.try_submit()
    assert isinstance(refused.error, QueueFull)


async def test_a_full_queue_may_discard_its_oldest_with_an_event(shop: Shop) -> None:
    await shop.engine.configure_queue("default", {"max_size": 2, "on_full": "discard-old"})
    for task_id in ("a", "b", "c"):
        await shop.submit(task_id)
        shop.clock.ms += 1
    assert await shop.state("b") is State.PENDING
    assert await shop.state("c") is State.PENDING
    old = await shop.task("a")
    assert (old.state, old.status.reason) == (State.CANCELLED, Reason.QUEUE_FULL)


async def test_a_start_time_ahead_waits_in_scheduled(shop: Shop) -> None:
    await shop.submit("a", delay=60.0)
    assert await shop.state("a") is State.SCHEDULED
    await shop.later(59)
    assert await shop.claim() == []
    await shop.later(1)
    assert [t.id for t in await shop.claim()] == ["a"]
