"""Shutdown of a worker in three steps (docs/rulings.md, R11), and the signals that ask for them.

1. SIGTERM or SIGINT: claim no more; every run goes on for its `shutdown_grace`, then ends as its
   `on_shutdown` says. A run with `continue` has no limit.
2. Again: the grace is over now, and `continue` becomes `resubmit`.
3. Again: the process exits at once. Its leases run out.

SIGTSTP makes the worker quiet: it claims no more and stays, until it exits or SIGCONT comes.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from andon.worker.executors.base import RunInHand
from andon.worker.runs import Runs, timed

logger = logging.getLogger("andon.worker")


class Shutdown:
    """Ends the runs in hand. `grace` in seconds replaces that of the tasks' policies."""

    def __init__(self, runs: Runs, *, grace: float | None) -> None:
        self._runs = runs
        self._grace = grace
        self._loop = asyncio.get_running_loop()

    def begin(self) -> None:
        """Start the grace of every run in hand."""
        for run in self._unfinished():
            if run.on_shutdown == "continue":
                continue
            grace = self._grace if self._grace is not None else run.task.policy.shutdown_grace
            if grace <= 0:
                self._runs.tell(run, "shutdown")
            else:
                timer = self._loop.call_later(timed(grace), self._runs.tell, run, "shutdown")
                run.timers = (*run.timers, timer)

    def hurry(self) -> None:
        """End the grace of every run in hand."""
        for run in self._unfinished():
            if run.on_shutdown == "continue":
                run.on_shutdown = "resubmit"
            self._runs.hurry(run)

    def _unfinished(self) -> list[RunInHand]:
        return [run for run in self._runs.in_hand.values() if not run.ended]


class Stoppable(Protocol):
    """The actions behind the signals."""

    def begin_stop(self) -> None:
        """First step; again: the second."""
        ...

    def set_quiet(self, quiet: bool) -> None:
        """Claim nothing while quiet."""
        ...


class Signals:
    """Turns signals into steps, while entered. In the main thread only."""

    def __init__(self, worker: Stoppable, *, exit_now: Callable[[int], None] = os._exit) -> None:
        self._worker = worker
        self._exit = exit_now
        self._asked = 0
        self._loop = asyncio.get_running_loop()
        self._installed: list[signal.Signals] = []

    def __enter__(self) -> "Signals":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._install(number, self._stop, number)
        self._install(signal.SIGTSTP, self._worker.set_quiet, True)
        self._install(signal.SIGCONT, self._worker.set_quiet, False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in self._installed:
            self._loop.remove_signal_handler(number)

    def _install(self, number: signal.Signals, act: Callable[..., None], *args: object) -> None:
        self._loop.add_signal_handler(number, act, *args)
        self._installed.append(number)

    def _stop(self, number: signal.Signals) -> None:
        self._asked += 1
        if self._asked > 2:
            logger.warning("%s again: exiting at once.", number.name)
            self._exit(128 + number)
            return
        logger.info(
            "%s: %s",
            number.name,
            "claiming no more, finishing what runs. Again: stop it."
            if self._asked == 1
            else "stopping what runs. Again: exit at once.",
        )
        self._worker.begin_stop()
