"""Full pages: as many tasks as were asked for, or all there are.

A store looks at a bounded number of records a call (`SCAN_BUDGET`), so a page of its own may come
short, or empty, with more behind it. The reader of a list would take that for the end.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Page, Query
from andon.model.task import Task

_AT_ONCE = 1_000
"""Most tasks that one call is asked for: what a service gives."""


class Finds(Protocol):
    """The part of an `Engine` that finds tasks."""

    async def find(self, query: Query) -> Page:
        """A page of tasks, possibly short."""
        ...


async def full_page(
    engine: Finds,
    query: Query,
    *,
    keep: Callable[[Task], bool] | None = None,
    goes_on: Callable[[int], bool] | None = None,
    keeps_most: bool = False,
) -> Page:
    """A page of `query.limit` tasks; a shorter one is the last and has no cursor.

    `keep` narrows what the query finds; `keeps_most` if not by much, so that a call need not look
    for more than are wanted. `goes_on` is called with the number found so far each time that the
    store has to be asked again; False ends the page there, short and with a cursor.
    """
    found: list[Task] = []
    while True:
        most = query.limit - len(found)
        at_once = most if keep is None or keeps_most else max(most, MAX_BATCH)
        page = await _part(engine, query, most, keep, at_once)
        found += page.tasks
        ended = len(found) == query.limit or not page.cursor
        if ended or (goes_on is not None and not goes_on(len(found))):
            return Page(tuple(found), page.cursor)
        query = msgspec.structs.replace(query, cursor=page.cursor)
        await asyncio.sleep(0)  # a store in memory never waits, and others want to run


async def _part(
    engine: Finds, query: Query, most: int, keep: Callable[[Task], bool] | None, at_once: int
) -> Page:
    """The tasks of one call for `at_once`, of which at most `most` are kept."""
    limit = min(at_once, _AT_ONCE)
    while True:
        page = await engine.find(msgspec.structs.replace(query, limit=limit))
        kept = [task for task in page.tasks if keep is None or keep(task)]
        if len(kept) <= most:
            return Page(tuple(kept), page.cursor)
        # The cursor has to point behind the last task that is kept: only the store can make it.
        last = kept[most - 1]
        limit = next(i for i, task in enumerate(page.tasks, start=1) if task is last)
