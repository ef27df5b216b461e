"""One worker process of the demo: `python -m andon.demo.worker`, started by `crew`.

It stops when its standard input ends, so that no worker outlives a demo that was killed.
"""

import argparse
import asyncio
import logging
import os
import threading

from andon.demo.app import LEASE_S, app

_LAST_S = 10.0
"""Seconds after which a worker without its demo exits, whatever it has in hand."""


async def _work(queue: str, concurrency: int) -> None:
    async with app:
        worker = await app.worker(queues=(queue,), concurrency=concurrency, lease=LEASE_S)
        loop = asyncio.get_running_loop()

        def until_left_alone() -> None:
            while os.read(0, 1024):  # not through sys.stdin, whose lock outlives this thread
                pass
            loop.call_soon_threadsafe(worker.begin_stop)
            threading.Timer(_LAST_S, os._exit, (1,)).start()

        threading.Thread(target=until_left_alone, daemon=True).start()
        engine = await app.connections.engine()
        engine.keep_time()
        await worker.run()


def main() -> None:
    """Work until told to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queue", required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    asyncio.run(_work(chosen.queue, chosen.concurrency))


if __name__ == "__main__":
    main()
