"""Counts of each queue, and what a store says of itself."""

from andon.lifecycle.commands import Cancel, Complete, Delete, Fail
from andon.model.task import TaskError

from .kit import Kit


async def test_counts_follow_every_move(kit: Kit) -> None:
    first, _ = await kit.submit_many(2)
    assert (await kit.stats()).counts == {"pending": 2}
    (task,) = await kit.claim()
    assert (await kit.stats()).counts == {"pending": 1, "active": 1}
    assert task.id == first.id
    ended = await kit.moved(task, Complete())
    assert (await kit.stats()).counts == {"pending": 1, "completed": 1}
    await kit.move(ended, Delete())
    assert (await kit.stats()).counts == {"pending": 1}


async def test_queues_are_counted_apart(kit: Kit) -> None:
    await kit.submit(queue="a")
    await kit.submit(queue="b")
    await kit.active(queue="b2")
    assert (await kit.stats("a")).counts == {"pending": 1}
    assert (await kit.stats("b")).counts == {"pending": 1}
    assert (await kit.stats("b2")).counts == {"active": 1}


async def test_the_oldest_claimable_task_tells_since_when_it_waits(kit: Kit) -> None:
    first = await kit.submit()
    await kit.pass_time(3)
    second = await kit.submit()
    assert (await kit.stats()).oldest_pending_at == first.status.submitted_at
    await kit.claim()
    assert (await kit.stats()).oldest_pending_at == second.status.submitted_at
    await kit.move(second, Cancel())
    assert (await kit.stats()).oldest_pending_at is None


async def test_dead_letters_are_counted(kit: Kit) -> None:
    task = await kit.active()
    dead = await kit.moved(task, Fail(error=TaskError(message="no"), retryable=False))
    assert (await kit.stats()).dead_letters == 1
    await kit.move(dead, Delete())
    assert (await kit.stats()).dead_letters == 0


async def test_info_says_what_the_store_is_and_holds(kit: Kit) -> None:
    await kit.submit_many(3)
    info = await kit.store.info()
    assert info.entries == 3
    assert info.partitions == kit.store.partitions
    assert info.schema_version >= 1
    assert info.min_writer >= 1
    assert set(info.durability) == {"process_crash", "os_crash", "power_cut"}


async def test_the_clock_never_goes_back(kit: Kit) -> None:
    times = [kit.store.now() for _ in range(1_000)]
    assert times == sorted(times)
