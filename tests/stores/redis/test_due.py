"""Lists by due time beside a release that does not know them: put right when they are read."""

from conformance.kit import Kit, ids
from servers.redis import RedisServer

from andon.contract.queries import Query
from andon.lifecycle.commands import Cancel
from andon.model.words import State

from .conftest import OpenKit

HOUR_MS = 3_600_000
MANY = 500
"""More than one script puts right."""


async def listed(kit: Kit) -> list[str]:
    return await kit.find_all(states=(State.SCHEDULED,), due_first=True, limit=200)


async def test_a_list_that_was_not_kept_is_put_right_by_who_reads_it(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("due1"))
    base = kit.store.now() + HOUR_MS
    made = [kit.record(f"t{n:03}", run_at=base + n) for n in range(MANY)]
    for start in range(0, MANY, 100):
        await kit.create(*made[start : start + 100])
    due = "{due1:0}:due:default|scheduled"
    shared.ask("DEL", due)  # as if all had been stored by the older release
    assert await listed(kit) == ids(made)

    # It runs one, of which an entry stays, and stores another, of which there is none.
    shared.ask("ZADD", due, base - 1, "gone")
    await kit.move(made[3], Cancel())
    shared.ask("ZADD", due, base + 3, made[3].id)
    expected = [task.id for task in made if task is not made[3]]
    assert await listed(kit) == expected
    assert shared.ask("ZCARD", due) == len(expected)


async def test_a_list_by_due_time_that_is_right_is_not_looked_through(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("due2"))
    base = kit.store.now() + HOUR_MS
    await kit.submit_many(50, run_at=base)
    page = Query(states=(State.SCHEDULED,), due_first=True, limit=5, queue="default")
    await kit.store.find(page)
    before = calls_of(shared, "zscan")
    assert len((await kit.store.find(page)).tasks) == 5
    assert calls_of(shared, "zscan") == before


def calls_of(server: RedisServer, command: str) -> int:
    """How often the server has run a command."""
    for line in server.ask("INFO", "commandstats").decode().splitlines():
        name, _, told = line.partition(":")
        if name == f"cmdstat_{command}":
            return int(dict(part.split("=") for part in told.split(","))["calls"])
    return 0
