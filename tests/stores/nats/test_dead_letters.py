"""The bound of dead letters is kept without looking at every record."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from conformance.kit import Kit

from andon.engine.dependencies import Dependencies
from andon.engine.timekeeper import Timekeeper
from andon.lifecycle.commands import Delete, Rerun, Terminate
from andon.model.task import Task, TaskError
from andon.model.words import State
from andon.stores.nats import NatsStore

PATIENCE_S = 60.0
GIVE_UP = Terminate(error=TaskError(message="no"))


async def dead(kit: Kit, count: int) -> list[str]:
    """So many dead letters, oldest first."""
    await kit.submit_many(count)
    tasks = await kit.claim(count)
    for task in tasks:
        await kit.moved(task, GIVE_UP)
    return [task.id for task in tasks]


def store_of(kit: Kit) -> NatsStore:
    assert isinstance(kit.store, NatsStore)
    return kit.store


async def beyond(kit: Kit, bound: int, most: int = 100) -> list[str]:
    return [t.id for t in await store_of(kit).oldest_dead_letters(beyond=bound, most=most)]


async def settled(kit: Kit, bound: int, expected: list[str]) -> None:
    """Marks go a moment after the records that they are for."""
    async with asyncio.timeout(PATIENCE_S):
        while await beyond(kit, bound) != expected:  # noqa: ASYNC110 - the server deletes
            await asyncio.sleep(0.01)


async def test_the_oldest_beyond_the_bound_are_told(kit: Kit) -> None:
    ids = await dead(kit, 5)
    assert await beyond(kit, 5) == []
    assert await beyond(kit, 3) == ids[:2]
    assert await beyond(kit, 0, most=3) == ids[:3]


@pytest.mark.parametrize("partitions", [3])
async def test_those_of_several_partitions_count_together(kit: Kit) -> None:
    ids = await dead(kit, 12)
    found = await beyond(kit, 7)
    assert len(found) == 5
    assert {*found} <= {*ids}


async def test_one_that_runs_again_or_is_deleted_counts_no_longer(kit: Kit) -> None:
    again, gone, left = await dead(kit, 3)
    await kit.moved(await kit.there(again), Rerun())
    await kit.move(await kit.there(gone), Delete())
    await settled(kit, 0, [left])


async def test_one_that_dies_again_counts_once(kit: Kit) -> None:
    (first,) = await dead(kit, 1)
    (second,) = await dead(kit, 1)
    await kit.moved(await kit.there(first), Rerun())
    (task,) = await kit.claim(1)
    await kit.moved(task, GIVE_UP)
    await settled(kit, 0, [second, first])
    assert await beyond(kit, 2) == []


async def test_a_mark_without_its_end_means_nothing_and_goes(kit: Kit) -> None:
    """Its writer died before the record, or after the record had moved on."""
    (before,) = await kit.submit_many(1)
    context = store_of(kit)._context
    assert context is not None
    records = context.records[0]
    stale = [(records.subjects.dead(before.id, 1), b"1", None)]
    await records.js.write(records.subjects.stream, stale)
    (task,) = await kit.claim(1)
    assert task.id == before.id
    await kit.moved(task, GIVE_UP)
    assert await beyond(kit, 1) == []
    await settled(kit, 0, [before.id])


async def test_the_timekeeper_keeps_the_bound_and_builds_no_index(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(kit)
    ids = await dead(kit, 6)

    async def sync(**_: Any) -> None:
        raise AssertionError("the index is read")

    ended: list[str] = []

    def note(task: Task, state: State | None, _changed: object, /) -> None:
        assert state is None
        ended.append(task.id)

    monkeypatch.setattr(store._index, "sync", sync)
    keeper = Timekeeper(
        store,
        Dependencies(store),
        note,
        random=Random(7),
        dead_letter_limit=4,
        pay=_owed_by_none,
        also=(),
        sweep=(),
    )
    await keeper.housekeep()
    assert ended == ids[:2]
    assert [await kit.get(i) for i in ids[:2]] == [None, None]


async def _owed_by_none(tasks: Sequence[Task]) -> set[str]:
    raise AssertionError(f"{tasks} owe nothing")
