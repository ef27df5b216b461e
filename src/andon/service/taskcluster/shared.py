"""The parts shared by the routes of one service's Taskcluster face."""

import time
from typing import TYPE_CHECKING

from andon.service.claimed import ClaimedRecords
from andon.service.remote.presences import ADMIN
from andon.service.taskcluster.claim_lines import ClaimLines
from andon.service.taskcluster.claims import CODE, give_back
from andon.service.taskcluster.lifetimes import Lifetimes
from andon.service.taskcluster.one_claim import Turns
from andon.service.trust.access import Caller

if TYPE_CHECKING:
    from andon.model.task import Task
    from andon.service.service import Service
    from andon.service.taskcluster.settings import TaskclusterSettings
    from andon.service.taskcluster.trust.authentication import Authentication


_ITSELF = Caller(name="the Taskcluster face", scopes=(ADMIN,))
"""The owner of the descriptions of the face's workers: a client that may claim as a worker may be
that worker."""


class Shared:
    """The engine's service, the settings, the trusted clients, and the waiting workers."""

    def __init__(
        self, service: "Service", settings: "TaskclusterSettings", trust: "Authentication"
    ) -> None:
        self.service = service
        self.settings = settings
        self.trust = trust
        self.lines = ClaimLines(service.engine, self.give_back)
        self.turns = Turns()
        self.claimed = ClaimedRecords[tuple[str, int]]()  # by task and number of the run
        self.lifetimes = Lifetimes(service.engine)
        self.feed = service.feed
        self._began = time.monotonic()

    async def give_back(self, claimed: "list[Task]") -> None:
        """Give back what was claimed for a worker that has gone."""
        await give_back(self.service.engine, claimed)

    async def seen(self, worker: str, queue: str) -> None:
        """Publish a worker that asks for work, so that lists of workers have it and a queue is not
        said to have none."""
        await self.service.engine.keep_code(CODE)
        self.service.presences.seen(_ITSELF, worker, [queue], CODE)

    def uptime(self) -> float:
        """Seconds since the face began to answer."""
        return time.monotonic() - self._began
