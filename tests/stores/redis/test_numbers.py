"""The numbers of tasks, which decide between those that are equal in a lane."""

from conformance.kit import Kit, ids
from servers.redis import RedisServer

from andon.lifecycle.commands import Complete
from andon.lifecycle.daily import Tally, day_of

from .conftest import OpenKit
from .test_plain import NOW, Standing


async def test_tasks_of_a_millisecond_are_claimed_in_the_order_they_came(
    shared: RedisServer,
) -> None:
    kit = Kit(Standing(shared.url("inorder"), shared=True, durable=True))
    await kit.open()
    try:
        await kit.create(kit.record("z"))  # by itself
        await kit.create(kit.record("y"), kit.record("x"))  # in a batch
        await kit.create(kit.record("w", key="a key"))  # not by a fast path
        await kit.create(kit.record("other", queue="other"))
        await kit.create(kit.record("v"))
        await kit.create(kit.record("u", key="a key"), kit.record("t"), kit.record("z"))
        await kit.create(kit.record("s"), kit.record("r", name="another"), kit.record("q"))
        assert ids(await kit.claim(limit=20)) == ["z", "y", "x", "w", "v", "u", "t", "s", "r", "q"]
    finally:
        await kit.close()


async def test_a_number_is_the_day_and_how_many_came_on_it(shared: RedisServer) -> None:
    kit = Kit(Standing(shared.url("numbered"), shared=True, durable=True))
    await kit.open()
    try:
        await kit.create(kit.record("one"))
        await kit.create(kit.record("two"), kit.record("three", name="another"))
        await kit.create(kit.record("four", group="a group"))
        for place, task_id in enumerate(("one", "two", "three", "four"), 1):
            version = shared.ask("HGET", f"{{numbered:0}}:task:{task_id}", "v").decode()
            assert version.split(" ")[2] == f"{day_of(NOW) % 4096:03X}{place:09X}"
        (counted,) = await kit.store.tallies(None, day_of(NOW))
        assert (counted.tally, counted.count) == (Tally.SUBMITTED, 4)
    finally:
        await kit.close()


async def test_tasks_of_an_older_release_come_before_those_of_the_same_millisecond(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    name, prefix = "decimal", "{decimal:0}:"
    before = Kit(Standing(shared.url(name), shared=True, durable=True))
    await before.open()
    try:
        await before.create(before.record("z"), before.record("y"))
    finally:
        await before.close()
    lane = prefix + "ready:default|job"
    for number, task_id in enumerate(("z", "y"), 1):
        version = shared.ask("HGET", f"{prefix}task:{task_id}", "v").decode().split(" ")
        member = version[2] + task_id
        score = shared.ask("ZSCORE", lane, member)
        version[2] = f"{number:012d}"
        shared.ask("HSET", f"{prefix}task:{task_id}", "v", " ".join(version))
        shared.ask("ZREM", lane, member)
        shared.ask("ZADD", lane, score, version[2] + task_id)
    shared.ask("HSET", prefix + "meta", "min_writer", "3")
    kit = Kit(Standing(shared.url(name), shared=True, durable=True))
    await kit.open()
    try:
        assert shared.ask("HGET", prefix + "meta", "min_writer") == b"4"
        await kit.create(kit.record("x"))
        claimed = await kit.claim(limit=9)
        assert ids(claimed) == ["z", "y", "x"]
        for task in claimed:
            await kit.moved(task, Complete(result=b"1"))
    finally:
        await kit.close()
