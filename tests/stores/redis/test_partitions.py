"""What holds across the partitions of a cluster, each of which is a slot of its own."""

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from conformance.kit import PATIENCE_S, ids
from servers import Servers
from servers.redis import RedisCluster, RedisServer

from andon.contract.outcomes import ChangeKind, CreateKind
from andon.contract.store import Store
from andon.lifecycle.commands import Cancel, Complete
from andon.lifecycle.unique import UNWRITTEN_MS

from .conftest import OpenKit

if TYPE_CHECKING:
    from andon.model.task import Task


@pytest.fixture
def url(servers: Servers) -> str:
    cluster = servers.running("redis-cluster")
    assert isinstance(cluster, RedisCluster)
    return servers.fresh_url("redis-cluster", None)  # type: ignore[arg-type]


async def test_tasks_are_spread_over_the_nodes(
    url: str, open_kit: OpenKit, servers: Servers
) -> None:
    kit = await open_kit(url)
    tasks = await kit.submit_many(100)
    cluster = servers.running("redis-cluster")
    assert isinstance(cluster, RedisCluster)
    held = [int(master.ask("DBSIZE")) for master in cluster.masters]
    assert min(held) > 0
    assert sorted(ids(await kit.claim(limit=200))) == sorted(ids(tasks))


@pytest.mark.parametrize(("limit", "key"), [("max_concurrent", None), ("per key", "k")])
async def test_a_limit_is_never_exceeded_and_always_used_up_in_the_end(
    url: str, open_kit: OpenKit, limit: str, key: str | None
) -> None:
    kit = await open_kit(url)
    stores = [kit.store, await kit.again(), await kit.again()]
    most = 3
    name = "max_concurrent" if key is None else "max_concurrent_per_key"
    await kit.configure(**{name: most})
    tasks = await kit.submit_many(60, key=key)
    running = 0
    highest = 0
    done: Counter[str] = Counter()

    async def work(store: Store) -> None:
        nonlocal running, highest
        while len(done) < len(tasks):
            claimed = await kit.claim_from(store, 2)
            running += len(claimed)
            highest = max(highest, running)
            for task in claimed:
                await asyncio.sleep(0)
                running -= 1  # before the store knows, so that what is counted here is no more
                changed = await kit.try_move(task, Complete())
                assert changed.kind is ChangeKind.APPLIED
                done[task.id] += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(store) for store in stores))
    assert highest <= most, limit
    assert set(done.values()) == {1}
    await kit.submit_many(20, key=key)

    claimed = await kit.claim(limit=1)

    async def used_up() -> bool:
        claimed.extend(await kit.claim(limit=20))
        return len(claimed) == most

    await kit.until(used_up)
    assert await kit.claim(limit=20) == []


async def test_a_unique_key_has_one_holder_however_many_ask_at_once(
    url: str, open_kit: OpenKit
) -> None:
    kit = await open_kit(url)
    stores = [kit.store, await kit.again(), await kit.again()]
    for turn in range(10):
        outcomes = await asyncio.gather(
            *(store.create([kit.record(unique_key=f"u{turn}")]) for store in stores * 3)
        )
        kinds = Counter(created.kind for (created,) in outcomes)
        assert kinds == {CreateKind.CREATED: 1, CreateKind.KEY_HELD: 8}


async def test_a_key_reserved_by_a_process_that_died_is_free_after_a_while(
    url: str, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = await open_kit(url)
    at = kit.store._at  # type: ignore[attr-defined]
    reserved = await at.run("reserve", at.of("u"), [("u", None, "never-written", None)])
    assert reserved[1] == b""
    (refused,) = await kit.create(kit.record(unique_key="u"))
    assert (refused.kind, refused.holder) == (CreateKind.KEY_HELD, "never-written")
    assert UNWRITTEN_MS > 0
    monkeypatch.setattr("andon.stores.redis.reserving.UNWRITTEN_MS", 0)
    (created,) = await kit.create(kit.record(unique_key="u"))
    assert created.kind is CreateKind.CREATED


async def test_a_key_left_behind_by_an_ended_task_is_taken_over(
    url: str, open_kit: OpenKit
) -> None:
    kit = await open_kit(url)
    old = await kit.submit(unique_key="u")
    await kit.move(old, Cancel())
    at = kit.store._at  # type: ignore[attr-defined]
    await at.run("reserve", at.of("u"), [("u", None, old.id, None)])  # as before a crash
    (created,) = await kit.create(kit.record(unique_key="u"))
    assert created.kind is CreateKind.CREATED


async def test_keys_that_are_full_elsewhere_hide_no_other_key(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    """More keys than one claim asks for, each with its run in one partition and a task that waits
    in the other."""
    kit = await open_kit(shared.url("full-keys") + "&partitions=2")
    await kit.configure(max_concurrent_per_key=1)
    there: dict[int, list[Task]] = {0: [], 1: []}
    for i in range(130):
        for partition in (0, 1):
            record = kit.record(key=f"key-{i}")
            while kit.store.partition_of(record.id) != partition:
                record = kit.record(key=f"key-{i}")
            there[partition].append(record)
    await kit.create(*there[0])
    request = kit.request(limit=200, partition=0)
    assert len(await kit.store.claim(request)) == 130
    await kit.create(*there[1])
    fresh = kit.record(key="another")
    while kit.store.partition_of(fresh.id) != 1:
        fresh = kit.record(key="another")
    await kit.create(fresh)
    assert ids(await kit.store.claim(kit.request(limit=5, partition=1))) == [fresh.id]
    assert await kit.store.claim(kit.request(limit=5, partition=1)) == []
    ended = await kit.there(there[0][0].id)
    await kit.moved(ended, Complete())
    claimed: list[Task] = []
    for _ in range(100):  # a full key is looked at again after a second
        claimed = claimed or await kit.store.claim(kit.request(limit=5, partition=1))
        await asyncio.sleep(0 if claimed else PATIENCE_S / 100)
    assert ids(claimed) == [there[1][0].id]
