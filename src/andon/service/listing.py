"""A page of tasks, dead letters or not."""

import logging
from typing import TYPE_CHECKING, Any

from andon.lifecycle.rendering import document
from andon.model.errors import ConfigurationError
from andon.service.answers import TaskPage
from andon.service.calls import profile_named
from andon.service.problems import invalid
from andon.service.selecting import checked_query

if TYPE_CHECKING:
    from andon.engine.filtering import Filters
    from andon.lifecycle.profiles import Profile
    from andon.model.task import Task
    from andon.service.calls import Call

log = logging.getLogger("andon.service")


async def list_tasks(
    request: "Call",
    filters: "Filters",
    seen_as: str | None,
    *,
    limit: int,
    cursor: str,
    newest_first: bool,
    dead_letters: bool = False,
) -> TaskPage:
    """The page after the cursor."""
    profile, service = profile_named(seen_as), request.service
    request.need(f"tasks:read:{filters.queue or '*'}")
    query, keep = await checked_query(
        service.engine,
        filters,
        profile,
        dead_letters=dead_letters,
        newest_first=newest_first,
        limit=min(limit, service.settings.max_page),
        cursor=cursor,
    )
    try:
        page = await service.engine.find(query)
    except ConfigurationError as error:
        raise invalid(str(error), field="cursor") from error
    found = (task for task in page.tasks if keep is None or keep(task))
    return TaskPage([_shown(profile, task, service.engine.now()) for task in found], page.cursor)


def _shown(profile: "Profile", task: "Task", now: int) -> dict[str, Any]:
    """The task; where its record is damaged so that it cannot be shown, as far as it can."""
    try:
        return document(profile, task, now=now)
    except Exception:
        log.exception("task %s cannot be shown", task.id)
        return {"id": task.id, "state": task.state.value, "name": task.definition.name}
