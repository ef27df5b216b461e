"""Records that are created with a note, in one step (`CreatesWithNotes`)."""

import asyncio

import pytest
from msgspec.structs import replace

from andon.contract.notes import NoteName, PutNote
from andon.contract.optional import CreatesWithNotes
from andon.contract.outcomes import Created, CreateKind
from andon.contract.requests import NotedTask
from andon.model.task import Task

from .kit import Kit

A, B = NoteName("group", "s", "a"), NoteName("group", "s", "b")
CREATED, CHANGED = CreateKind.CREATED, CreateKind.NOTE_CHANGED
HALF = "\ud800"

ONE_OF_FIVE = pytest.mark.parametrize("place", [0, 2, 4])


async def create(kit: Kit, *noted: tuple[Task, PutNote]) -> list[Created]:
    assert isinstance(kit.store, CreatesWithNotes)
    return await kit.store.create_with_notes([NotedTask(task, put) for task, put in noted])


def kinds(created: list[Created]) -> list[CreateKind]:
    return [one.kind for one in created]


async def there(kit: Kit, *tasks: Task) -> list[bool]:
    return [found is not None for found in await kit.store.get([task.id for task in tasks])]


async def test_a_record_is_created_and_its_note_written(kit: Kit) -> None:
    task = kit.record()
    assert kinds(await create(kit, (task, PutNote(A, b"1", None)))) == [CREATED]
    assert await kit.store.notes([A]) == [b"1"]
    (found,) = await kit.store.get([task.id])
    assert found == task
    (claimed,) = await kit.claim()
    assert claimed.id == task.id


async def test_neither_is_written_where_the_note_is_another(kit: Kit) -> None:
    await kit.store.put_notes([PutNote(A, b"1", None)])
    other = await kit.again()
    tasks = [kit.record() for _ in range(3)]
    puts = [PutNote(A, b"2", None), PutNote(A, b"3", b"2"), PutNote(B, b"2", b"1")]
    created = await create(kit, *zip(tasks, puts, strict=True))
    assert kinds(created) == [CHANGED] * 3
    assert await there(kit, *tasks) == [False] * 3
    assert await other.notes([A, B]) == [b"1", None]
    await other.put_notes([PutNote(A, b"2", b"1")])
    assert kinds(await create(kit, (tasks[0], PutNote(A, b"1", b"1")))) == [CHANGED]
    assert kinds(await create(kit, (tasks[0], PutNote(A, b"2", b"2")))) == [CREATED]
    assert await other.notes([A]) == [b"2"]


async def test_notes_of_one_name_follow_upon_one_another(kit: Kit) -> None:
    tasks = [kit.record() for _ in range(6)]
    puts = [
        PutNote(A, b"1", None),
        PutNote(A, b"1", b"1"),
        PutNote(A, b"x", None),
        PutNote(A, b"2", b"1"),
        PutNote(B, b"1", None),
        PutNote(A, b"2", b"2"),
    ]
    created = await create(kit, *zip(tasks, puts, strict=True))
    assert kinds(created) == [CREATED, CREATED, CHANGED, CREATED, CREATED, CREATED]
    assert await kit.store.notes([A, B]) == [b"2", b"1"]
    assert await there(kit, *tasks) == [True, True, False, True, True, True]


async def test_a_note_may_be_deleted_by_who_knows_what_it_is(kit: Kit) -> None:
    await kit.store.put_notes([PutNote(A, b"1", None)])
    first, second = kit.record(), kit.record()
    created = await create(kit, (first, PutNote(A, None, b"1")), (second, PutNote(A, b"2", None)))
    assert kinds(created) == [CREATED, CREATED]
    assert await kit.store.notes([A]) == [b"2"]
    assert kinds(await create(kit, (kit.record(), PutNote(A, None, b"2")))) == [CREATED]
    assert await kit.store.notes([A]) == [None]


async def test_a_note_stays_written_if_its_record_is_refused(kit: Kit) -> None:
    task = await kit.submit()
    fresh = kit.record()
    created = await create(kit, (task, PutNote(A, b"1", None)), (fresh, PutNote(B, b"1", None)))
    assert kinds(created) == [CreateKind.EXISTS, CREATED]
    assert created[0].digest == task.definition.digest
    assert await kit.store.notes([A, B]) == [b"1", b"1"]


@ONE_OF_FIVE
async def test_one_whose_note_is_another_is_left_out_alone(kit: Kit, place: int) -> None:
    # Those of one write id begin alike, and are one batch within the store.
    tasks = [kit.record(write_id="w") for _ in range(5)]
    puts = [PutNote(NoteName("group", "s", str(i)), b"1", None) for i in range(5)]
    puts[place] = PutNote(puts[place].name, b"1", b"0")
    created = await create(kit, *zip(tasks, puts, strict=True))
    expected = [CHANGED if i == place else CREATED for i in range(5)]
    assert kinds(created) == expected
    assert await there(kit, *tasks) == [kind is CREATED for kind in expected]
    assert await kit.store.notes([put.name for put in puts]) == [
        None if i == place else b"1" for i in range(5)
    ]


@ONE_OF_FIVE
async def test_one_that_cannot_be_written_fails_alone(kit: Kit, place: int) -> None:
    if kit.factory.url.startswith("memory"):
        pytest.skip("a store in memory holds what others cannot write")
    tasks = [kit.record() for _ in range(5)]
    definition = replace(tasks[place].definition, headers={"file": HALF})
    tasks[place] = Task(definition=definition, status=tasks[place].status)
    puts = [PutNote(NoteName("group", "s", str(i)), b"1", None) for i in range(5)]
    created = await create(kit, *zip(tasks, puts, strict=True))
    assert kinds(created) == [CreateKind.INVALID if i == place else CREATED for i in range(5)]
    assert await kit.store.notes([put.name for put in puts]) == [
        None if i == place else b"1" for i in range(5)
    ]


async def test_of_many_at_once_who_come_upon_one_note_one_has_it(kit: Kit) -> None:
    tasks = [kit.record() for _ in range(20)]
    created = await asyncio.gather(
        *(create(kit, (t, PutNote(A, t.id.encode(), None))) for t in tasks)
    )
    won = [t for t, (one,) in zip(tasks, created, strict=True) if one.kind is CREATED]
    assert len(won) == 1
    assert await there(kit, *tasks) == [task is won[0] for task in tasks]
    assert await kit.store.notes([A]) == [won[0].id.encode()]
