"""Waits for the end of a task, for every engine: until the caller's timeout, also while the store
is away."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from andon.model.errors import StoreUnavailable
from andon.model.task import Task

log = logging.getLogger("andon.watching")

_AWAY_S = 0.5


class Closed(StoreUnavailable):
    """Raised in callers that still wait when the engine is closed: nothing would ever wake them."""

    def __init__(self, awaited: str) -> None:
        super().__init__(f"The application was closed while {awaited} was waited for.")


async def until_ended(
    end_of: Callable[[str], Awaitable[Task]],
    task_id: str,
    timeout: float | None,
    jitter: random.Random,
) -> Task:
    """The record as it ended, for which `end_of` waits.

    While the store is away, the call goes on waiting until the caller's timeout (seconds). Raises
    `TimeoutError`, and what `end_of` raises, such as `TaskNotFound`.
    """
    async with asyncio.timeout(timeout):
        while True:
            try:
                return await end_of(task_id)
            except Closed:
                raise
            except StoreUnavailable as error:
                log.warning("Waiting for task %s and for the store: %s", task_id, error)
                await pause_away(jitter)


async def pause_away(jitter: random.Random) -> None:
    """Sleep before a store that was away is asked again."""
    await asyncio.sleep(_AWAY_S * (0.5 + jitter.random()))
