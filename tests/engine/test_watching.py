"""Waiting and watching: every end is seen, also of what is discarded at once."""

import asyncio
from typing import Any

import pytest

from andon.contract.requests import Renewal
from andon.contract.store import Store
from andon.lifecycle.commands import Complete
from andon.model.errors import StoreUnavailable, TaskNotFound
from andon.model.words import State

from .conftest import Shop


async def test_waiting_ends_when_the_task_has_ended(shop: Shop) -> None:
    await shop.submit("a")
    waiting = asyncio.ensure_future(shop.engine.wait_end("a"))
    await asyncio.sleep(0)
    await shop.run()
    task = await waiting
    assert (task.state, task.result) == (State.COMPLETED, b"1")


async def test_waiting_for_what_has_ended_returns_at_once(shop: Shop) -> None:
    await shop.submit("a")
    await shop.run()
    assert (await shop.engine.wait_end("a", 0.0 + 5)).state is State.COMPLETED


async def test_a_wait_has_left_when_it_returns(shop: Shop) -> None:
    await shop.submit("a")
    waiting = asyncio.ensure_future(shop.engine.wait_end("a"))
    await asyncio.sleep(0)
    assert "a" in shop.engine._watching._waiters
    await shop.run()
    await waiting
    assert not shop.engine._watching._waiters


async def test_a_result_that_is_discarded_at_once_reaches_who_waits(shop: Shop) -> None:
    await shop.submit("a", options={"discard_states": ("completed",)})
    watching = shop.engine.watch("a")
    assert (await anext(watching)).state is State.PENDING
    await shop.run()
    last = [task async for task in watching][-1]
    assert (last.state, last.result) == (State.COMPLETED, b"1")


async def test_a_wait_that_has_begun_outlasts_a_store_that_is_away(
    shop: Shop, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.submit("a")
    watching = shop.engine.watch("a")
    assert (await anext(watching)).state is State.PENDING
    get, refused = store.get, 0

    async def away(ids: Any) -> Any:
        nonlocal refused
        refused += 1
        if refused < 3:
            raise StoreUnavailable("It is away.")
        return await get(ids)

    await shop.run()
    monkeypatch.setattr(store, "get", away)
    assert [task.state async for task in watching][-1] is State.COMPLETED
    assert refused >= 3


async def test_waiting_for_an_end_begins_when_the_store_is_back(
    shop: Shop, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, refused = store.get, asyncio.Event()

    async def away(ids: Any) -> Any:
        refused.set()
        raise StoreUnavailable("It is away.")

    await shop.submit("a")
    monkeypatch.setattr(store, "get", away)
    waiting = asyncio.ensure_future(shop.engine.wait_end("a"))
    await refused.wait()
    monkeypatch.setattr(store, "get", get)
    await shop.run()
    assert (await waiting).state is State.COMPLETED


async def test_waiting_for_an_end_gives_up_on_a_store_at_its_timeout(
    shop: Shop, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(ids: Any) -> Any:
        raise StoreUnavailable("It is away.")

    await shop.submit("a")
    monkeypatch.setattr(store, "get", away)
    with pytest.raises(TimeoutError):
        await shop.engine.wait_end("a", 0.02)


async def test_watching_that_could_not_begin_says_so_and_can_begin_later(
    shop: Shop, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(ids: Any) -> Any:
        raise StoreUnavailable("It is away.")

    await shop.submit("a")
    with monkeypatch.context() as patched:
        patched.setattr(store, "get", away)
        with pytest.raises(StoreUnavailable):
            await anext(shop.engine.watch("a"))
    watching = shop.engine.watch("a")
    assert (await anext(watching)).state is State.PENDING


async def test_waiting_for_an_unknown_id_says_so(shop: Shop) -> None:
    with pytest.raises(TaskNotFound):
        await shop.engine.wait_end("absent")


async def test_waiting_gives_up_at_its_timeout(shop: Shop) -> None:
    await shop.submit("a")
    with pytest.raises(TimeoutError):
        await shop.engine.wait_end("a", 0.02)


async def test_watching_sees_moves_and_progress(shop: Shop) -> None:
    await shop.submit("a")
    watching = shop.engine.watch("a")
    assert (await anext(watching)).state is State.PENDING
    (task,) = await shop.claim()
    assert (await anext(watching)).state is State.ACTIVE
    renewal = Renewal(task="a", run=task.status.run, lease_ms=30_000, progress=40)
    await shop.engine.renew([renewal])
    seen = await anext(watching)
    assert seen.cell is not None
    assert seen.cell.progress == 40
    await shop.engine.report(task, Complete())
    assert (await anext(watching)).state is State.COMPLETED
    assert [task async for task in watching] == []


async def test_following_gives_every_revision_once_and_in_order(shop: Shop) -> None:
    following = shop.engine.follow("")
    for _ in range(5):
        await shop.submit()
        await shop.run()
    seen = [await anext(following) for _ in range(15)]
    await following.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    by_task: dict[str, list[int]] = {}
    for event in seen:
        by_task.setdefault(event.task, []).append(event.revision)
    assert list(by_task.values()) == [[1, 2, 3]] * 5


async def test_following_from_now_leaves_out_what_was(shop: Shop) -> None:
    await shop.submit("before")
    following = shop.engine.follow()
    first = asyncio.ensure_future(anext(following))
    while not first.done():
        await shop.submit()
        await asyncio.sleep(0)
    assert (await first).task != "before"
    await following.aclose()  # pyright: ignore[reportAttributeAccessIssue]
