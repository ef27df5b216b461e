"""Queues, task types, workers and settings."""

import asyncio

from andon.engine.local import LocalEngine
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo

from .kit import Kit


async def test_a_queue_is_known_from_its_first_task(kit: Kit) -> None:
    await kit.submit(queue="b")
    await kit.configure(name="a", weight=3)
    assert await kit.store.queues() == [QueueConfig(name="a", weight=3), QueueConfig(name="b")]


async def test_a_configuration_replaces_the_one_before(kit: Kit) -> None:
    full = QueueConfig(
        name="q",
        paused=True,
        max_concurrent=1,
        max_concurrent_per_key=2,
        rate_limit=0.5,
        rate_burst=4,
        max_size=10,
        on_full="discard-old",
        weight=7,
        policy={"max_retries": 1},
    )
    assert await kit.store.put_queue(full, expect=QueueConfig(name="q"))
    assert await kit.store.queues() == [full]
    assert await kit.store.put_queue(QueueConfig(name="q"), expect=full)
    assert await kit.store.queues() == [QueueConfig(name="q")]


async def test_a_configuration_is_not_forgotten_when_a_task_comes(kit: Kit) -> None:
    await kit.configure(weight=5)
    await kit.submit()
    assert await kit.store.queues() == [QueueConfig(name="default", weight=5)]


async def test_a_configuration_is_set_only_over_what_was_expected(kit: Kit) -> None:
    plain, paused = QueueConfig(name="q"), QueueConfig(name="q", paused=True)
    heavy = QueueConfig(name="q", weight=7, policy={"max_retries": 1})
    assert not await kit.store.put_queue(heavy, expect=paused)
    assert QueueConfig(name="q", weight=7) not in await kit.store.queues()
    assert await kit.store.put_queue(paused, expect=plain)
    assert not await kit.store.put_queue(heavy, expect=plain)
    assert not await kit.store.put_queue(heavy, expect=heavy)
    assert await kit.store.queues() == [paused]
    assert await kit.store.put_queue(heavy, expect=paused)
    assert await kit.store.queues() == [heavy]


async def test_a_queue_that_only_has_tasks_is_expected_to_be_plain(kit: Kit) -> None:
    await kit.submit(queue="q")
    paused = QueueConfig(name="q", paused=True)
    assert not await kit.store.put_queue(QueueConfig(name="q", weight=2), expect=paused)
    assert await kit.store.put_queue(paused, expect=QueueConfig(name="q"))
    assert await kit.claim(queues=("q",)) == []


async def test_of_many_that_expect_the_same_one_configures(kit: Kit) -> None:
    plain = QueueConfig(name="q")
    stores = [kit.store, await kit.again()]
    configs = [QueueConfig(name="q", weight=2 + n) for n in range(10)]
    done = await asyncio.gather(
        *(stores[n % 2].put_queue(config, expect=plain) for n, config in enumerate(configs))
    )
    assert sum(done) == 1
    assert await kit.store.queues() == [configs[done.index(True)]]


async def test_settings_made_at_once_through_engines_all_stay(kit: Kit) -> None:
    first, second = LocalEngine(kit.store), LocalEngine(await kit.again())
    await asyncio.gather(
        first.configure_queue("q", {"paused": True}),
        second.configure_queue("q", {"weight": 7}),
        first.configure_queue("q", {"max_size": 9}),
        second.configure_queue("q", {"rate_limit": 0.5}),
    )
    everything = QueueConfig(name="q", paused=True, weight=7, max_size=9, rate_limit=0.5)
    assert await kit.store.queues() == [everything]


async def test_types_are_published_by_name_and_version(kit: Kit) -> None:
    old = TypeInfo(name="t", version=1, policy={"max_retries": 1})
    new = TypeInfo(name="t", version=2)
    await kit.store.put_types([old, new])
    changed = TypeInfo(name="t", version=1, policy={"max_retries": 9})
    await kit.store.put_types([changed])
    assert sorted(await kit.store.types(), key=lambda t: t.version) == [changed, new]


async def test_a_worker_is_listed_from_its_first_word_to_its_last(kit: Kit) -> None:
    info = WorkerInfo(id="w1", host="h", pid=7, queues=("a", "b"), concurrency=4, started_at=5)
    await kit.store.put_worker(info)
    (seen,) = await kit.store.workers()
    assert (seen.id, seen.host, seen.queues, seen.concurrency) == ("w1", "h", ("a", "b"), 4)
    assert abs(seen.seen_at - kit.store.now()) < 5_000
    await kit.store.put_worker(WorkerInfo(id="w1", state="stopping"))
    (seen,) = await kit.store.workers()
    assert seen.state == "stopping"
    await kit.store.remove_worker("w1")
    await kit.store.remove_worker("absent")
    assert await kit.store.workers() == []


async def test_a_setting_is_written_only_over_what_was_expected(kit: Kit) -> None:
    assert await kit.store.setting("s") is None
    assert await kit.store.put_setting("s", b"1", expect=None)
    assert not await kit.store.put_setting("s", b"2", expect=None)
    assert not await kit.store.put_setting("s", b"2", expect=b"0")
    assert await kit.store.setting("s") == b"1"
    assert await kit.store.put_setting("s", b"2", expect=b"1")
    assert await kit.store.setting("s") == b"2"
    assert not await kit.store.put_setting("absent", b"1", expect=b"x")
