"""Groups dead letters by their errors: reads a bounded number of the newest, and says so in the
answer.

No store keeps an index of fingerprints: it would cost each dead letter a write, and each release
that knows another pattern a new one. A look walks the index of dead letters, newest task first.
"""

import logging

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Page, Query
from andon.engine.bulk import Finds
from andon.lifecycle.letter_groups import Grouping
from andon.model.errors import ConfigurationError
from andon.model.letters import LetterGroups
from andon.model.task import Task

log = logging.getLogger("andon.engine")

LOOK = 2_000
"""How many dead letters a look reads by default."""

MOST_LOOKED = 10_000


async def letter_groups(
    engine: Finds, *, queue: str | None, name: str | None, look: int, cursor: str
) -> LetterGroups:
    """The groups of the newest dead letters, or of those after a cursor. Raises
    `ConfigurationError` for a look that is not 1 to 10,000."""
    check_look(look)
    grouping = Grouping()
    query = Query(
        dead_letters=True, queue=queue, name=name, newest_first=True, cursor=cursor, limit=MAX_BATCH
    )
    pages = 0
    while True:
        query = msgspec.structs.replace(query, limit=min(MAX_BATCH, look - grouping.looked))
        page: Page = await engine.find(query)
        for task in page.tasks:
            _add(grouping, task)
        pages += 1
        ends = not page.cursor or grouping.looked >= look or pages > look // MAX_BATCH + 1
        if ends:
            return grouping.groups(page.cursor)
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _add(grouping: Grouping, task: Task) -> None:
    try:
        grouping.add(task)
    except Exception as error:  # an error of this one only: the others are grouped
        log.warning("Dead letter %s is in no group: %r", task.id, error)


def check_look(look: int) -> None:
    """Raise `ConfigurationError` for a look that is not 1 to 10,000."""
    if not 1 <= look <= MOST_LOOKED:
        raise ConfigurationError(f"A look has 1 to {MOST_LOOKED:,} dead letters, not {look}.")
