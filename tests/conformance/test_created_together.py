"""Records that are created all together or not at all (`CreatesTogether`)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from andon.contract.isolation import AT_FAULT
from andon.contract.optional import CreatesTogether
from andon.lifecycle.commands import Complete
from andon.model.task import Task
from andon.model.words import State

from .kit import Kit

HALF = "\ud800"

ONE_OF_FIVE = pytest.mark.parametrize("place", [0, 2, 4])


async def together(kit: Kit, *tasks: Task) -> bool:
    assert isinstance(kit.store, CreatesTogether)
    return await kit.store.create_together(tasks)


async def there(kit: Kit, *tasks: Task) -> list[bool]:
    return [found is not None for found in await kit.store.get([task.id for task in tasks])]


def family(kit: Kit, size: int = 5) -> list[Task]:
    """A chain: each waits for the one before it."""
    tasks = [kit.record()]
    for _ in range(size - 1):
        tasks.append(kit.record(dependencies=(tasks[-1].id,)))
    return tasks


async def test_all_of_them_are_there_as_if_each_had_been_created_by_itself(kit: Kit) -> None:
    begin = await kit.store.events_end()
    tasks = [*family(kit), kit.record(run_at=kit.store.now() + 60_000), kit.record(queue="other")]
    assert await together(kit, *tasks)
    assert await kit.store.get([task.id for task in tasks]) == tasks
    events = (await kit.read_events(begin)).events
    assert sorted(event.task for event in events) == sorted(task.id for task in tasks)
    stats = await kit.stats()
    assert (stats.counts[State.PENDING], stats.counts[State.BLOCKED]) == (1, 4)
    assert [task.id for task in await kit.claim(9)] == [tasks[0].id]
    assert [task.id for task in await kit.claim(9, queues=("other",))] == [tasks[-1].id]


async def taken(kit: Kit, place: int, tasks: list[Task]) -> None:
    await kit.submit(tasks[place].id)


async def deleted_lately(kit: Kit, place: int, tasks: list[Task]) -> None:
    run = await kit.active(tasks[place].id, policy={"discard_states": ("completed",)})
    assert await kit.move(run, Complete()) is None


async def key_held(kit: Kit, place: int, tasks: list[Task]) -> None:
    await kit.submit(unique_key="k")
    tasks[place] = kit.record(unique_key="k")


async def twice(kit: Kit, place: int, tasks: list[Task]) -> None:
    tasks[place] = kit.record(tasks[place - 1].id)


async def full(kit: Kit, place: int, tasks: list[Task]) -> None:
    await kit.configure(name="small", max_size=1)
    await kit.submit(queue="small")
    tasks[place] = kit.record(queue="small")


Refusal = Callable[[Kit, int, list[Task]], Awaitable[None]]


@ONE_OF_FIVE
@pytest.mark.parametrize("refusal", [taken, deleted_lately, key_held, twice, full])
async def test_none_is_there_where_one_is_refused(kit: Kit, refusal: Refusal, place: int) -> None:
    tasks = family(kit)
    await refusal(kit, place, tasks)
    before = await there(kit, *tasks)
    end = await kit.store.events_end()
    stats = await kit.store.stats()
    assert not await together(kit, *tasks)
    assert await there(kit, *tasks) == before
    assert (await kit.read_events(end)).events == ()
    assert await kit.store.stats() == stats
    fresh = family(kit)
    assert await together(kit, *fresh), "and what comes next is as if it had not been there"
    assert await there(kit, *fresh) == [True] * 5


@ONE_OF_FIVE
async def test_one_that_cannot_be_written_leaves_none_and_harms_nobody_else(
    kit: Kit, place: int
) -> None:
    if kit.factory.url.startswith("memory"):
        pytest.skip("a store in memory holds what others cannot write")
    tasks, others = family(kit), [family(kit) for _ in range(4)]
    definition = replace(tasks[place].definition, headers={"file": HALF})
    tasks[place] = Task(definition=definition, status=tasks[place].status)
    lone = kit.record()
    bad, *good, created = await asyncio.gather(
        together(kit, *tasks),
        *(together(kit, *other) for other in others),
        kit.create(lone),
        return_exceptions=True,
    )
    assert isinstance(bad, AT_FAULT)
    assert good == [True] * 4
    assert not isinstance(created, BaseException)
    assert await there(kit, *(task for task in tasks if task is not tasks[place])) == [False] * 4
    assert await there(kit, lone, *(task for other in others for task in other)) == [True] * 21


async def test_of_many_at_once_that_share_an_id_one_has_all_it_asked_for(kit: Kit) -> None:
    families = [[*family(kit, 3), kit.record("shared")] for _ in range(10)]
    created = await asyncio.gather(*(together(kit, *tasks) for tasks in families))
    assert created.count(True) == 1
    for tasks, is_created in zip(families, created, strict=True):
        assert await there(kit, *tasks[:3]) == [is_created] * 3
