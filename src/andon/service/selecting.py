"""Reads the filter of a request, so that an error names the field."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from andon.contract.queries import Query
from andon.engine.filtering import Filters, check_queue
from andon.engine.reading import ASKED, check_asked
from andon.model.errors import ConfigurationError
from andon.service.problems import invalid

if TYPE_CHECKING:
    from andon.engine.base import Engine
    from andon.lifecycle.profiles import Profile
    from andon.model.task import Task

Keep = Callable[["Task"], bool] | None
"""Which of the tasks found by its query a filter keeps; None: all."""


def state_names(states: str | None) -> tuple[str, ...]:
    """The names in a query parameter."""
    return () if states is None else tuple(states.split(","))


async def checked_query(
    engine: "Engine",
    filters: Filters,
    profile: "Profile",
    *,
    dead_letters: bool = False,
    newest_first: bool | None = False,
    limit: int = 100,
    cursor: str = "",
) -> tuple[Query, Keep]:
    """The query, in the order of a list (`Filters.listed`), and what it keeps. Raises
    `Problem` for a state or queue that does not exist."""
    try:
        query = filters.listed(
            profile,
            dead_letters=dead_letters,
            newest_first=newest_first,
            limit=limit,
            cursor=cursor,
        )
    except ConfigurationError as error:
        raise invalid(str(error), field="state") from error
    for field in ASKED:
        try:
            check_asked(getattr(query, field), field=field)
        except ConfigurationError as error:
            raise invalid(str(error), field=field) from error
    if filters.queue is not None:
        try:
            await check_queue(engine, filters.queue)
        except ConfigurationError as error:
            raise invalid(str(error), field="queue") from error
    return query, filters.keep(profile)
