"""Finds the page of a path. The pages are in the modules beside this one, by topic."""

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from andon.dashboard.answers import Shown
from andon.dashboard.asking import Asked
from andon.dashboard.downloads import Download
from andon.dashboard.requests import Answer, Refused
from andon.dashboard.showing_care import CarePages
from andon.dashboard.showing_queues import QueuePages
from andon.dashboard.showing_schedules import SchedulePages
from andon.dashboard.showing_tasks import TaskPages

if TYPE_CHECKING:
    from andon.dashboard.bulk import Bulk
    from andon.dashboard.reading import Reader
    from andon.dashboard.tokens import TokenBook


class Pages:
    """All pages of a board."""

    def __init__(self, reader: "Reader", bulk: "Bulk", tokens: "TokenBook | None") -> None:
        self._routes = [
            (re.compile(pattern), show)
            for pattern, show in (
                *QueuePages(reader).routes,
                *TaskPages(reader, bulk).routes,
                *SchedulePages(reader).routes,
                *CarePages(reader, tokens).routes,
            )
        ]

    async def show(self, asked: Asked) -> Shown | Answer | Download:
        """The page of a path. Raises `Refused` if there is none."""
        for pattern, show in self._routes:
            found = pattern.fullmatch(asked.path)
            if found is not None:
                names = tuple(map(unquote, found.groups()))
                return await show(msgspec.structs.replace(asked, names=names))
        raise Refused(404, "Not here", "There is no such page.")
