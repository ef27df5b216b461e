"""What the page of dead letters reads."""

from typing import TYPE_CHECKING

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Page, Query
from andon.dashboard.patience import within
from andon.dashboard.reading_tasks import FIRST_LOOK_S, LOOK_S, for_a_moment, need_to_read
from andon.dashboard.views.letters import Letters
from andon.engine.paging import full_page
from andon.lifecycle.error_fingerprint import letter_fingerprint

if TYPE_CHECKING:
    from andon.dashboard.access import Visitor
    from andon.dashboard.reading import Reader
    from andon.model.task import Task


async def letters(reader: "Reader", queue: str, visitor: "Visitor | None" = None) -> Letters:
    """The newest dead letters of a queue, or of all, as groups."""
    if visitor is not None:
        need_to_read(visitor, queue)
    engine = await reader.engine()
    found = await within(engine.letter_groups(queue or None))
    total_now = await total(reader, queue)
    return Letters(found=found, total=total_now, now=engine.now(), queue=queue)


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
    """Whether a dead letter is of a group; of no group named, whether it is one at all."""
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
