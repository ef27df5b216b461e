"""Submits tasks in each of the ways that are measured. All of them await what they submit."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from typing import Any, Literal

from andon.client.function import TaskFunction

How = Literal["single", "concurrent", "bulk"]

Noop = TaskFunction[[int], Any, Any]


async def submit(task: Noop, n: int, how: How, coroutines: int) -> list[str]:
    """Submit `n` calls; the ids of what was stored."""
    if how == "bulk":
        return await _bulk(task, n)
    if how == "single":
        return [(await task.submit(number)).id for number in range(n)]
    return await _concurrent(task, n, coroutines)


async def _bulk(task: Noop, n: int) -> list[str]:
    ids: list[str] = []
    async for some in task.app.submit_stream(task.draft(number) for number in range(n)):
        for outcome in some:
            if outcome.error is not None:
                raise outcome.error
            ids.append(outcome.id)
    return ids


async def _concurrent(task: Noop, n: int, coroutines: int) -> list[str]:
    numbers = iter(range(n))
    mine = (_one_of_many(task, numbers) for _ in range(min(coroutines, n)))
    return list(itertools.chain.from_iterable(await asyncio.gather(*mine)))


async def _one_of_many(task: Noop, numbers: Iterator[int]) -> list[str]:
    return [(await task.submit(number)).id for number in numbers]


async def submit_paced(task: Noop, n: int, rate: float) -> list[str]:
    """Submit `n` calls at `rate` a second, each carrying the time it was sent."""
    ids: list[str] = []
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(n):
        await asyncio.sleep(max(begun + number / rate - loop.time(), 0))
        ids.append((await task.submit(time.time_ns())).id)
    return ids
