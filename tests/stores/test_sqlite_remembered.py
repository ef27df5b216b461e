"""What a SQLite store remembers between its transactions, until another process writes."""

import asyncio
from pathlib import Path

from tests.conformance.kit import Kit, opened

from andon.contract.outcomes import CreateKind
from andon.contract.topics import task_topic
from andon.lifecycle.commands import Complete, Delete
from andon.stores.sqlite import SqliteStore

PATIENCE_S = 60.0


def _url(folder: Path) -> str:
    return f"sqlite:///{folder / 'andon.db'}?synchronous=normal"


async def _ended_and_deleted(kit: Kit, task_id: str) -> None:
    """A task of that id was completed and deleted: what is left is its tombstone."""
    await kit.submit(task_id)
    (task,) = await kit.claim()
    done = await kit.moved(task, Complete(result=b"1"))
    await kit.move(done, Delete())


def test_two_stores_that_write_by_turns_give_each_task_a_place_of_its_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(_url(tmp_path)) as one, opened(_url(tmp_path)) as other:
            for number in range(3):
                await one.submit(f"a{number}")
                await one.submit(f"b{number}")
                await other.submit(f"c{number}")
            page = await one.read_events("")
            assert len({event.task for event in page.events}) == 9
            assert len(await other.claim(20)) == 9

    asyncio.run(main())


def test_a_tombstone_that_this_store_has_left_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(_url(tmp_path)) as kit:
            await kit.submit("other")  # it is known now that there is no tombstone
            await kit.claim()
            await _ended_and_deleted(kit, "gone")
            (created,) = await kit.create(kit.record("gone"))
            assert created.kind is CreateKind.EXISTS

    asyncio.run(main())


def test_a_tombstone_that_another_store_has_left_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(_url(tmp_path)) as one, opened(_url(tmp_path)) as other:
            await one.submit("waits", queue="elsewhere")
            await _ended_and_deleted(other, "gone")
            (created,) = await one.create(one.record("gone"))
            assert created.kind is CreateKind.EXISTS

    asyncio.run(main())


def test_who_waits_for_one_task_after_another_keeps_the_name_of_its_socket(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(_url(tmp_path)) as kit:
            names: set[str] = set()
            for number in range(3):
                with kit.store.listen([task_topic(f"task{number}")]):
                    names.add(_socket(kit))
                names.add(_socket(kit))
            assert len(names) == 1

    asyncio.run(main())


def test_who_was_woken_for_what_it_waits_for_no_more_is_not_woken_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(_url(tmp_path)) as waits, opened(_url(tmp_path)) as writes:
            before = _socket(waits)
            waits.store.listen([task_topic("task")]).close()
            assert _socket(waits) != before
            async with asyncio.timeout(PATIENCE_S):
                while _socket(waits) != before:
                    await writes.submit()
            with waits.store.listen([task_topic("task")]) as listener:
                await writes.submit("task")
                assert await listener.wait(PATIENCE_S)

    asyncio.run(main())


def _socket(kit: Kit) -> str:
    """The name of the store's socket, by which others know what to hint it of."""
    assert isinstance(kit.store, SqliteStore)
    wake = kit.store._wake
    assert wake is not None
    assert wake._mine is not None
    return wake._mine.name
