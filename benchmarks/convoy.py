"""Do CPU-bound handlers in threads keep the store's writer waiting for the interpreter's lock?

One worker, `THREADS` handlers that compute in pure Python without end, and no-op tasks to be
worked off beside them, for several switch intervals in turn. Says how many no-ops are completed a
second and how much the handlers got done meanwhile. `python convoy.py [ROUNDS] [THREADS]`.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from andon.client.app import Andon
from andon.worker.context import Context

INTERVALS_MS = (5.0, 1.0, 0.5, 0.1)
SECONDS = 3.0
BATCH = 100


async def once(interval_ms: float, threads: int) -> tuple[float, float]:
    """No-ops completed a second, and millions of loop turns a second in the handlers."""
    sys.setswitchinterval(interval_ms / 1000)
    turns = [0]
    with tempfile.TemporaryDirectory(prefix="andon-convoy-") as folder:
        async with Andon(f"sqlite:///{Path(folder) / 'convoy.db'}") as app:

            @app.task(name="burn", queue="convoy", priority=5)
            def burn(context: Context) -> None:
                while not context.is_cancelled:
                    sum(range(1_000))
                    turns[0] += 1_000

            @app.task(name="noop", queue="convoy")
            async def noop(number: int) -> None: ...

            burning = await app.submit_many(burn.draft() for _ in range(threads))
            await app.submit_many(noop.draft(i) for i in range(30_000))
            worker = await app.worker(queues=["convoy"], concurrency=BATCH + threads)
            await worker.start()
            await asyncio.sleep(0.5)
            engine = await app.engine()
            before, turned, begun = await _completed(engine), turns[0], time.perf_counter()
            await asyncio.sleep(SECONDS)
            after, seconds = await _completed(engine), time.perf_counter() - begun
            done = (turns[0] - turned) / seconds / 1e6
            for handle in burning:
                await handle.cancel()
            await worker.stop()
    return (after - before) / seconds, done


async def _completed(engine) -> int:
    return (await engine.stats())[0].counts.get("completed", 0)


def main(rounds: int, threads: int) -> None:
    found: dict[float, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for interval in INTERVALS_MS:
            found.setdefault(interval, []).append(asyncio.run(once(interval, threads)))
    for interval, outcomes in found.items():
        rates = [rate for rate, _ in outcomes]
        turns = statistics.median(turn for _, turn in outcomes)
        print(
            f"{threads} threads, {interval:3.1f} ms: {statistics.median(rates):7,.0f} no-ops/s "
            f"({min(rates):,.0f} to {max(rates):,.0f}), handlers {turns:5.1f} M turns/s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, int(sys.argv[2]) if len(sys.argv) > 2 else 2)
