"""Detects async handlers that block the event loop, and logs which one and where in its code.

While such a handler runs, no other async handler goes on, nothing is claimed and nothing is
reported. Leases are renewed from a thread, so nothing is lost. A thread sends the loop a ping while
runs are in hand. If the loop does not answer, the thread logs the stack of what blocks it.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

logger = logging.getLogger("andon.worker")

LONG_S = 1.0
"""How long the loop may take to answer."""

PAUSE_S = 0.5
"""How long after an answer the next ping is sent."""

_MOST_FRAMES = 20

_frames = sys._current_frames  # pyright: ignore[reportPrivateUsage]  # documented, for debuggers


class BlockedLoopWatch:
    """Watches the running loop from a thread of its own.

    `describe` names the run that an asyncio task carries, "" if it carries none.
    """

    def __init__(self, describe: Callable[[asyncio.Task[object] | None], str]) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._describe = describe
        self._busy = threading.Event()
        self._stopped = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="andon-loop-watch", daemon=True)
        self._thread.start()

    def set_busy(self, busy: bool) -> None:
        """Watch only while there are runs in hand."""
        if busy:
            self._busy.set()
        else:
            self._busy.clear()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._stopped.set()
        self._busy.set()
        self._answered.set()  # the loop does not answer while it waits for the thread here
        self._thread.join(LONG_S)

    def _watch(self) -> None:
        while not self._stopped.is_set():
            self._busy.wait()
            answered = self._answered = threading.Event()
            if self._stopped.is_set():
                return
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            self._await(answered)
            self._stopped.wait(PAUSE_S)

    def _await(self, answered: threading.Event) -> None:
        asked_at = time.monotonic()
        if answered.wait(LONG_S) or self._stopped.is_set():
            return
        who = self._who()
        logger.warning(
            "%s keeps the event loop to itself for more than %g s. Await what it waits for, or "
            "make the handler a plain function, which runs in a thread. It is here:\n%s",
            who,
            LONG_S,
            _stack(_frames().get(self._thread_id)),
        )
        while not answered.wait(PAUSE_S):
            if self._stopped.is_set():
                return
        logger.warning("%s has let the loop go on after %.1f s.", who, time.monotonic() - asked_at)

    def _who(self) -> str:
        try:
            return self._describe(asyncio.current_task(self._loop)) or "Something"
        except RuntimeError:  # the loop has just gone on, and its tasks change
            return "Something"


def _stack(frame: FrameType | None) -> str:
    return "".join(traceback.format_stack(frame, _MOST_FRAMES)).rstrip()
