"""Lists by due time, of tasks that wait for a time: kept by every write, corrected if one was not.

A release that does not know these lists does not write them, and tasks that it stored are not in
them. So a reader compares the length of a list with that of the list of the same state, and
corrects it if they differ. While both releases write, a task may be missing from a list until then.
"""

import asyncio
import itertools
from collections.abc import Sequence

from andon.model.words import State
from andon.stores.redis.partitions import Partitions

_AT_ONCE = 200
"""How many lists one script compares."""


async def due_lists(at: Partitions, queues: Sequence[str], states: Sequence[State]) -> list[str]:
    """The lists of these queues and states, all of them correct."""
    names = [f"{queue}|{state.value}" for queue in queues for state in states]

    async def some(partition: int, names: Sequence[str]) -> None:
        for name in (await at.run("due_differs", partition, names))[1:]:
            queue, _, state = name.decode().rpartition("|")
            await _repair(at, partition, queue, state)

    pages = [names[i : i + _AT_ONCE] for i in range(0, len(names), _AT_ONCE)]
    await asyncio.gather(*(some(*each) for each in itertools.product(range(at.count), pages)))
    return [f"due:{name}" for name in names]


async def _repair(at: Partitions, partition: int, queue: str, state: str) -> None:
    for sweeps in (False, True):
        position = "0"
        while True:
            asked = (queue, state, position, sweeps)
            position = (await at.run("due_repair", partition, asked))[1].decode()
            if position == "0":
                break
