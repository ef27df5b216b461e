"""Work that several wait for."""

import asyncio
import gc
from typing import Any

import pytest

from andon.coroutines.shared_future import shared


async def test_who_goes_away_leaves_the_work_to_the_others() -> None:
    work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    leaver, other = asyncio.ensure_future(shared(work)), asyncio.ensure_future(shared(work))
    await asyncio.sleep(0)
    leaver.cancel()
    work.set_result(1)
    assert await other == 1
    assert leaver.cancelled()


async def test_a_failure_is_raised_for_everybody_who_waits() -> None:
    work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = [asyncio.ensure_future(shared(work)) for _ in range(2)]
    await asyncio.sleep(0)
    work.set_exception(OSError("away"))
    for one in waiting:
        with pytest.raises(OSError, match="away"):
            await one


async def test_a_failure_that_nobody_is_left_to_hear_is_not_logged() -> None:
    loop = asyncio.get_running_loop()
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    work: asyncio.Future[int] = loop.create_future()
    waiting = asyncio.ensure_future(shared(work))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    work.set_exception(OSError("away"))
    await asyncio.sleep(0)
    del work, waiting
    gc.collect()
    assert told == []
