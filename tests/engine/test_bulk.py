"""Acting on every task that a query finds: once each, in pages, and with an end."""

from collections.abc import Sequence

import pytest

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.engine.base import ActionResult
from andon.engine.bulk import Tally, act_on_found, found
from andon.lifecycle.commands import Delete, Reprioritise
from andon.model.task import Task
from andon.model.words import State

from .conftest import Shop

MANY = MAX_BATCH + 50


async def submit_many(shop: Shop, count: int = MANY) -> list[str]:
    outcomes = await shop.engine.submit([shop.submission() for _ in range(count)])
    assert all(outcome.error is None for outcome in outcomes)
    return [outcome.id for outcome in outcomes]


async def test_every_task_is_acted_on_once_over_all_pages(shop: Shop) -> None:
    ids = await submit_many(shop)
    pages: list[int] = []
    seen: list[str] = []

    async def progress(tasks: Sequence[Task | None], acted: Sequence[ActionResult]) -> None:
        pages.append(len(tasks))
        seen.extend(one.id for one in acted)

    tally = await act_on_found(
        shop.engine,
        Query(states=(State.PENDING,)),
        shop.engine.cancel,
        progress=progress,
    )
    assert tally == Tally(found=MANY, changed=MANY)
    assert sorted(seen) == sorted(ids)
    assert max(pages) <= MAX_BATCH


async def test_tasks_that_stay_in_the_filter_are_met_once(shop: Shop) -> None:
    await submit_many(shop)
    query = Query(states=(State.PENDING,))
    tally = await act_on_found(
        shop.engine, query, lambda some: shop.engine.act(some, Reprioritise(priority=2))
    )
    assert tally == Tally(found=MANY, changed=MANY)


async def test_what_is_submitted_meanwhile_is_left_alone(shop: Shop) -> None:
    await submit_many(shop, 3)

    async def cancel_and_submit(some: Sequence[str]) -> list[ActionResult]:
        shop.clock.ms += 1
        await submit_many(shop, len(some))
        return await shop.engine.cancel(some)

    query = Query(states=(State.PENDING,))
    tally = await act_on_found(shop.engine, query, cancel_and_submit)
    assert tally.changed == 3
    assert len((await shop.engine.find(query)).tasks) == 3


async def test_a_dry_run_only_counts(shop: Shop) -> None:
    await submit_many(shop, 3)
    tally = await act_on_found(shop.engine, Query(), shop.engine.retry, dry_run=True)
    assert tally == Tally(found=3, unchanged=3)
    assert len((await shop.engine.find(Query(states=(State.PENDING,)))).tasks) == 3


async def test_refusals_hold_up_no_other(shop: Shop) -> None:
    await submit_many(shop, 2)
    await shop.engine.cancel([(await submit_many(shop, 1))[0]])
    tally = await act_on_found(shop.engine, Query(), lambda some: shop.engine.act(some, Delete()))
    assert tally == Tally(found=3, changed=1, refused=2)


@pytest.mark.parametrize("most", [1, MAX_BATCH, MAX_BATCH + 1])
async def test_most_is_a_bound(shop: Shop, most: int) -> None:
    await submit_many(shop)
    # Those created in one millisecond stand in any order that stays the same.
    all_ids = [task.id async for page in found(shop.engine, Query()) for task in page]
    pages = [page async for page in found(shop.engine, Query(), most=most)]
    assert [task.id for page in pages for task in page] == all_ids[:most]


async def test_keep_narrows_and_newest_first_is_kept(shop: Shop) -> None:
    ids = await submit_many(shop, 6)
    pages = found(
        shop.engine, Query(newest_first=True), keep=lambda task: task.id != ids[2], most=4
    )
    assert [task.id async for page in pages for task in page] == [ids[5], ids[4], ids[3], ids[1]]


async def test_acts_on_many_share_their_writes(shop: Shop) -> None:
    ids = await submit_many(shop, MAX_BATCH)
    batches: list[int] = []
    commit = shop.engine.store.commit

    async def counted(changes: Sequence[object]) -> list[object]:
        batches.append(len(changes))
        return await commit(changes)  # type: ignore[arg-type]

    shop.engine._runs.commits._flush = counted  # type: ignore[assignment]
    await shop.engine.cancel([*ids, ids[0]])
    assert sum(batches) <= MAX_BATCH + 1
    assert len(batches) <= 3
