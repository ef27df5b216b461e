"""Waits for a store that is away when a worker starts.

A deploy starts workers and store side by side: a worker that gave up would be restarted until the
store is there. So it waits, logs that, and goes on by itself.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable

from andon.model.errors import StoreUnavailable
from andon.worker.backoff import Backoff
from andon.worker.shutdown import Signals

logger = logging.getLogger("andon.worker")

_SAY_AGAIN_S = 60.0
"""How often the log says that the store is still away."""


class _Waiting:
    """What signals act on during the wait: any of them ends it."""

    def __init__(self, opening: "asyncio.Future[None]") -> None:
        self._opening = opening
        self.is_told_to_stop = False

    def begin_stop(self) -> None:
        self.is_told_to_stop = True
        self._opening.cancel()

    def set_quiet(self, quiet: bool) -> None:
        """Nothing is claimed yet."""


async def until_open(
    open_store: Callable[[], Awaitable[object]], where: str, *, signals: bool
) -> bool:
    """Open, again and again while the store is away; False if a signal asked to stop meanwhile.

    `where` names the store in the log. With `signals` SIGTERM and SIGINT end the wait. Any error
    but `StoreUnavailable` is raised: waiting mends neither a wrong URL nor a refused password.
    """
    opening = asyncio.ensure_future(_keep_opening(open_store, where))
    waiting = _Waiting(opening)
    try:
        with Signals(waiting) if signals else contextlib.nullcontext():
            await opening
    except asyncio.CancelledError:
        if not waiting.is_told_to_stop:
            raise
        logger.info("Told to stop before the store at %s had answered.", where)
        return False
    finally:
        opening.cancel()
    return True


async def _keep_opening(open_store: Callable[[], Awaitable[object]], where: str) -> None:
    backoff = Backoff(random.Random())
    said_at: float | None = None
    while True:
        try:
            await open_store()
        except StoreUnavailable as error:
            now = time.monotonic()
            if said_at is None or now - said_at >= _SAY_AGAIN_S:
                said_at = now
                logger.warning(
                    "The store at %s is away; this worker waits for it: %s", where, error
                )
            await asyncio.sleep(backoff.failed())
        else:
            if said_at is not None:
                logger.info("The store at %s has answered.", where)
            return
