"""Queues, task types, workers and settings."""

from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo

from .kit import Kit


async def test_a_queue_is_known_from_its_first_task(kit: Kit) -> None:
    await kit.submit(queue="b")
    await kit.store.put_queue(QueueConfig(name="a", weight=3))
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
    await kit.store.put_queue(full)
    assert await kit.store.queues() == [full]
    await kit.store.put_queue(QueueConfig(name="q"))
    assert await kit.store.queues() == [QueueConfig(name="q")]


async def test_a_configuration_is_not_forgotten_when_a_task_comes(kit: Kit) -> None:
    await kit.store.put_queue(QueueConfig(name="default", weight=5))
    await kit.submit()
    assert await kit.store.queues() == [QueueConfig(name="default", weight=5)]


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
