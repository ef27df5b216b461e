"""Captures the log records of runs, keeps them with the run, and sends them to live readers.

A record belongs to a run when it was made inside its handler, whichever logger made it, or comes
from its child process or command. Lines are gathered and kept once a second, or sooner when there
is much, so that a handler that logs never waits. Records below the logger's level are not kept.

A line is made storable when it is taken, or refused there. A run whose lines cannot be kept is
tried again for a while, then its lines are dropped. Neither costs another run a line, and nothing
of it keeps the worker from stopping.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

import msgspec

from andon.artifacts.base import MAX_LOG, Artifacts, LogLine
from andon.engine.base import Engine
from andon.model.errors import ConfigurationError, LeaseLost, StoreUnavailable
from andon.model.text import storable
from andon.worker.background import is_asked_to_end
from andon.worker.context import Context
from andon.worker.logs.activity import RUNS
from andon.worker.logs.fields import RunFieldsFilter

logger = logging.getLogger("andon.worker")

GATHER_S = 1.0
"""How long lines are gathered before they are kept."""

GATHER_BYTES = 32 * 1024
"""How much is gathered before it is kept at once."""

MAX_LINE = 16 * 1024
"""Characters of one line; the rest is cut."""

_LATEST_S = 253_402_300_799.0
"""The end of the year 9999, the last that can be shown."""

_CLOSE_S = 5.0
_MOST_FAILURES = 5
"""Tries of what cannot be kept, about a second apart; then it is dropped."""

Key = tuple[str, int]
"""Task id and number of the run."""


class _Gathered(msgspec.Struct):
    lines: list[LogLine]
    bytes: int = 0
    kept: int = 0  #: bytes kept so far
    number: int = 0  #: of the piece under way, the same when it is tried again; 0: none
    last_number: int = 0
    last_at: int = 0  #: time of the newest line
    cut: int = 0  #: lines that were too many
    ended: bool = False
    failures: int = 0  #: times in a row that they could not be kept, for a reason of their own


class LogCapture(logging.Handler):
    """Takes records from the root logger and keeps those of runs through `engine`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.addFilter(RunFieldsFilter())
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._mutex = threading.Lock()
        self._gathered: dict[Key, _Gathered] = {}
        self._much = asyncio.Event()
        self._some = asyncio.Event()
        self._closing = False
        self._keeping = asyncio.create_task(self._keep())
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record; called in any thread."""
        task_id = record.__dict__.get("task_id")
        if task_id is None or record.name == RUNS:  # not the run's own
            return
        try:
            text = storable(self.format(record)[:MAX_LINE])
            at = int(min(max(0.0, record.created), _LATEST_S) * 1000)
            line = LogLine(at, storable(record.levelname).lower(), text)
            key = (str(task_id), int(record.__dict__.get("run", 0)))
        except Exception:  # a record may hold any value
            self.handleError(record)
            return
        with self._mutex:
            found = self._gathered.setdefault(key, _Gathered([]))
            found.last_at = line.at
            if found.kept + found.bytes > MAX_LOG:
                found.cut += 1
                return
            found.lines.append(line)
            found.bytes += len(text)
            wake = self._much if found.bytes > GATHER_BYTES else self._some
            if wake.is_set() or self._closing:
                return
        self._call(wake.set)

    def ended(self, context: Context) -> None:
        """The run's handler has ended: keep what is left of it soon, and forget it then."""
        if not self._gathered:
            return  # most handlers log nothing
        found = self._gathered.get((context.task_id, context.run))
        if found is not None:
            found.ended = True
            self._some.set()
            self._much.set()

    async def aclose(self) -> None:
        """Keep what was gathered, for a few seconds at the most, and take no more. Never raises."""
        logging.getLogger().removeHandler(self)
        self._closing = True
        self._some.set()
        self._much.set()
        try:
            await asyncio.wait_for(asyncio.shield(self._keeping), _CLOSE_S)
        except TimeoutError:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        except (Exception, asyncio.CancelledError) as error:
            if is_asked_to_end(error):
                raise
            logger.exception("The last lines of logs were not kept.")

    def _call(self, act: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(act)
        except RuntimeError:
            return  # the loop is closed: nothing can be kept any more

    async def _keep(self) -> None:
        failures = 0
        while True:
            await self._some.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._much.wait(), GATHER_S)
            self._some.clear()
            self._much.clear()
            kept_all = False
            try:
                kept_all = await self._keep_all()
                failures = 0
            except ConfigurationError as error:
                logger.debug("Logs of runs are not kept: %s", error)
                with self._mutex:
                    self._gathered.clear()
            except (Exception, asyncio.CancelledError) as error:
                if is_asked_to_end(error):
                    raise
                failures += 1
                if failures >= _MOST_FAILURES:
                    logger.warning("Logs of runs are dropped, they cannot be kept: %s", error)
                    with self._mutex:
                        self._gathered.clear()
                    failures = 0
            if self._gathered and (self._closing or not kept_all):
                await asyncio.sleep(GATHER_S)
                self._some.set()
            if self._closing and not self._gathered:
                return

    async def _keep_all(self) -> bool:
        """Keep what was gathered of every run; False if that of some is to be tried again."""
        artifacts = await self._engine.artifacts()
        kept_all = True
        for key in list(self._gathered):
            try:
                await self._keep_one(artifacts, key)
            except StoreUnavailable:
                raise  # the others would wait for it as well
            except LeaseLost as error:
                logger.debug("A log is not kept: %s", error)
                self._drop(key)
            except (Exception, asyncio.CancelledError) as error:
                if is_asked_to_end(error):
                    raise
                self._failed(key, error)
                kept_all = False
        return kept_all

    async def _keep_one(self, artifacts: Artifacts, key: Key) -> None:
        found = self._gathered[key]
        with self._mutex:
            lines = list(found.lines)
            if found.ended and found.cut:
                lines.append(_cut_line(found))
            # By time, so that a line that comes after the run was forgotten is not lost.
            found.number = found.number or max(found.last_number + 1, self._engine.now())
        if lines:
            await artifacts.append_log(*key, found.number, lines)
        with self._mutex:
            found.failures = 0
            del found.lines[: len(lines)]
            found.last_number, found.number = found.number, 0
            found.kept += found.bytes
            found.bytes = sum(len(line.text) for line in found.lines)
            if (found.ended or self._closing) and not found.lines:
                del self._gathered[key]

    def _failed(self, key: Key, error: BaseException) -> None:
        """The lines of one run could not be kept."""
        found = self._gathered[key]
        found.failures += 1
        task_id, run = key
        if found.failures < _MOST_FAILURES:
            logger.info("The log of task %s run %d is kept later: %r", task_id, run, error)
            return
        logger.warning("The log of task %s run %d cannot be kept: %r", task_id, run, error)
        self._drop(key)

    def _drop(self, key: Key) -> None:
        with self._mutex:
            self._gathered.pop(key, None)


def _cut_line(found: _Gathered) -> LogLine:
    told = f"{found.cut} more lines were not kept (over {MAX_LOG} bytes)."
    return LogLine(found.last_at, "warning", told)
