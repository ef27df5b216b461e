"""asynq's unique locks, under its profile: their lifetime is `unique_period`."""

from typing import Any

import pytest

from andon.lifecycle.commands import Complete, Fail
from andon.model.errors import UniqueKeyHeld
from andon.model.task import TaskError
from andon.model.words import State

from .conftest import Shop

NO = Fail(error=TaskError(message="no"))
TTL = {"unique_period": 60, "max_retries": 0}


@pytest.fixture
def shop_options() -> dict[str, Any]:
    return {"profile": "asynq"}


async def is_held(shop: Shop) -> bool:
    outcome = await shop.try_submit(unique_key="lock", options=TTL)
    assert outcome.error is None or isinstance(outcome.error, UniqueKeyHeld)
    return outcome.error is not None


async def test_a_lock_is_let_go_by_success(shop: Shop) -> None:
    await shop.submit("a", unique_key="lock", options=TTL)
    assert await is_held(shop)
    await shop.run(Complete(result=b"1"))
    assert not await is_held(shop)


async def test_a_lock_is_kept_by_an_archived_task_as_long_as_it_lives(shop: Shop) -> None:
    await shop.submit("a", unique_key="lock", options=TTL)
    await shop.run(NO)
    assert await shop.state("a") is State.FAILED
    assert await is_held(shop)
    await shop.later(60)
    assert not await is_held(shop)


async def test_a_lock_is_over_though_its_task_still_waits(shop: Shop) -> None:
    await shop.submit("a", unique_key="lock", options=TTL)
    await shop.later(59)
    assert await is_held(shop)
    await shop.later(1)
    assert not await is_held(shop)
    assert await shop.state("a") is State.PENDING


async def test_a_lock_of_another_profile_is_let_go_by_any_end(shop: Shop) -> None:
    await shop.submit("a", unique_key="lock", options=TTL, profile="native")
    await shop.run(NO)
    assert not await is_held(shop)
