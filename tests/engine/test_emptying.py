"""Queues emptied and deleted, on every store."""

import pytest

from andon.engine.emptying import delete_queue, purge_queue
from andon.engine.fleet import known_queues
from andon.model.errors import ConfigurationError, QueueNotEmpty
from andon.model.fleet import QueueConfig
from andon.model.words import Event, State

from .conftest import Shop


async def names(shop: Shop) -> list[str]:
    return [config.name for config, _ in await known_queues(shop.engine)]


async def states(shop: Shop, *ids: str) -> list[State | None]:
    return [None if task is None else task.state for task in await shop.engine.get(ids)]


async def test_a_purge_removes_what_waits_and_nothing_else(shop: Shop):
    await shop.submit("running")
    await shop.claim()
    await shop.submit("done", queue="other")
    await shop.claim(queues=("other",))
    await shop.submit("pending")
    await shop.submit("scheduled", delay=100)
    await shop.submit("blocked", dependencies=("running",))
    await shop.submit("elsewhere", queue="other")

    emptied = await purge_queue(shop.engine, "default")

    assert (emptied.removed, emptied.refused, emptied.more) == (3, 0, False)
    left = await states(shop, "running", "pending", "scheduled", "blocked", "elsewhere")
    assert left == [State.ACTIVE, None, None, None, State.PENDING]
    assert "default" in await names(shop)


async def test_what_a_purge_removes_is_cancelled_first_so_that_everybody_learns_it(shop: Shop):
    await shop.submit("a")
    cursor = await shop.engine.events_end()
    await purge_queue(shop.engine, "default")
    moves = [one.event for one in (await shop.engine.events(cursor)).events if one.task == "a"]
    assert moves == [Event.CANCEL, Event.DELETE]


async def test_a_purge_by_force_ends_what_is_running(shop: Shop):
    await shop.submit("a")
    await shop.claim()
    emptied = await purge_queue(shop.engine, "default", force=True)
    assert emptied.removed == 1
    assert await states(shop, "a") == [None]


async def test_one_task_that_cannot_be_removed_keeps_no_other(shop: Shop):
    await shop.submit("needed")
    await shop.submit("child", queue="other", dependencies=("needed",), load_dependencies=True,
                      options={"on_dependency_failure": "wait"})  # fmt: skip
    await shop.submit("b")
    emptied = await purge_queue(shop.engine, "default")
    await shop.told()
    assert (emptied.removed, emptied.refused) == (1, 1)
    assert await states(shop, "needed", "b") == [State.CANCELLED, None]
    with pytest.raises(QueueNotEmpty, match="need 1 of them"):
        await delete_queue(shop.engine, "default")
    await delete_queue(shop.engine, "default", force=True)
    assert await names(shop) == ["other"]


async def test_a_purge_stops_at_its_most_and_says_that_there_may_be_more(shop: Shop):
    for _ in range(5):
        await shop.submit()
    emptied = await purge_queue(shop.engine, "default", most=3)
    assert (emptied.removed, emptied.more) == (3, True)
    emptied = await purge_queue(shop.engine, "default", most=3)
    assert (emptied.removed, emptied.more) == (2, False)


async def test_a_deleted_queue_is_gone_with_its_settings_and_what_had_ended_in_it(shop: Shop):
    await shop.engine.configure_queue("default", {"max_size": 3, "weight": 5})
    await shop.submit("a")
    await shop.run()
    assert (await delete_queue(shop.engine, "default")).removed == 1
    assert await names(shop) == []
    assert await states(shop, "a") == [None]
    assert await shop.engine.configure_queue("default", {}) == QueueConfig(name="default")
    assert await names(shop) == ["default"]


async def test_a_queue_with_live_tasks_is_deleted_by_force_only(shop: Shop):
    await shop.engine.configure_queue("default", {"max_size": 3})
    await shop.submit("a")
    await shop.claim()
    await shop.submit("b")
    with pytest.raises(QueueNotEmpty, match=r"1 active, 1 pending|1 pending, 1 active"):
        await delete_queue(shop.engine, "default")
    assert await states(shop, "a", "b") == [State.ACTIVE, State.PENDING]
    [(config, _)] = await known_queues(shop.engine)
    assert config.max_size == 3
    assert (await delete_queue(shop.engine, "default", force=True)).removed == 2
    assert await names(shop) == []


async def test_a_queue_with_more_tasks_than_one_call_removes_stays_until_the_last(shop: Shop):
    for _ in range(5):
        await shop.submit()
    with pytest.raises(QueueNotEmpty, match="3 were removed; delete it again"):
        await delete_queue(shop.engine, "default", force=True, most=3)
    assert await names(shop) == ["default"]
    await delete_queue(shop.engine, "default", force=True, most=3)
    assert await names(shop) == []


async def test_a_task_makes_a_deleted_queue_a_queue_again_and_is_claimed(shop: Shop):
    await shop.engine.configure_queue("default", {"paused": True})
    await delete_queue(shop.engine, "default")
    await shop.submit("late")
    assert await names(shop) == ["default"]
    assert [task.id for task in await shop.claim()] == ["late"]


async def test_a_queue_that_there_is_not_is_neither_purged_nor_deleted(shop: Shop):
    await shop.submit(queue="mail")
    for act in (purge_queue, delete_queue):
        with pytest.raises(ConfigurationError, match=r"There is no queue 'mial'. There are: mail"):
            await act(shop.engine, "mial")
    await delete_queue(shop.engine, "mail", force=True)
    with pytest.raises(ConfigurationError, match="There is no queue 'mail'"):
        await delete_queue(shop.engine, "mail")


async def test_the_engine_forgets_no_queue_that_has_a_task(shop: Shop):
    await shop.submit("a")
    await shop.run()
    with pytest.raises(QueueNotEmpty, match="1 completed"):
        await shop.engine.delete_queue("default")
