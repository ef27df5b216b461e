"""Reads for the page of dead letters."""

from typing import TYPE_CHECKING

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Page, Query
from andon.dashboard.patience import within
from andon.dashboard.reading_tasks import FIRST_LOOK_S, LOOK_S, for_a_moment, need_to_read
from andon.dashboard.views.letters import Letters
from andon.engine.letter_groups import LOOK, MOST_LOOKED
from andon.engine.paging import full_page
from andon.lifecycle.error_fingerprint import letter_fingerprint
from andon.lifecycle.letter_groups import merged

if TYPE_CHECKING:
    from andon.dashboard.access import Visitor
    from andon.dashboard.reading import Reader
    from andon.model.task import Task

_MOMENT_S = 0.02
"""How long a page may read at first. Its live fragments have a complete reading soon after."""


async def letters(reader: "Reader", queue: str) -> Letters:
    """The newest dead letters of a queue, or of all, as groups: as many as one reading has. After
    each part of the reading it lets visitors who wait for a page go first."""
    engine = await reader.engine()
    name = queue or None
    found = await within(engine.letter_groups(name, look=MAX_BATCH))
    for _ in range(LOOK // MAX_BATCH):
        if not found.cursor or found.looked >= LOOK:
            break
        await reader.give_way()
        part = min(MAX_BATCH, LOOK - found.looked)
        more = engine.letter_groups(name, look=part, cursor=found.cursor)
        found = merged(found, await within(more))
    return Letters(found=found, total=await total(reader, queue), now=engine.now(), queue=queue)


async def letters_of_a_moment(
    reader: "Reader", queue: str, visitor: "Visitor", *, looks_on: bool = False
) -> Letters:
    """The same, limited to a short time, as each letter's record is read to find its group; to a
    longer time if the visitor goes on."""
    need_to_read(visitor, queue)
    engine = await reader.engine()
    goes_on = for_a_moment(LOOK_S if looks_on else _MOMENT_S)
    name = queue or None
    found = await within(engine.letter_groups(name, look=MAX_BATCH))
    while found.cursor and found.looked < MOST_LOOKED and goes_on(found.looked):
        more = engine.letter_groups(name, look=MAX_BATCH, cursor=found.cursor)
        found = merged(found, await within(more))
    in_all = await total(reader, queue)
    return Letters(found=found, total=in_all, now=engine.now(), queue=queue, looks_on=looks_on)


def letters_query(queue: str, cursor: str = "") -> Query:
    """The query of dead letters, the newest first."""
    return Query(
        queue=queue or None, dead_letters=True, newest_first=True, limit=MAX_BATCH, cursor=cursor
    )


async def total(reader: "Reader", queue: str) -> int:
    """How many dead letters there are, by the store's counters."""
    return sum(
        stats.dead_letters
        for config, stats in await reader.queues()
        if not queue or config.name == queue
    )


def is_of(fingerprint: str, task: "Task") -> bool:
    """Whether a dead letter is of a group; if no group is named, whether it is a dead letter at
    all."""
    return not fingerprint or letter_fingerprint(task) == fingerprint


async def page_of(
    reader: "Reader", queue: str, fingerprint: str, cursor: str, *, visitor: "Visitor", limit: int
) -> Page:
    """A page of dead letters, of one group if one is named."""
    need_to_read(visitor, queue)
    engine = await reader.engine()
    query = msgspec.structs.replace(letters_query(queue, cursor), limit=limit)
    return await within(
        full_page(
            engine,
            query,
            keep=lambda task: is_of(fingerprint, task),
            goes_on=for_a_moment(LOOK_S if cursor else FIRST_LOOK_S),
        )
    )
