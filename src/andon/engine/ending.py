"""Waiting for the end of a task, for every engine: as long as the caller said, whatever is away."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable

from andon.lifecycle.births import is_over
from andon.model.errors import StoreUnavailable, TaskNotFound
from andon.model.task import Task

log = logging.getLogger("andon.watching")

_AWAY_S = 0.5


class Closed(StoreUnavailable):
    """Raised to those who still wait when the engine is closed: nobody would ever tell them."""

    def __init__(self, awaited: str) -> None:
        super().__init__(f"The application was closed while {awaited} was waited for.")


async def until_ended(
    watch: Callable[[str], AsyncIterator[Task]],
    task_id: str,
    timeout: float | None,
    jitter: random.Random,
) -> Task:
    """The record as it ended.

    A store that is away is waited for, as the task is: who gave a timeout (seconds) said how long.
    Raises `TimeoutError`, and `TaskNotFound` when there is no such task.
    """
    async with asyncio.timeout(timeout):
        while True:
            try:
                async for task in watch(task_id):
                    if is_over(task.status):
                        return task
                raise TaskNotFound(task_id)
            except Closed:
                raise
            except StoreUnavailable as error:
                log.warning("Waiting for task %s and for the store: %s", task_id, error)
                await pause_away(jitter)


async def pause_away(jitter: random.Random) -> None:
    """Before a store that was away is asked again."""
    await asyncio.sleep(_AWAY_S * (0.5 + jitter.random()))
