"""Reads for pages, through the engine only: bounded in time, and once for all viewers."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from andon.coroutines.shared_future import shared
from andon.dashboard.bulk import Bulk
from andon.dashboard.patience import within
from andon.dashboard.views.andon import Andon, andon_of
from andon.dashboard.views.bodies import Redaction
from andon.dashboard.views.minutes import Minutes, minutes_of
from andon.dashboard.views.rates import Sampler
from andon.engine.fleet import known_queues
from andon.lifecycle.minutes import MOST_MINUTES
from andon.model.errors import AccessError
from andon.model.fleet import QueueConfig, QueueStats, WorkerInfo
from andon.model.minutes import MinuteHistory

if TYPE_CHECKING:
    from andon.dashboard.access import Visitor
    from andon.engine.base import Engine
    from andon.engine.waiting import KindWait

T = TypeVar("T")

_STATS_S = 0.4
_FLEET_S = 2.0
_HOUR_S = 10.0
_DAY_S = 60.0
"""The last day is a day of minutes to read, and is drawn by quarters of an hour."""

_GIVES_WAY_S = 1.0
_QUARTER = 15
_DAYS = 2
"""How many days of counters are read for rates: at midnight a new day begins."""


class Recent:
    """Values that were read lately: callers get the same value for a moment, and however many ask
    at once, it is read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[float, Any]] = {}
        self._reading: dict[str, asyncio.Task[Any]] = {}

    async def get(
        self, name: str, seconds: float, read: Callable[[], Awaitable[T]], *, grace: float = 0.0
    ) -> T:
        """The value of a name, at most `seconds` old. An error of the reading is raised for each
        caller that waits for it. For `grace` seconds more callers get the old value at once, while
        a new one is read."""
        now = asyncio.get_running_loop().time()
        at, value = self._read.get(name, (float("-inf"), None))
        if now - at < seconds:
            return cast("T", value)
        reading = self._reading.get(name)
        if reading is None:
            reading = asyncio.ensure_future(self._keep(name, read))
            self._reading[name] = reading
            reading.add_done_callback(lambda done: self._is_read(name, done))
        if now - at < seconds + grace:
            return cast("T", value)
        return await shared(reading)

    def _is_read(self, name: str, done: "asyncio.Task[Any]") -> None:
        self._reading.pop(name, None)
        if not done.cancelled():
            done.exception()  # else asyncio logs an error that no caller waited for

    def forget(self) -> None:
        """Forget all values."""
        self._read.clear()

    async def _keep(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        value = await read()
        self._read[name] = (asyncio.get_running_loop().time(), value)
        return value


class Reader:
    """Reads for pages and fragments. `engine` gives the engine, open, of the running loop."""

    def __init__(
        self, engine: "Callable[[], Awaitable[Engine]]", redaction: Redaction, location: str
    ) -> None:
        self._engine = engine
        self.redaction = redaction
        self.bulk = Bulk()  #: acts on many
        self.location = location  #: the store's location, without secrets
        self.sampler = Sampler()
        self._recent = Recent()
        self._minutes_read = Recent()  #: which acts by hand do not change
        self._pages = 0  # for which a visitor waits
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()

    @contextmanager
    def page(self) -> Generator[None]:
        """Note that a visitor waits for a page, for as long as the block lasts."""
        self._pages += 1
        self._nobody_waits.clear()
        try:
            yield
        finally:
            self._pages -= 1
            if not self._pages:
                self._nobody_waits.set()

    def while_nobody_waits(self, seconds: float) -> Callable[[int], bool]:
        """Whether to go on searching, whatever was found: for so long, and while no visitor waits
        for a page. A visitor who leaves a page that searches keeps its stream until the next page
        has come."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        return lambda _: not self._pages and loop.time() < until

    async def give_way(self) -> None:
        """Wait while a visitor waits for a page, but not for ever: on a busy board some visitor
        always does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GIVES_WAY_S):
                await self._nobody_waits.wait()

    def forget(self) -> None:
        """Forget all values: something was just changed."""
        self._recent.forget()

    async def engine(self) -> "Engine":
        """The engine. Raises `StoreUnavailable` if it cannot be opened in time."""
        return await within(self._engine())

    async def queues(self) -> list[tuple[QueueConfig, QueueStats]]:
        """Every queue with its counts."""
        return await self._recent.get("queues", _STATS_S, self._queues)

    async def _queues(self) -> list[tuple[QueueConfig, QueueStats]]:
        engine = await self.engine()
        rows, histories = await within(
            asyncio.gather(known_queues(engine), engine.queue_history(days=_DAYS))
        )
        self.sampler.add(engine.now(), histories)
        return rows

    async def workers(self) -> list[WorkerInfo]:
        """The live workers."""

        async def read() -> list[WorkerInfo]:
            return await within((await self.engine()).workers())

        return await self._recent.get("workers", _FLEET_S, read)

    async def waits(self) -> "list[KindWait]":
        """What keeps ready tasks from starting."""

        async def read() -> "list[KindWait]":
            return await within((await self.engine()).waits())

        return await self._recent.get("waits", _FLEET_S, read)

    async def history(self, queues: "Sequence[str] | None" = None) -> tuple[Minutes, Minutes]:
        """The last hour by minute and the last day by quarter, of these queues or of all."""
        hour, day = await asyncio.gather(self._hour(), self._day())
        if queues is not None:
            return minutes_of(hour, queues), minutes_of(day, queues, each=_QUARTER)

        async def drawn() -> tuple[Minutes, Minutes]:
            return minutes_of(hour), minutes_of(day, each=_QUARTER)

        return await self._minutes_read.get("history", _HOUR_S, drawn)

    async def _hour(self) -> MinuteHistory:
        return await self._minutes_read.get(
            "hour", _HOUR_S, lambda: self._minutes(60), grace=_DAY_S
        )

    async def _day(self) -> MinuteHistory:
        return await self._minutes_read.get(
            "day", _DAY_S, lambda: self._minutes(MOST_MINUTES), grace=_DAY_S
        )

    async def _minutes(self, minutes: int, *, by_type: bool = False) -> MinuteHistory:
        engine = await self.engine()
        return await within(engine.minutes(minutes=minutes, by_type=by_type))

    async def minutes_by_type(self) -> tuple[MinuteHistory, MinuteHistory]:
        """The last hour and the last day by type, of samples."""

        async def read(minutes: int) -> MinuteHistory:
            return await self._minutes(minutes, by_type=True)

        hour = self._minutes_read.get("hour by type", _HOUR_S, lambda: read(60), grace=_DAY_S)
        day = self._minutes_read.get(
            "day by type", _DAY_S, lambda: read(MOST_MINUTES), grace=_DAY_S
        )
        return await asyncio.gather(hour, day)

    async def history_of_type(self, name: str) -> tuple[Minutes, Minutes, bool]:
        """The last hour by minute and the last day by quarter of one type, and whether every run
        that ended is in them."""
        hour, day = await self.minutes_by_type()
        whole = hour.whole and day.whole
        return minutes_of(hour, [name]), minutes_of(day, [name], each=_QUARTER), whole

    async def overview(self) -> "Overview":
        """All that the first page is drawn from, for every visitor."""
        rows, workers, waits = await asyncio.gather(
            self.queues(), _unless_refused(self.workers), _unless_refused(self.waits)
        )
        return Overview((await self.engine()).now(), rows, workers, waits, self.sampler)


async def _unless_refused(read: Callable[[], Awaitable[T]]) -> T | None:
    """The value that is read; None if the service does not let its caller see it. The reading
    begins here, so that nothing is left waiting if this is cancelled before."""
    try:
        return await read()
    except AccessError:
        return None


class Overview:
    """Queues, workers and waits as they were read; None: the reader may not see them."""

    def __init__(
        self,
        now: int,
        rows: Sequence[tuple[QueueConfig, QueueStats]],
        workers: Sequence[WorkerInfo] | None,
        waits: "Sequence[KindWait] | None",
        sampler: Sampler,
    ) -> None:
        self.now = now
        self.rows = rows
        self.workers = workers
        self.waits = waits
        self._sampler = sampler

    def seen_by(self, visitor: "Visitor") -> Andon:
        """The board as far as a visitor may see it."""
        seen = [row for row in self.rows if visitor.may(f"queues:read:{row[0].name}")]
        names = {config.name for config, _ in seen}
        return andon_of(
            seen,
            self.workers if visitor.may("workers:read") else None,
            [wait for wait in self.waits or () if wait.queue in names],
            now=self.now,
            rates=self._sampler.rates,
            line=self._sampler.line,
        )
