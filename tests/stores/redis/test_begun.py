"""Tasks by how their ids begin, or whatever they are: found in order, each once, and no call looks
at more than a bounded number of ids, however many there are."""

from collections.abc import Sequence

import pytest
from conformance.kit import Kit, ids
from servers import Servers
from servers.redis import RedisServer

from andon.contract.queries import Query
from andon.lifecycle.commands import Cancel
from andon.model.task import Task
from andon.model.words import State
from andon.stores.redis import reading
from andon.stores.redis.partitions import Partitions

from .conftest import OpenKit


async def fill(kit: Kit) -> list[Task]:
    """Tasks of three queues and two states, many of them of one millisecond."""
    made: list[Task] = []
    for turn in range(5):
        some = [
            kit.record(
                f"{'ab'[n % 2]}-{turn}-{n * 7 % 40:02}",
                queue="q1" if n % 5 else f"q{n % 3}",
                write_id=f"turn-{turn}",
            )
            for n in range(40)
        ]
        await kit.create(*some)
        made += some
        if turn % 2:
            await kit.pass_time(2)
    for task in made[::9]:
        await kit.move(task, Cancel())
    return sorted(made, key=lambda task: (task.status.created_at, task.id))


async def check_all(kit: Kit, made: list[Task]) -> None:
    in_q1 = {task.id for task in made if task.definition.queue == "q1"}
    gone = {task.id for task in made if (await kit.there(task.id)).state == "cancelled"}
    for newest in (False, True):
        for begin in ("a", "b-3", "a-1-0", "b-4-35", "nobody"):
            expected = [one for one in ids(made) if one.startswith(begin)]
            expected = expected[::-1] if newest else expected
            for limit in (1, 3, 100):
                found = await kit.find_all(id_prefix=begin, newest_first=newest, limit=limit)
                assert found == expected, (begin, newest, limit)
            queued = await kit.find_all(id_prefix=begin, newest_first=newest, queue="q1", limit=4)
            assert queued == [one for one in expected if one in in_q1]
            cancelled = await kit.find_all(
                id_prefix=begin, newest_first=newest, states=(State.CANCELLED,), limit=2
            )
            assert cancelled == [one for one in expected if one in gone]
        in_order = ids(made)[::-1] if newest else ids(made)
        for limit in (1, 3, 100):  # however they begin
            assert await kit.find_all(newest_first=newest, limit=limit) == in_order, limit
            queued = await kit.find_all(newest_first=newest, queue="q1", limit=limit)
            assert queued == [one for one in in_order if one in in_q1], limit
            cancelled = await kit.find_all(
                newest_first=newest, states=(State.CANCELLED,), limit=limit
            )
            assert cancelled == [one for one in in_order if one in gone], limit


@pytest.mark.parametrize("bounds", [(4_000, 20_000, 200), (7, 30, 4)])
async def test_pages_have_all_in_order_and_each_once(
    shared: RedisServer,
    open_kit: OpenKit,
    monkeypatch: pytest.MonkeyPatch,
    bounds: tuple[int, int, int],
) -> None:
    at_once, most, lists = bounds
    monkeypatch.setattr(reading, "_IDS_AT_ONCE", at_once)
    monkeypatch.setattr(reading, "MOST_IDS", most)
    monkeypatch.setattr(reading, "LISTS_AT_ONCE", lists)
    kit = await open_kit(shared.url(f"begun{at_once}"))
    await check_all(kit, await fill(kit))


async def test_so_it_is_across_the_partitions_of_a_cluster(
    servers: Servers, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_IDS_AT_ONCE", 5)
    monkeypatch.setattr(reading, "MOST_IDS", 40)
    url = servers.fresh_url("redis-cluster", None)  # type: ignore[arg-type]
    kit = await open_kit(url)
    await check_all(kit, await fill(kit))


async def test_a_call_ends_after_so_many_ids_and_says_where_to_go_on(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_IDS_AT_ONCE", 20)
    monkeypatch.setattr(reading, "MOST_IDS", 60)
    kit = await open_kit(shared.url("begun-bounded"))
    for turn in range(5):
        await kit.create(*(kit.record(f"t-{turn}-{n:03}") for n in range(200)))
    await kit.submit("needle")
    calls = 0
    cursor = ""
    found: list[str] = []
    while calls == 0 or cursor:
        page = await kit.store.find(Query(id_prefix="needle", cursor=cursor))
        assert page.cursor != cursor
        cursor, calls = page.cursor, calls + 1
        found += ids(page.tasks)
    assert found == ["needle"]
    assert 1_000 / 80 <= calls <= 1_000 / 30  # more than its share only by the first of each list


async def test_a_page_reads_few_more_records_than_it_has(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    kit = await open_kit(shared.url("begun-read"))
    await fill(kit)
    get = reading.read

    async def counted(at: Partitions, wanted: Sequence[str]) -> list[Task | None]:
        read.append(len(wanted))
        return await get(at, wanted)

    monkeypatch.setattr(reading, "read", counted)
    page = await kit.store.find(Query(limit=50))
    assert len(page.tasks) == 50
    assert read[0] == 51  # one more, to know whether there are more
    assert sum(read) < 80
    assert page.cursor


async def test_a_page_that_is_full_looks_no_further(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    kit = await open_kit(shared.url("begun-full"))
    await kit.create(*(kit.record(f"t-{n:03}") for n in range(150)))
    begun = reading._next_places  # pyright: ignore[reportPrivateUsage]

    async def counted(*args: object, **options: object) -> object:
        asked.append("")
        return await begun(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "_next_places", counted)
    page = await kit.store.find(Query(id_prefix="t-", limit=3))
    assert (len(page.tasks), len(asked)) == (3, 1)
    assert page.cursor
