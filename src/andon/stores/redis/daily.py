"""The daily history: one hash for each UTC day, `daily:DAY`, with a field for each tally of each
queue; `days` names the existing ones. The scripts that write events add to it in the same step.
"""

import asyncio

from andon.lifecycle.daily import Tally, day_of, first_day
from andon.model.fleet import Tallied
from andon.stores.redis.partitions import Partitions


async def read(at: Partitions, queue: str | None, since: int) -> list[Tallied]:
    """The counts of a queue, or of all, from a day on; each partition by itself."""
    days = range(since, day_of(at.clock.now()) + 1)
    look = _of_all if queue is None else _of_queue
    parts = await asyncio.gather(
        *(look(at, p, d, queue or "") for p in range(at.count) for d in days)
    )
    return [one for part in parts for one in part]


async def _of_queue(at: Partitions, partition: int, day: int, queue: str) -> list[Tallied]:
    fields = [f"{tally}|{queue}" for tally in Tally]
    counts = await at.look(partition, b"HMGET", f"daily:{day}", *fields)
    return [
        Tallied(queue, day, tally, int(count))
        for tally, count in zip(Tally, counts, strict=True)
        if count is not None
    ]


async def _of_all(at: Partitions, partition: int, day: int, _queue: str) -> list[Tallied]:
    flat = await at.look(partition, b"HGETALL", f"daily:{day}")
    found: list[Tallied] = []
    for field, count in zip(flat[::2], flat[1::2], strict=True):
        tally, _, queue = field.decode().partition("|")
        found.append(Tallied(queue, day, tally, int(count)))
    return found


async def trim(at: Partitions) -> None:
    """Drop the days that are no longer kept."""
    first = first_day(at.clock.now())
    for partition in range(at.count):
        days = await at.look(partition, b"SMEMBERS", "days")
        if any(int(day) < first for day in days):
            await at.run("trim_daily", partition, (first,))
