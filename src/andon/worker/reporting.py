"""Reports to the engine how runs ended, and repeats each report until it is taken.

A report that the engine cannot take now is made again. A report that can never be written because
of its content is replaced by one with an error that can: the run fails, and is not repeated for
ever. If even that fails, the run is left to its lease.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from functools import partial

from andon.contract.isolation import AT_FAULT
from andon.engine.base import Engine
from andon.lifecycle.births import FIELD
from andon.lifecycle.commands import Command, Complete, Expire, Interrupted
from andon.model.errors import (
    AccessError,
    ConfigurationError,
    InvalidSubmission,
    InvalidTransition,
    LeaseLost,
    NotWritable,
    PayloadTooLarge,
    StoreIncompatible,
    StoreUnavailable,
)
from andon.model.task import RunCell
from andon.model.words import State
from andon.worker import outcomes
from andon.worker.backoff import Backoff
from andon.worker.executors.base import RunInHand
from andon.worker.logs import activity

logger = logging.getLogger("andon.worker")

_MOST_REPORTS = 5
"""How often a report that fails with an unforeseen error is tried, and then the plain one that
replaces it."""

_UNWRITABLE = (NotWritable, InvalidSubmission)
"""Errors of the report's content: it would be refused again."""

_OF_VALUE = (*_UNWRITABLE, *AT_FAULT)
"""Errors that a value in the report causes, or may cause."""

_REFUSED = (AccessError, ConfigurationError, StoreIncompatible)
"""Errors of the receiver of a report, not of its content."""


class RunReporter:
    """Reports runs; `done` is called with each whose report was taken, or is given up."""

    def __init__(
        self,
        engine: Engine,
        done: Callable[[RunInHand], None],
        *,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._done = done
        self._rng = rng
        self._clock = clock
        self._loop = asyncio.get_running_loop()

    def report(self, run: RunInHand, command: Command) -> None:
        """Report how a run ended. Returns at once, and never raises."""
        try:
            if run.context.beat_at is not None:
                self._put_marks(run)
            self._engine.report_nowait(
                run.task,
                command,
                partial(self._reported, run, command),
                run.context.follow_ups,
            )
        except Exception as error:
            self._reported(run, command, None, error)

    def _reported(
        self, run: RunInHand, command: Command, state: State | None, error: BaseException | None
    ) -> None:
        if error is None:
            activity.ended(run, command, state)
            self._done(run)
        elif isinstance(error, asyncio.CancelledError):  # the loop is being closed
            self._done(run)
        else:
            run.handle = self._loop.create_task(self._report_again(run, command, error))

    async def _report_again(
        self, run: RunInHand, command: Command | None, error: BaseException
    ) -> None:
        """The report failed: find out whether it can be made another way, or later."""
        attempts = _Attempts(run, Backoff(self._rng))
        try:
            while command is not None:
                command = await attempts.after(command, error)
                if command is None or run.lost:
                    return
                try:
                    follow_ups = run.context.follow_ups
                    state = await self._engine.report(run.task, command, follow_ups)
                    activity.ended(run, command, state)
                    return
                except Exception as again:
                    error = again
        finally:
            self._done(run)

    def _put_marks(self, run: RunInHand) -> None:
        """Let the report carry the newest heartbeat and progress, sent or not."""
        context, cell = run.context, run.task.cell
        if cell is None or context.beat_at is None:
            return
        silent = round((self._clock() - context.beat_at) * 1000)
        known = context.percent is not None
        run.task.cell = RunCell(
            run=cell.run,
            lease_until=cell.lease_until,
            heartbeat_at=max(cell.heartbeat_at, self._engine.now() - silent),
            progress=context.percent if context.percent is not None else cell.progress,
            message=context.message if known else cell.message,
        )


def _is_too_much(error: BaseException) -> bool:
    """Whether the handler's result or its follow-ups cannot be stored, by their size or form."""
    if isinstance(error, InvalidSubmission) and error.field.partition(".")[0] == FIELD:
        return True
    return isinstance(error, PayloadTooLarge)


class _Attempts:
    """What to report next of one run, after what went wrong before."""

    def __init__(self, run: RunInHand, backoff: Backoff) -> None:
        self._run = run
        self._backoff = backoff
        self._failures = 0
        self._is_plain = False  # nothing in it comes from the handler any more

    async def after(self, command: Command, error: BaseException) -> Command | None:
        """The next command, when it is time for it; None: no more."""
        if isinstance(error, LeaseLost | InvalidTransition):
            if isinstance(command, Expire):
                # After a cancel request there is no way to expire; it is cancelled
                # (docs/rulings.md, R7).
                return Interrupted()
            self._log(logging.WARNING, "was not taken: %s", error)
            return None
        if isinstance(command, Complete) and _is_too_much(error):
            return outcomes.invalid_result(str(error))
        if isinstance(error, StoreUnavailable):
            await asyncio.sleep(self._backoff.failed())
            return command
        self._log(logging.ERROR, "could not be reported.", exc_info=error)
        self._failures += 1
        if isinstance(error, _REFUSED) or not self._is_hopeless(error):
            if self._failures >= _MOST_REPORTS:
                return None  # left to its lease
            await asyncio.sleep(self._backoff.failed())
            return command
        self._is_plain, self._failures = True, 0
        self._clear_marks()
        return outcomes.unwritten(command, error, of_value=isinstance(error, _OF_VALUE))

    def _is_hopeless(self, error: BaseException) -> bool:
        """Whether the same report would fail again, and a plainer one need not."""
        if self._is_plain:
            return False
        if isinstance(error, _UNWRITABLE):
            return True
        # Errors that a value in it may be the reason of, or a fault of ours that may pass.
        return self._failures >= (2 if isinstance(error, AT_FAULT) else _MOST_REPORTS)

    def _clear_marks(self) -> None:
        # The message may be what the store cannot write.
        task = self._run.task
        if task.cell is not None:
            cell = task.cell
            task.cell = RunCell(
                run=cell.run, lease_until=cell.lease_until, heartbeat_at=cell.heartbeat_at
            )

    def _log(
        self, level: int, what: str, *args: object, exc_info: BaseException | None = None
    ) -> None:
        context = self._run.context
        logger.log(
            level,
            f"Run %d of task %s {what}",
            context.run,
            context.task_id,
            *args,
            exc_info=exc_info,
        )
