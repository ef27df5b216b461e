"""asynq's unique locks, under its profile: their lifetime is `unique_period`."""

import random

import pytest

from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Complete, Fail
from andon.model.errors import UniqueKeyHeld
from andon.model.task import TaskError
from andon.model.words import State

from .conftest import Shop

NO = Fail(error=TaskError(message="no"))
TTL = {"unique_period": 60, "max_retries": 0}


@pytest.fixture
def asynq(shop: Shop) -> Shop:
    """The same store, under asynq's profile."""
    shop.engine = LocalEngine(shop.engine.store, random=random.Random(7), profile="asynq")
    return shop


async def is_held(shop: Shop) -> bool:
    outcome = await shop.try_submit(unique_key="lock", options=TTL)
    assert outcome.error is None or isinstance(outcome.error, UniqueKeyHeld)
    return outcome.error is not None


async def test_a_lock_is_let_go_by_success(asynq: Shop) -> None:
    await asynq.submit("a", unique_key="lock", options=TTL)
    assert await is_held(asynq)
    await asynq.run(Complete(result=b"1"))
    assert not await is_held(asynq)


async def test_a_lock_is_kept_by_an_archived_task_as_long_as_it_lives(asynq: Shop) -> None:
    await asynq.submit("a", unique_key="lock", options=TTL)
    await asynq.run(NO)
    assert await asynq.state("a") is State.FAILED
    assert await is_held(asynq)
    await asynq.later(60)
    assert not await is_held(asynq)


async def test_a_lock_is_over_though_its_task_still_waits(asynq: Shop) -> None:
    await asynq.submit("a", unique_key="lock", options=TTL)
    await asynq.later(59)
    assert await is_held(asynq)
    await asynq.later(1)
    assert not await is_held(asynq)
    assert await asynq.state("a") is State.PENDING


async def test_a_lock_of_another_profile_is_let_go_by_any_end(shop: Shop) -> None:
    await shop.submit("a", unique_key="lock", options=TTL)
    await shop.run(NO)
    assert not await is_held(shop)
