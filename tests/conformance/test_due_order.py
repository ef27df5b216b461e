"""Lists by due time: what waits for a time, the soonest first, each task once on its pages."""

import pytest

from andon.contract.queries import Query
from andon.lifecycle.commands import Cancel, Fail, Reschedule, RunNow
from andon.model.errors import ConfigurationError
from andon.model.task import TaskError
from andon.model.words import State

from .kit import Kit, ids

HOUR_MS = 3_600_000
SCHEDULED = (State.SCHEDULED,)


def in_an_hour(kit: Kit, beyond: int = 0) -> int:
    """A time that nothing in a test reaches."""
    return kit.store.now() // HOUR_MS * HOUR_MS + 2 * HOUR_MS + beyond


async def retrying(kit: Kit, task_id: str, delay: int) -> None:
    """A task that failed and waits so long."""
    task = await kit.active(task_id)
    failed = await kit.moved(task, Fail(error=TaskError("no"), retryable=True, delay=delay))
    assert failed.state is State.RETRY


async def test_what_is_scheduled_is_listed_by_due_time_or_the_newest_first(kit: Kit) -> None:
    base = in_an_hour(kit)
    for name, beyond in (("third", 30), ("first", 10), ("fourth", 40), ("second", 20)):
        await kit.submit(name, run_at=base + beyond)
        await kit.pass_time(2)
    await kit.submit("pending")
    expected = ["first", "second", "third", "fourth"]
    for limit in (1, 2, 100):
        assert await kit.find_all(states=SCHEDULED, due_first=True, limit=limit) == expected
    by_creation = ["third", "first", "fourth", "second"]
    assert await kit.find_all(states=SCHEDULED) == by_creation
    assert await kit.find_all(states=SCHEDULED, newest_first=True) == by_creation[::-1]


@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_tasks_that_are_due_at_the_same_time_come_once_each(kit: Kit, limit: int) -> None:
    base = in_an_hour(kit)
    alike = await kit.submit_many(9, run_at=base)
    later = await kit.submit_many(5, run_at=base + 1)
    sooner = await kit.submit("sooner", run_at=base - 1)
    found = await kit.find_all(states=SCHEDULED, due_first=True, limit=limit)
    assert found[0] == sooner.id
    assert sorted(found[1:10]) == sorted(ids(alike))
    assert sorted(found[10:]) == sorted(ids(later))


async def test_what_stays_is_found_once_while_others_come_and_go_between_pages(kit: Kit) -> None:
    base = in_an_hour(kit)
    tasks = [await kit.submit(f"t{n:02}", run_at=base + n) for n in range(12)]
    page = await kit.store.find(Query(states=SCHEDULED, due_first=True, limit=4))
    assert ids(page.tasks) == [f"t{n:02}" for n in range(4)]
    await kit.move(tasks[3], Cancel())  # the last of the page, where the next one begins
    await kit.move(tasks[5], Cancel())
    await kit.move(tasks[6], RunNow())
    await kit.move(tasks[11], Reschedule(run_at=base + 6))
    await kit.move(tasks[8], Reschedule(run_at=base - 1))  # to where the reader has been
    await kit.submit("before", run_at=base)
    await kit.submit("after", run_at=base + 100)
    rest = await kit.find_all_from(page.cursor, states=SCHEDULED, due_first=True, limit=2)
    assert rest == ["t04", "t11", "t07", "t09", "t10", "after"]


async def test_filters_hold_in_the_order_of_due_times(kit: Kit) -> None:
    base = in_an_hour(kit)
    await kit.submit("a", run_at=base + 3, queue="one", name="n", tags=("x",), key="k")
    await kit.submit("b", run_at=base + 2, queue="two", name="n", group="g")
    await kit.submit("c", run_at=base + 1, queue="one", name="m", tags=("x",))

    async def found(**asked: object) -> list[str]:
        return await kit.find_all(states=SCHEDULED, due_first=True, limit=1, **asked)

    assert await found() == ["c", "b", "a"]
    assert await found(queue="one") == ["c", "a"]
    assert await found(queue="two") == ["b"]
    assert await found(queue="nowhere") == []
    assert await found(name="n") == ["b", "a"]
    assert await found(tag="x") == ["c", "a"]
    assert await found(key="k") == ["a"]
    assert await found(group="g") == ["b"]


async def test_what_waits_in_retry_is_listed_among_what_is_scheduled(kit: Kit) -> None:
    now = kit.store.now()
    await retrying(kit, "r2", 2 * HOUR_MS)
    await kit.submit("s3", run_at=now + 3 * HOUR_MS)
    await retrying(kit, "r4", 4 * HOUR_MS)
    await kit.submit("s1", run_at=now + HOUR_MS)
    both = (State.RETRY, State.SCHEDULED)
    assert await kit.find_all(states=both, due_first=True, limit=1) == ["s1", "r2", "s3", "r4"]
    assert await kit.find_all(due_first=True) == ["s1", "r2", "s3", "r4"]
    assert await kit.find_all(states=(State.RETRY,), due_first=True) == ["r2", "r4"]


async def test_a_place_in_one_order_is_refused_in_the_other(kit: Kit) -> None:
    for n in range(3):
        await kit.submit(run_at=in_an_hour(kit, n))
    for order in (False, True):
        page = await kit.store.find(Query(states=SCHEDULED, due_first=order, limit=1))
        assert page.cursor
        with pytest.raises(ConfigurationError, match="not a cursor that this list gave"):
            await kit.store.find(
                Query(states=SCHEDULED, due_first=not order, limit=1, cursor=page.cursor)
            )


@pytest.mark.parametrize("cursor", ["d", "d:", "d1", "d1:", "dx:1", "d-1:1", "d" + "9" * 30 + ":1"])
async def test_what_is_no_place_is_refused(kit: Kit, cursor: str) -> None:
    with pytest.raises(ConfigurationError, match="not a cursor"):
        await kit.store.find(Query(states=SCHEDULED, due_first=True, cursor=cursor))
