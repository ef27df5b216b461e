"""One service process: the application, its engine, and what the routes share."""

import asyncio
import logging
from typing import TYPE_CHECKING

from andon.contract.measured_store import measured
from andon.engine.artifacts import warn_if_not_kept
from andon.engine.opening import open_store
from andon.service.alerts.working import AlertWorker
from andon.service.board import board_of
from andon.service.guard import Guard
from andon.service.hub import Hub
from andon.service.job_settings import JobSettings
from andon.service.metrics import Metrics
from andon.service.remote.presences import Presences
from andon.service.remote.readiness import Readiness
from andon.service.remote.runs import RemoteRuns
from andon.service.settings import Settings
from andon.service.taskcluster.messages.feed import Feed
from andon.service.taskcluster.messages.sinks import Sinks
from andon.service.taskcluster.settings import TaskclusterSettings
from andon.service.taskcluster.trust.authentication import Authentication
from andon.service.trust.access import Access, is_loopback
from andon.service.trust.proxies import Proxies

if TYPE_CHECKING:
    from andon.client.app import Andon
    from andon.engine.local import LocalEngine

log = logging.getLogger("andon.service")


class Service:
    """One service; `start` opens its engine, `stop` ends what is under way and closes it."""

    def __init__(
        self, app: "Andon", settings: Settings | None = None, *, guard: Guard | None = None
    ) -> None:
        self.app = app
        self.settings = settings or Settings()
        self.settings.check()
        self.job_settings = JobSettings.read()
        self.metrics = Metrics()
        store = open_store(app.url)
        self.engine: LocalEngine = app.engine_on(app.measured(measured(store, self.metrics)))
        is_open = is_loopback(self.settings.host) and not self.settings.require_token
        self.access = Access(self.engine.store, is_open=is_open)
        self.guard = guard or self.access
        self.proxies = Proxies(self.settings.proxies)
        self.authentication = Authentication(self.engine.store, self.access, proxies=self.proxies)
        """Identifies the callers of the Taskcluster face."""
        self.runs = RemoteRuns(
            self.engine,
            self.access,
            max_payload=self.settings.max_payload,
            artifact_grace=self.settings.artifact_grace,
        )
        self.readiness = Readiness(self.engine.store)
        self.presences = Presences(self.engine, self.access.registry)
        self.hub = Hub(
            self.engine,
            partitions=store.partitions,
            buffer=self.settings.stream_buffer,
            ping=self.settings.stream_ping,
        )
        self.alert_worker = AlertWorker(self.engine, commands=self.settings.alert_commands)
        self.board = board_of(self.engine, self.access, app.url) if self.settings.board else None
        self.metrics.streams.set_function(lambda: self.streams)
        messages = (self.settings.taskcluster or TaskclusterSettings()).messages
        self.feed = Feed(self.engine, retries_as_exceptions=messages.retries_as_exceptions)
        """The messages about tasks of the Taskcluster face."""
        self.sinks = Sinks(messages, self.engine, self.feed, self.metrics)
        self.message_streams = 0  #: streams of its messages
        self.log_streams = 0  #: logs that are followed
        self.list_streams = 0  #: lists that are sent line by line
        self.openapi = b"{}"  #: the document, set when the application is made
        self.long_work = asyncio.Lock()  #: held by requests with long work between two awaits
        self._stopping: asyncio.Event | None = None

    @property
    def streams(self) -> int:
        """Streams open: of events, of logs, of lists, and of pages of the board."""
        pages = 0 if self.board is None else len(self.board.live)
        followed = self.log_streams + self.list_streams + self.message_streams
        return len(self.hub) + followed + pages

    @property
    def stopping(self) -> asyncio.Event:
        """Set when the service stops: every wait for something else ends then."""
        if self._stopping is None:
            self._stopping = asyncio.Event()
        return self._stopping

    async def start(self) -> None:
        """Open the engine, begin to fire timers and to deliver alerts."""
        await self.engine.open()
        try:
            await self._check_access()
            await warn_if_not_kept(self.engine, log)
            await self.sinks.start()
        except BaseException:
            await self.sinks.stop()
            await self.engine.close()
            raise
        if self.settings.timekeeper:
            self.engine.timekeeper.start()
        self.alert_worker.start()

    async def _check_access(self) -> None:
        """Raise `ConfigurationError` if other machines can reach the service, but there is no
        credential to identify callers by: neither a token nor, where the Taskcluster face is on,
        one of its clients."""
        if self.settings.taskcluster is None:
            await self.access.check(self.settings.host)
        else:
            await self.authentication.check(self.settings.host)

    def begin_stop(self) -> None:
        """End streams and long polls; other requests go on to their end."""
        self.stopping.set()
        self.hub.end_all("stopping")
        if self.board is not None:
            self.board.begin_stop()

    async def stop(self) -> None:
        """Close the engine, after everything that was handed over is written."""
        self.begin_stop()
        await self.alert_worker.stop()
        await self.sinks.stop()
        await self.engine.close()
