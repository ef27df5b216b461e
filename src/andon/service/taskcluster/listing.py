"""A page of tasks with their status, of any list that the engine gives in pages of its own."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.task import Task
from andon.service.taskcluster.answers import task_and_status
from andon.service.taskcluster.asked import Asked
from andon.service.taskcluster.errors import input_error
from andon.service.taskcluster.paging import token_for
from andon.service.taskcluster.reading import MOST_BYTES

_AT_ONCE = 100

Read = Callable[[str, int], Awaitable[tuple[Sequence[Task], str]]]
"""Reads up to so many tasks from a place on: the tasks, and the place after them; empty at the
end."""


Row = Callable[[Task], dict[str, Any] | None]
"""A task as a row of a list; None: it is left out."""


async def page_of(
    listed: str, asked: Asked, read: Read, row_of: Row = task_and_status
) -> tuple[list[dict[str, Any]], str | None]:
    """The rows that were asked for, and the token that leads to the next; None if there is none.

    Tasks are read some at a time, and a page ends early where their documents come to `MOST_BYTES`.
    Records that are no tasks of the face are left out. Raises `ApiError` (400) for a token that is
    not of this list.
    """
    place, most = asked.place(listed), asked.rows()
    rows: list[dict[str, Any]] = []
    size = 0
    while True:
        tasks, place = await _read(read, place, min(_AT_ONCE, most - len(rows)))
        for task in tasks:
            row = row_of(task)
            if row is not None:
                rows.append(row)
                size += len(task.definition.args)
        if not place or len(rows) >= most or size >= MOST_BYTES:
            break
    return rows, token_for(listed, place) if await _is_more(read, place, row_of) else None


async def _is_more(read: Read, place: str, row_of: Row) -> bool:
    """Whether there is another row from this place on: a token leads to one at least."""
    while place:
        tasks, place = await _read(read, place, 1)
        if any(row_of(task) is not None for task in tasks):
            return True
    return False


async def _read(read: Read, place: str, limit: int) -> tuple[Sequence[Task], str]:
    try:
        return await read(place, limit)
    except (ConfigurationError, InvalidSubmission) as error:
        raise input_error(f"continuationToken is none of this list: {error}") from None
