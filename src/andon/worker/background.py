"""Loops that must not end: an error of one round is logged, and the next round follows after a
wait."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from andon.model.errors import ConfigurationError, StoreError, StoreUnavailable
from andon.worker.backoff import Backoff

logger = logging.getLogger("andon.worker")


async def keep_on(what: str, once: Callable[[], Awaitable[None]], rng: random.Random) -> None:
    """Run `once` again and again until cancelled. `what` names it in the log."""
    backoff = Backoff(rng)
    while True:
        if await attempt(what, once):
            backoff.succeeded()
        else:
            await asyncio.sleep(backoff.failed())


async def until_done(what: str, work: Callable[[], Awaitable[None]], rng: random.Random) -> None:
    """Do `work` again until it returns without an error. `what` names it in the log."""
    backoff = Backoff(rng)
    while True:
        if await attempt(what, work):
            return
        await asyncio.sleep(backoff.failed())


async def attempt(what: str, once: Callable[[], Awaitable[None]]) -> bool:
    """Run `once`; False, and a line in the log, if it failed."""
    try:
        await once()
    except StoreUnavailable as error:
        logger.warning("%s: the store did not answer, trying again: %s", what, error)
        return False
    except (StoreError, ConfigurationError) as error:  # for example a changed password
        logger.error("%s: the store refuses, trying again: %s", what, error)
        return False
    except (Exception, asyncio.CancelledError) as error:
        if is_asked_to_end(error):
            raise
        logger.exception("%s failed; it goes on.", what)
        return False
    return True


def is_asked_to_end(error: BaseException) -> bool:
    """Whether the running asyncio task itself was cancelled. A future that it awaited may have been
    cancelled by another owner instead, which is no reason for a loop to end."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
