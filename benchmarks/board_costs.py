"""What viewers take of the processors, for `board.py`.

How fast tasks drain says little about two percent on a shared machine (`board_drains.py`). So tasks
come at a steady rate here, less than the machine could do, and by turns nobody, one viewer, a
hundred, and nobody once more look at the first page. The work is the same in each turn; what the
service, the worker and the store's server take more of the processors in one than when nobody
looks is what the viewers take, also if it only makes the others slower.
"""

import asyncio
import itertools
import os
import random
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import board_stores
from board_drains import AGAIN, NOBODY, TURNS, VIEWERS, interval_of
from board_looking import QUEUE, looked_at
from board_served import Served
from board_stores import Filled, cpu_of

from andon.bench import producing
from andon.bench.app import noop
from andon.bench.processes import WorkerProcess
from andon.client.app import Andon

RATE = 1_000
"""Tasks a second, far less than a worker can do on any store."""

_EVERY_S = 0.1
_SETTLES_S = 2.0  # after they have come or gone: the first page of each is read at once
_PARTS = ("service", "server", "worker")

Taken = dict[str, float]


async def costs(store: Filled, turn_s: float, rounds: int) -> dict[str, Any]:
    """So many rounds of four turns, of so many seconds each; what they leave is deleted."""
    orders = list(itertools.permutations(VIEWERS))
    random.Random(7).shuffle(orders)
    served = Served(store.url)
    found: list[dict[str, Taken]] = []
    try:
        async with (
            Andon(store.url) as app,
            WorkerProcess(store.url, QUEUE, concurrency=100) as worker,
        ):
            coming = asyncio.create_task(_come(app))
            try:
                for number in range(rounds):
                    turns: dict[str, Taken] = {}
                    for name in orders[number % len(orders)]:
                        async with looked_at(served, VIEWERS[name]):
                            await asyncio.sleep(_SETTLES_S)
                            turns[name] = await _turn(served, store, worker.pid, turn_s)
                    found.append(turns)
                    print(f"  {store.kind}: {number + 1} of {rounds} rounds", file=sys.stderr)
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
        await board_stores.emptied(store.url, QUEUE)
    finally:
        served.close()
    return _told(found)


async def _come(app: Andon) -> None:
    """Tasks come at the rate, until this is cancelled."""
    handler = noop.type.handler
    assert handler is not None
    task = app.task(name=noop.name, queue=QUEUE)(handler)
    loop = asyncio.get_running_loop()
    begun, done = loop.time(), 0
    while True:
        due = int(RATE * (loop.time() - begun)) - done
        if due:
            await producing.submit(task, due, "bulk", 1)
            done += due
        await asyncio.sleep(_EVERY_S)


async def _turn(served: Served, store: Filled, worker: int, turn_s: float) -> Taken:
    """What each process took in so many seconds, in percent of one core."""

    def taken() -> list[float]:
        return [served.cpu_s, store.serving_cpu_s, cpu_of(worker)]

    loop = asyncio.get_running_loop()
    at, before = loop.time(), taken()
    await asyncio.sleep(turn_s)
    took, after = loop.time() - at, taken()
    return {part: 100 * (b - a) / took for part, a, b in zip(_PARTS, before, after, strict=True)}


def _told(found: list[dict[str, Taken]]) -> dict[str, Any]:
    """What one and a hundred take more than nobody in the same round, in percent of one core, of
    each process and of all: the medians, for a server tidies up now and then. And what nobody takes
    more than nobody."""
    told: dict[str, Any] = {
        "rounds": len(found),
        "rate": RATE,
        "cores": os.cpu_count(),
        TURNS: found,
    }
    for name in VIEWERS:
        beside = (NOBODY, AGAIN) if name not in (NOBODY, AGAIN) else (_other(name),)
        more = [
            {p: t[name][p] - statistics.fmean(t[one][p] for one in beside) for p in _PARTS}
            for t in found
        ]
        told[name] = {part: _typical([one[part] for one in more]) for part in _PARTS}
        told[name]["all"] = _typical([sum(one.values()) for one in more])
        told[name]["took"] = {
            part: round(statistics.median(t[name][part] for t in found), 2) for part in _PARTS
        }
    return told


def _other(name: str) -> str:
    return AGAIN if name == NOBODY else NOBODY


def _typical(values: Sequence[float]) -> dict[str, float]:
    return interval_of(values, statistics.median)
