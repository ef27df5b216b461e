"""Full pages: a filter reaches the end, however many records that do not match stand before it."""

import pytest

from andon.contract.limits import MAX_BATCH, SCAN_BUDGET
from andon.contract.queries import Query
from andon.engine.paging import full_page

from .conftest import Shop

BEHIND = SCAN_BUDGET + MAX_BATCH


async def submit(shop: Shop, count: int, **fields: object) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        some = [shop.submission(**fields) for _ in range(min(MAX_BATCH, count - len(found)))]  # pyright: ignore[reportArgumentType]
        found += [outcome.id for outcome in await shop.engine.submit(some)]
        shop.clock.ms += 1
    return found


async def test_a_page_is_full_though_thousands_that_do_not_match_stand_between(shop: Shop) -> None:
    first = await submit(shop, 2, name="rare")
    await submit(shop, BEHIND)
    last = await submit(shop, 3, name="rare")
    asked_again: list[int] = []

    def goes_on(found: int) -> bool:
        asked_again.append(found)
        return True

    query = Query(name="rare", limit=4, newest_first=True)
    page = await full_page(shop.engine, query, goes_on=goes_on)
    assert {task.id for task in page.tasks[:3]} == set(last)
    assert page.tasks[3].id in first
    assert asked_again
    assert set(asked_again) == {3}
    query = Query(name="rare", limit=4, newest_first=True, cursor=page.cursor)
    rest = await full_page(shop.engine, query)
    assert [task.id for task in rest.tasks] == [i for i in first if i != page.tasks[3].id]
    assert not rest.cursor


async def test_a_page_ends_short_with_a_cursor_when_it_may_not_go_on(shop: Shop) -> None:
    await submit(shop, BEHIND)
    rare = await submit(shop, 1, name="rare")
    query = Query(name="rare", limit=1)
    page = await full_page(shop.engine, query, goes_on=lambda _: False)
    assert page.tasks == ()
    query = Query(name="rare", limit=1, cursor=page.cursor)
    assert [task.id for task in (await full_page(shop.engine, query)).tasks] == rare


@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_pages_of_what_is_kept_have_every_task_once(shop: Shop, limit: int) -> None:
    ids = sorted(await submit(shop, 40))
    wanted = set(ids[::3])
    found: list[str] = []
    cursor = ""
    while True:
        page = await full_page(
            shop.engine, Query(limit=limit, cursor=cursor), keep=lambda task: task.id in wanted
        )
        assert len(page.tasks) <= limit
        assert len(page.tasks) == limit or not page.cursor
        found += [task.id for task in page.tasks]
        cursor = page.cursor
        if not cursor:
            break
    assert sorted(found) == sorted(wanted)
    assert len(found) == len(set(found))
