"""What viewers cost the tasks that drain meanwhile, for `board.py`.

Whole drains with and without viewers cannot show two percent: on a shared machine two alike differ
by ten. So one drain is looked at by turns: nobody, one viewer, a hundred, and nobody once more, a
second each and in another order each time. Each turn is compared with those of nobody in the
same drain, and these with each other: that interval says what the machine adds.
"""

import asyncio
import itertools
import math
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import board_stores
import store_servers
from board_looking import QUEUE, left, looked_at
from board_served import Served
from board_stores import Filled, cpu_of

from andon.bench import producing
from andon.bench.app import noop
from andon.bench.processes import WorkerProcess
from andon.client.app import Andon

NOBODY, AGAIN = "nobody", "nobody again"
VIEWERS = {NOBODY: 0, "1": 1, "100": 100, AGAIN: 0}
TURNS = "turns"  #: the part of the result that is for a file, and not to be printed
_SETTLES_S = 0.25  # after they have come or gone
_GUESS = 8_000.0  # tasks a second, of the first drain
_SPARE = 1.15  # the machine may go faster than in the last drain
_DRAWS = 2_000
_SETTLED_EVERY = 16
"""After so many drains a server may tidy up. A log of Redis grows with each, and with tens of
gigabytes of it the server does not answer for many seconds."""

Turn = dict[str, float]


async def viewers(store: Filled, turn_s: float, drains: int, *, delete: bool) -> dict[str, Any]:
    """So many drains, looked at by turns of so many seconds; what they leave is deleted."""
    orders = list(itertools.permutations(VIEWERS))
    random.Random(7).shuffle(orders)
    blocks: list[dict[str, Turn]] = []
    rate = _GUESS
    served = Served(store.url)
    try:
        async with (
            Andon(store.url) as app,
            WorkerProcess(store.url, QUEUE, concurrency=100) as worker,
        ):
            meter = _Meter(app, served, worker, store)
            tries = 0
            while len(blocks) < drains and (tries := tries + 1) <= 2 * drains:
                tasks = int(rate * _SPARE * len(VIEWERS) * (turn_s + 2 * _SETTLES_S))
                async with _draining(app, tasks):
                    block = await _block(meter, orders[tries % len(orders)], turn_s)
                if delete:
                    await board_stores.emptied(store.url, QUEUE)
                if tries % _SETTLED_EVERY == 0:
                    await asyncio.to_thread(store_servers.settle, store.kind, store.url)
                rate = max(turn["rate"] for turn in block.values())
                if all(turn["left"] for turn in block.values()) and tries > 1:
                    blocks.append(block)  # the first one warms what the others find warm
                print(f"  {store.kind}: {len(blocks)} of {drains} drains", file=sys.stderr)
    finally:
        served.close()
    return _told(blocks)


@asynccontextmanager
async def _draining(app: Andon, tasks: int) -> AsyncIterator[None]:
    """A worker drains so many tasks for as long as the block lasts, and then the rest of them."""
    handler = noop.type.handler
    assert handler is not None
    await app.queues.pause(QUEUE)
    await producing.submit(app.task(name=noop.name, queue=QUEUE)(handler), tasks, "bulk", 1)
    await app.queues.resume(QUEUE)
    await asyncio.sleep(_SETTLES_S)
    yield
    engine = await app.engine()
    while await left(engine):  # noqa: ASYNC110 - another process ends them
        await asyncio.sleep(0.05)


async def _block(meter: "_Meter", order: Sequence[str], turn_s: float) -> dict[str, Turn]:
    block: dict[str, Turn] = {}
    for name in order:
        async with looked_at(meter.served, VIEWERS[name]):
            await asyncio.sleep(_SETTLES_S)
            block[name] = await meter.turn(turn_s)
        await asyncio.sleep(_SETTLES_S)
    return block


class _Meter:
    """What is done, and what it takes, in a turn."""

    def __init__(self, app: Andon, served: Served, worker: WorkerProcess, store: Filled) -> None:
        self._app, self.served, self._worker, self._store = app, served, worker, store

    async def turn(self, seconds: float) -> Turn:
        before = await self._now()
        await asyncio.sleep(seconds)
        after = await self._now()
        took, done = after["at"] - before["at"], before["left"] - after["left"]
        service, ran, server = (after[of] - before[of] for of in ("service", "worker", "server"))
        return {
            "left": after["left"],
            "rate": done / took,
            "cpu_percent": 100 * service / took,
            "looking_percent": 100 * (after["looking"] - before["looking"]) / took,
            "task_us": 1e6 * (ran + server) / max(done, 1),
            "rss_mb": self.served.rss_mb,
        }

    async def _now(self) -> dict[str, float]:
        return {
            "left": await left(await self._app.engine()),
            "at": time.perf_counter(),
            "looking": time.process_time(),
            "service": self.served.cpu_s,
            "worker": cpu_of(self._worker.pid),
            "server": self._store.server_cpu_s,
        }


def _told(blocks: Sequence[dict[str, Turn]]) -> dict[str, Any]:
    """The medians of each, the ratios to nobody of the same drain, and all that was measured."""
    told: dict[str, Any] = {"drains": len(blocks), TURNS: blocks}
    for name in VIEWERS:
        turns = [block[name] for block in blocks]
        told[name] = {of: round(statistics.median(t[of] for t in turns), 2) for of in turns[0]}
        for what in ("rate", "task_us"):
            ratio = _beside_the_other if name in (NOBODY, AGAIN) else _beside_both
            told[name][f"{what}_beside_nobody"] = _mean([ratio(b, name, what) for b in blocks])
    return told


def _beside_both(block: dict[str, Turn], name: str, what: str) -> float:
    return block[name][what] / math.sqrt(block[NOBODY][what] * block[AGAIN][what])


def _beside_the_other(block: dict[str, Turn], name: str, what: str) -> float:
    return block[name][what] / block[AGAIN if name == NOBODY else NOBODY][what]


def _mean(ratios: Sequence[float]) -> dict[str, float]:
    """The geometric mean, and its interval."""
    logs = interval_of([math.log(one) for one in ratios], statistics.fmean)
    return {of: round(math.exp(one), 3) for of, one in logs.items()}


def interval_of(
    values: Sequence[float], middle: Callable[[Sequence[float]], float]
) -> dict[str, float]:
    """The mean (or another middle), and the interval that holds 95 % of those of as many values
    drawn anew."""
    rng = random.Random(1)
    drawn = sorted(middle(rng.choices(values, k=len(values))) for _ in range(_DRAWS))
    low, high = drawn[_DRAWS * 25 // 1_000], drawn[-_DRAWS * 25 // 1_000]
    return {"mean": round(middle(values), 4), "low": round(low, 4), "high": round(high, 4)}
