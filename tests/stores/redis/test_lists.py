"""Lists over all queues: what one call looks at is bounded, whatever the number of queues."""

import msgspec
import pytest
from conformance.kit import Kit, ids
from servers.redis import RedisServer

from andon.contract.queries import Query
from andon.lifecycle.commands import Complete, Delete, Fail, Rerun
from andon.model.errors import ConfigurationError
from andon.model.headers import FLOW_TAG
from andon.model.task import TaskError
from andon.model.words import State
from andon.stores.redis import reading

from .conftest import OpenKit, Start
from .test_due import calls_of

HOUR_MS = 3_600_000
LISTS = 60


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call looks at few lists."""
    monkeypatch.setattr(reading, "MOST_LISTS", LISTS)


async def fill(kit: Kit, queues: int) -> list[str]:
    made = [await kit.submit(f"t{n:03}", queue=f"q{n % 90:03}.{n:03}") for n in range(queues)]
    return ids(made)


def looks(server: RedisServer) -> int:
    """Lists looked at so far."""
    return calls_of(server, "zrangebyscore") + calls_of(server, "zrevrangebyscore")


@pytest.mark.parametrize("newest", [False, True])
async def test_all_queues_are_listed_by_groups_each_task_once(
    few: None, shared: RedisServer, open_kit: OpenKit, newest: bool
) -> None:
    kit = await open_kit(shared.url(f"lists{newest:d}"))
    made = await fill(kit, 150)
    for limit in (7, 100):
        for states in ((State.PENDING,), ()):
            found = await kit.find_all(newest_first=newest, limit=limit, states=states)
            assert sorted(found) == made
            assert len(set(found)) == len(found)


async def test_a_call_looks_at_no_more_lists_with_many_queues_than_with_some(
    few: None, start: Start, open_kit: OpenKit
) -> None:
    server = start()
    kit = await open_kit(server.url("bounded"))
    counts: list[int] = []
    for queues in (LISTS + 1, 4 * LISTS):
        await fill(kit, queues) if not counts else await more(kit, LISTS + 1, queues)
        before = looks(server)
        page = await kit.store.find(Query(states=(State.PENDING,), limit=10))
        assert len(page.tasks) == 10
        counts.append(looks(server) - before)
    assert counts[1] <= counts[0] <= 3 * LISTS


async def more(kit: Kit, since: int, upto: int) -> None:
    for n in range(since, upto):
        await kit.submit(f"t{n:03}", queue=f"r{n:03}")


async def test_few_queues_are_listed_in_one_order(
    few: None, shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("listsfew"))
    for name in ("b", "c", "a"):
        await kit.submit(name, queue=f"q{name}")
        await kit.pass_time(2)
    assert await kit.find_all(states=(State.PENDING,), limit=1) == ["b", "c", "a"]


async def test_due_times_of_many_queues_are_listed_by_groups(
    few: None, shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("listsdue"))
    base = kit.store.now() + HOUR_MS
    for n in range(100):
        await kit.submit(f"t{n:03}", queue=f"q{n:03}", run_at=base + n)
    found = await kit.find_all(states=(State.SCHEDULED,), due_first=True, limit=9)
    assert found == [f"t{n:03}" for n in range(100)]


@pytest.mark.parametrize("cursor", ["@", "@a", "@a@b", "@b@a@", "@a@b@c", "@a@b@1:x@"])
async def test_what_is_no_place_in_a_group_is_refused(
    shared: RedisServer, open_kit: OpenKit, cursor: str
) -> None:
    kit = await open_kit(shared.url("listsbad"))
    with pytest.raises(ConfigurationError, match="not a cursor"):
        await kit.store.find(Query(cursor=cursor))


@pytest.mark.parametrize("partitions", [1, 3])
async def test_failures_and_flows_of_an_older_release_are_found_by_name(
    shared: RedisServer, open_kit: OpenKit, partitions: int
) -> None:
    name = f"unlisted{partitions}"
    url = f"{shared.url(name)}&partitions={partitions}"
    kit = await open_kit(url)
    final = Fail(error=TaskError(message="no"), retryable=False)
    failed = await kit.moved(await kit.active("failed", name="mine"), final)
    await kit.moved(await kit.active("other"), final)
    for flow in ("one", "two"):
        await kit.submit(f"{flow}:0", tags=(FLOW_TAG,), group=flow, queue=flow)
        await kit.submit(f"{flow}:1", group=flow)
    (running,) = await kit.claim(queues=("one",))
    for key in shared.keys(name):
        if ":list:" in key:
            shared.ask("DEL", key)
        elif ":task:" in key:
            entry = msgspec.msgpack.decode(shared.ask("HGET", key, "x"))
            shared.ask("HSET", key, "x", msgspec.msgpack.encode(entry[:-1]))
        elif key.endswith(":meta"):
            shared.ask("HSET", key, "min_writer", "2")
    again = await open_kit(url)
    asked = Query(name="mine", states=(State.FAILED,))
    assert ids((await again.store.find(asked)).tasks) == ["failed"]
    assert sorted(await again.find_all(tag=FLOW_TAG)) == ["one:0", "two:0"]
    for task in (failed, running):
        await again.move(task, Rerun() if task is failed else Complete(result=b"1"))
    assert (await again.store.find(asked)).tasks == ()
    await again.move(await again.there("one:0"), Delete())
    assert await again.find_all(tag=FLOW_TAG) == ["two:0"]
    assert not any(
        shared.ask("HGET", f"{{{name}:{p}}}:meta", "unlisted") for p in range(partitions)
    )
