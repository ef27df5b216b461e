"""What runs log, kept with them and followed live.

A record belongs to a run when it was made inside its handler, whichever logger made it, or comes
from its child process or command. Lines are gathered and kept once a second, or sooner when there
is much, so that a handler that logs never waits. What logging does not let through is not kept.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable

import msgspec

from andon.artifacts.base import MAX_LOG, LogLine
from andon.engine.base import Engine
from andon.model.errors import AndonError, ConfigurationError, LeaseLost
from andon.worker.logs import OfRun

logger = logging.getLogger("andon.worker")

GATHER_S = 1.0
"""How long lines are gathered before they are kept."""

GATHER_BYTES = 32 * 1024
"""How much is gathered before it is kept at once."""

MAX_LINE = 16 * 1024
"""Characters of one line; the rest is cut."""

_CLOSE_S = 5.0
_MOST_FAILURES = 5

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


class RunLogs(logging.Handler):
    """Takes records from the root logger and keeps those of runs through `engine`."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.addFilter(OfRun())
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
        if task_id is None:
            return
        try:
            text = self.format(record)[:MAX_LINE]
        except Exception:
            self.handleError(record)
            return
        line = LogLine(int(record.created * 1000), record.levelname.lower(), text)
        key = (str(task_id), int(record.__dict__.get("run", 0)))
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

    def ended(self, task_id: str, run: int) -> None:
        """The run's handler has ended: keep what is left of it soon, and forget it then."""
        found = self._gathered.get((task_id, run))
        if found is not None:
            found.ended = True
            self._some.set()
            self._much.set()

    async def aclose(self) -> None:
        """Keep what was gathered, for a few seconds at the most, and take no more."""
        logging.getLogger().removeHandler(self)
        self._closing = True
        self._some.set()
        self._much.set()
        try:
            await asyncio.wait_for(asyncio.shield(self._keeping), _CLOSE_S)
        except TimeoutError:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    def _call(self, act: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(act)
        except RuntimeError:
            return  # the loop is closed: nobody keeps anything any more

    async def _keep(self) -> None:
        failures = 0
        while True:
            await self._some.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._much.wait(), GATHER_S)
            self._some.clear()
            self._much.clear()
            try:
                await self._keep_all()
                failures = 0
            except ConfigurationError as error:
                logger.debug("Logs of runs are not kept: %s", error)
                with self._mutex:
                    self._gathered.clear()
            except AndonError as error:
                failures += 1
                if failures >= _MOST_FAILURES:
                    logger.warning("Logs of runs are dropped, they cannot be kept: %s", error)
                    with self._mutex:
                        self._gathered.clear()
                    failures = 0
                else:
                    await asyncio.sleep(GATHER_S)
                    self._some.set()
            if self._closing and not self._gathered:
                return

    async def _keep_all(self) -> None:
        artifacts = await self._engine.artifacts()
        for key in list(self._gathered):
            found = self._gathered[key]
            with self._mutex:
                lines = list(found.lines)
                if found.ended and found.cut:
                    lines.append(_cut_line(found))
                # By time, so that a line that comes after the run was forgotten is not lost.
                found.number = found.number or max(found.last_number + 1, self._engine.now())
            if lines:
                try:
                    await artifacts.append_log(*key, found.number, lines)
                except LeaseLost as error:
                    # Its alone; the other runs' lines are kept all the same.
                    logger.debug("A log is not kept: %s", error)
                    with self._mutex:
                        del self._gathered[key]
                    continue
            with self._mutex:
                del found.lines[: len(lines)]
                found.last_number, found.number = found.number, 0
                found.kept += found.bytes
                found.bytes = sum(len(line.text) for line in found.lines)
                if (found.ended or self._closing) and not found.lines:
                    del self._gathered[key]


def _cut_line(found: _Gathered) -> LogLine:
    told = f"{found.cut} more lines were not kept (over {MAX_LOG} bytes)."
    return LogLine(found.last_at, "warning", told)
