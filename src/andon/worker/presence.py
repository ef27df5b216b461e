"""Publishes to the store that this worker is alive, its runs in hand, and that it leaves."""

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
from collections.abc import Callable

from andon.engine.base import Engine
from andon.model.errors import PermissionRefused
from andon.model.fleet import WorkerInfo

logger = logging.getLogger("andon.worker")

EVERY_S = 10.0
LEAVE_WITHIN_S = 5.0
"""How long leaving waits for the store: a store that is away drops the worker from the list by
itself."""


def new_worker_id() -> str:
    """An id that says where the worker is and that no other has: host, pid and random text."""
    host = "".join(c if c.isascii() and c.isalnum() else "-" for c in socket.gethostname())
    return f"{host[:40]}:{os.getpid()}:{secrets.token_hex(3)}"


class Presence:
    """Describes the worker about every ten seconds, and at once when `changed` is called."""

    def __init__(
        self,
        engine: Engine,
        describe: Callable[[], WorkerInfo],
        rng: random.Random,
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._every_s = every_s
        self._engine = engine
        self._describe = describe
        self._rng = rng
        self._changed = asyncio.Event()
        self._saying: asyncio.Future[None] | None = None
        self._refused = False  # as it was last logged

    def changed(self) -> None:
        """Publish soon."""
        self._changed.set()

    async def run_once(self) -> None:
        """Describe the worker, then wait for the next time."""
        self._changed.clear()
        self._saying = asyncio.ensure_future(self._engine.put_worker(self._describe()))
        try:
            await asyncio.shield(self._saying)
        except PermissionRefused as error:  # no reason not to run tasks
            if not self._refused:
                logger.warning("This worker is missing in the list of workers: %s", error)
            self._refused = True
        else:
            self._refused = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every_s * (0.75 + 0.5 * self._rng.random())):
                await self._changed.wait()

    async def leave(self) -> None:
        """Publish that the worker has left; a store that does not answer notices by itself."""
        try:
            async with asyncio.timeout(LEAVE_WITHIN_S):
                # A description that is under way must not reach the store after this.
                await asyncio.gather(*filter(None, [self._saying]), return_exceptions=True)
                await self._engine.remove_worker(self._describe().id)
        except Exception as error:
            logger.info("This worker stays in the list of workers until it is missed: %r", error)
