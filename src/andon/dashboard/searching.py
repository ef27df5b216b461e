"""Finds out what a searched text is: the id of a task, the beginning of ids, a name, key, group or
tag.

Fields with an index are asked at once. For the rest tasks are searched: for a moment while a page
waits for it, then repeatedly while the page has viewers.
"""

import asyncio
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.dashboard.patience import within
from andon.dashboard.reading_tasks import FIRST_LOOK_S, for_a_moment, need_to_read
from andon.dashboard.views.search import Sought
from andon.dashboard.views.tasks import TaskFilter
from andon.model.errors import ConfigurationError
from andon.model.words import DEAD_LETTER_STATES, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from andon.dashboard.access import Visitor
    from andon.dashboard.reading import Reader
    from andon.engine.base import Engine

FAILURES = tuple(state for state in State if state in DEAD_LETTER_STATES)
"""The states of tasks that have not ended well."""

_AT_ONCE = ("id", "failures", "key", "group", "tag")
"""What a text may be and is asked at once, the likeliest first. Every store has lists of all but
the beginnings of ids, and most have an index of those."""

LOOK_S = 0.5
"""How long one reading may search."""


async def search(
    reader: "Reader", text: str, visitor: "Visitor", seconds: float = FIRST_LOOK_S
) -> Sought:
    """What a text is, as far as a search of that time finds. Raises `Refused` if the visitor may
    not search for it."""
    engine = await reader.engine()
    [task] = await within(engine.get([text]))
    if task is not None:
        return Sought(text=text, is_task=True)
    need_to_read(visitor, "")
    return await Search(text).read(reader, for_a_moment(seconds))


class Search:
    """Looks for the tasks that have a text, a part each time it is read.

    `_left` has the fields that one call may not have searched completely, and where to go on."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = ""
        self._is_begun = False
        self._left: dict[str, str] = {"name": "", "id": ""}

    @property
    def is_over(self) -> bool:
        """Whether the text is found, or all tasks were searched."""
        return bool(self._found) or not self._left

    async def read(self, reader: "Reader", goes_on: "Callable[[int], bool]") -> Sought:
        """What the text is, as far as is known now. `goes_on` as in `full_page`."""
        engine = await reader.engine()
        if not self._is_begun:
            self._found = await self._at_once(engine)
            self._is_begun = True
        if not self.is_over:
            self._found = await self._look_on(engine, goes_on)
        asked = _filter(self._found, self._text) if self._found else None
        return Sought(text=self._text, asked=asked, is_over=self.is_over)

    async def _at_once(self, engine: "Engine") -> str:
        some = await asyncio.gather(*(self._is_some(engine, field) for field in _AT_ONCE))
        found = next((field for field, is_some in zip(_AT_ONCE, some, strict=True) if is_some), "")
        if found == "failures" and await self._is_some(engine, "name"):
            return "name"  # not only failures have it, but some of the newest tasks
        return found

    async def _look_on(self, engine: "Engine", goes_on: "Callable[[int], bool]") -> str:
        while self._left:
            for field in tuple(self._left):
                if await self._is_some(engine, field):
                    return field
                if not goes_on(0):
                    return ""
                await asyncio.sleep(0)  # a store in memory never waits, and others want to run
        return ""

    async def _is_some(self, engine: "Engine", field: str) -> bool:
        """Whether one call finds a task that has the text in a field; it goes on from the end of
        the last call."""
        query = replace(_filter(field, self._text).query(1), cursor=self._left.get(field, ""))
        try:
            page = await within(engine.find(query))
        except ConfigurationError:  # the text cannot be a value of the field
            self._left.pop(field, None)
            return False
        if field in self._left:
            del self._left[field]
            if page.cursor:
                self._left[field] = page.cursor  # behind the other fields, which are next
        return bool(page.tasks)


def _filter(field: str, text: str) -> TaskFilter:
    """The list of the tasks that have the text in a field; `failures`: those of a name that have
    failed."""
    if field == "failures":
        return TaskFilter(states=FAILURES, name=text)
    return TaskFilter(**{field: text})  # pyright: ignore[reportArgumentType]
