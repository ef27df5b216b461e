"""A page of tasks, dead letters or not."""

import logging
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from andon.engine.bulk import found
from andon.engine.paging import full_page
from andon.lifecycle.rendering import document
from andon.model.errors import ConfigurationError
from andon.service.answers import TaskPage
from andon.service.calls import profile_named
from andon.service.lines import Lines, wants_lines
from andon.service.problems import invalid
from andon.service.selecting import Keep, checked_query

if TYPE_CHECKING:
    from andon.contract.queries import Query
    from andon.engine.base import Engine
    from andon.engine.filtering import Filters
    from andon.lifecycle.profiles import Profile
    from andon.model.task import Task
    from andon.service.calls import Call

PAGE = 100
"""Tasks on a page, where the client does not say how many."""

log = logging.getLogger("andon.service")

PATIENCE_S = 20.0
"""A page that takes longer to fill is returned short, with a cursor: the client, or a proxy in
between, may not wait longer."""


async def list_tasks(
    request: "Call",
    filters: "Filters",
    seen_as: str | None,
    *,
    limit: int | None,
    cursor: str,
    newest_first: bool | None,
    dead_letters: bool = False,
) -> TaskPage | Lines:
    """The page after the cursor; for a client that wants lines, everything after it."""
    profile, service = profile_named(seen_as), request.service
    request.need(f"tasks:read:{filters.queue or '*'}")
    query, keep = await checked_query(
        service.engine,
        filters,
        profile,
        dead_letters=dead_letters,
        newest_first=newest_first,
        limit=min(limit or PAGE, service.settings.max_page),
        cursor=cursor,
    )
    if wants_lines(request):
        return Lines(request, _pages(service.engine, query, keep, profile, limit))
    ends = time.monotonic() + PATIENCE_S
    try:
        page = await full_page(
            service.engine, query, keep=keep, goes_on=lambda _: time.monotonic() < ends
        )
    except ConfigurationError as error:
        raise invalid(str(error), field="cursor") from error
    now = service.engine.now()
    return TaskPage([shown_as(profile, task, now) for task in page.tasks], page.cursor)


async def _pages(
    engine: "Engine", query: "Query", keep: Keep, profile: "Profile", most: int | None
) -> AsyncIterator[list[dict[str, Any]]]:
    try:
        async for tasks in found(engine, query, keep=keep, most=most):
            yield [shown_as(profile, task, engine.now()) for task in tasks]
    except ConfigurationError as error:
        raise invalid(str(error), field="cursor") from error


def shown_as(profile: "Profile", task: "Task", now: int) -> dict[str, Any]:
    """The task; where its record is damaged so that it cannot be shown, as far as it can."""
    try:
        return document(profile, task, now=now)
    except Exception:
        log.exception("task %s cannot be shown", task.id)
        return {"id": task.id, "state": task.state.value, "name": task.definition.name}
