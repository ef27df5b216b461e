"""What a process that works for a long time keeps in memory has a bound, by count."""

import gc
from collections import Counter

import pytest
from conformance.kit import Kit

from andon.lifecycle.commands import Complete, Terminate
from andon.model.fleet import QueueConfig
from andon.model.task import TaskError
from andon.stores.nats import NatsStore, record_cache, shared_timers
from andon.stores.nats.record_codec import StoredRecord

BATCH = 50
GIVE_UP = Terminate(error=TaskError(message="no"))


async def _work(kit: Kit, rounds: int, *, dead: bool = False) -> None:
    """What a worker does with tasks, and with the store between them."""
    for _ in range(rounds):
        await kit.submit_many(BATCH)
        tasks = await kit.claim(BATCH)
        assert len(tasks) == BATCH
        end = GIVE_UP if dead else Complete(result=b"1")
        await kit.store.commit([kit.change(task, end) for task in tasks])
        await kit.take_due()
        await kit.store.take_unsettled(100)
        await kit.store.trim(1_000)
        await kit.store.queues()
        await kit.store.types()


def _kept(kit: Kit) -> dict[str, int]:
    """How many of what belongs to tasks this process still has."""
    store = kit.store
    assert isinstance(store, NatsStore)
    context = store._context
    assert context is not None
    gc.collect()
    found = Counter(type(thing) for thing in gc.get_objects())
    return {
        "records": found[StoredRecord],
        "rows": len(store._index.tables.rows),
        "timers": sum(len(timers.shared) + len(timers.held) for timers in context.timers),
        "answers": len(context.js._waiting),
        "background": len(context._background),
        "lines": sum(len(subqueues) for subqueues in store._claims.subqueues),
    }


async def test_a_worker_keeps_nothing_of_tasks_that_have_ended_with_a_result(kit: Kit) -> None:
    await _work(kit, 2)
    before = _kept(kit)
    await _work(kit, 6)
    after = _kept(kit)
    assert all(after[what] <= before[what] + BATCH for what in after), (before, after)
    assert after["rows"] == 0


async def test_a_worker_keeps_nothing_of_tasks_that_failed(kit: Kit) -> None:
    """They are kilobytes each, with their errors, and whoever moves them next reads them."""
    await _work(kit, 2, dead=True)
    before = _kept(kit)
    await _work(kit, 6, dead=True)
    after = _kept(kit)
    assert all(after[what] <= before[what] + BATCH for what in after), (before, after)


async def test_what_a_worker_remembers_of_tasks_that_may_move_again_is_bounded(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_cache, "REMEMBERED", BATCH)
    monkeypatch.setattr(shared_timers, "_REMEMBERED", BATCH)
    await _work(kit, 2, dead=True)
    before = _kept(kit)
    await _work(kit, 6, dead=True)
    after = _kept(kit)
    assert all(after[what] <= before[what] + BATCH for what in after), (before, after)


async def test_what_is_remembered_of_large_records_is_bounded_by_their_bytes(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_cache, "_LARGE_TOGETHER", 100_000)
    before = _kept(kit)["records"]
    await kit.submit_many(10, args=b'"' + b"x" * 30_000 + b'"')
    tasks = await kit.claim(10)
    assert _kept(kit)["records"] - before == 3
    for task in tasks[:8]:
        await kit.moved(task, Complete(result=b"1"))
    await kit.submit("small")
    assert len(await kit.claim()) == 1
    assert _kept(kit)["records"] - before == 3, "those that ended make room"


async def test_a_worker_of_a_limited_queue_indexes_those_that_have_not_ended(kit: Kit) -> None:
    await kit.store.put_queue(
        QueueConfig(name="default", max_concurrent=BATCH), expect=QueueConfig(name="default")
    )
    await _work(kit, 6)
    await kit.submit_many(3)
    assert len(await kit.claim(1)) == 1
    assert _kept(kit)["rows"] == 3
    listed = await kit.stats()
    assert sum(listed.counts.values()) == 6 * BATCH + 3
    assert len(await kit.find_all()) == 6 * BATCH + 3
