"""Reads by names that come from users: names that no task can have are answered here, because not
every store can be asked for them."""

from collections.abc import Sequence

from andon.contract.limits import in_batches
from andon.contract.queries import Query
from andon.contract.query_filter import check_order
from andon.contract.store import Store
from andon.lifecycle.admission import MOST_TEXT, check_given, check_text, is_id
from andon.lifecycle.daily import KEPT_DAYS, first_day, histories
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import QueueHistory
from andon.model.task import Task

MOST_CURSOR = 64 * 1024
"""Characters of a place in the event log, which has a part for each partition."""

MOST_PAGE = 1_000
"""Entries of one page, where a page is exact."""

ASKED = ("queue", "name", "tag", "key", "group", "worker", "id_prefix", "cursor")
"""The texts of a query."""


async def records(store: Store, ids: Sequence[str]) -> list[Task | None]:
    """Records; None where there is none, and for a text that cannot be an id."""
    for task_id in ids:
        if not is_id(task_id):
            break
    else:
        return await store.get(ids)
    good = [task_id for task_id in ids if is_id(task_id)]
    found = iter(await store.get(good) if good else ())
    return [next(found) if is_id(task_id) else None for task_id in ids]


async def absent(store: Store, ids: Sequence[str]) -> set[str]:
    """Those of which there is no task, and no trace."""
    gone: set[str] = set()
    for some in in_batches(ids):
        states = await store.states(some)
        gone.update(i for i, state in zip(some, states, strict=True) if state is None)
    return gone


async def queue_histories(store: Store, queue: str | None, days: int) -> list[QueueHistory]:
    """The daily history of a queue, or of each, on the last `days` days. Raises
    `ConfigurationError` for a number of days that there is no history of."""
    check_days(days)
    if queue is not None:
        check_asked(queue, field="queue")
    now = store.now()
    names = [queue] if queue is not None else [config.name for config in await store.queues()]
    return histories(await store.tallies(queue, first_day(now, days)), names, now, days)


def check_days(days: int) -> None:
    """Raise `ConfigurationError` for a number of days that there is no history of."""
    if not 1 <= days <= KEPT_DAYS:
        raise ConfigurationError(
            f"The history of a queue has 1 to {KEPT_DAYS} days, not {days}: older ones are dropped."
        )


def check_page(limit: int) -> None:
    """Raise `InvalidSubmission` for a number of entries that no page can have."""
    if not 1 <= limit <= MOST_PAGE:
        raise InvalidSubmission(f"limit is 1 to {MOST_PAGE:,}, not {limit:,}.", field="limit")


def check_query(query: Query) -> None:
    """Raise `ConfigurationError` for a text that not every store can be asked for, and for an order
    that there is none of."""
    for field in ASKED:
        check_asked(getattr(query, field), field=field)
    check_order(query)


def check_asked(text: str | None, *, field: str, most: int = MOST_TEXT) -> None:
    """The same of one text; None is not given. Only a cursor may be empty (docs/rulings.md,
    R35)."""
    if text is None:
        return
    try:
        if field != "cursor":
            check_given(text, field=field)
        check_text(text, field=field, most=most)
    except InvalidSubmission as error:
        raise ConfigurationError(str(error)) from None
