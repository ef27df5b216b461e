"""Lists over all queues: what one call looks at is bounded, whatever the number of queues."""

import pytest
from conformance.kit import Kit, ids
from servers.redis import RedisServer

from andon.contract.queries import Query
from andon.model.errors import ConfigurationError
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
