"""What flows cost: a chain, and a fan-out and back, by processor time, each twice as large.

    python benchmarks/flows.py [--url sqlite:///:temporary:] [--sizes 1000,2000,4000]

One process submits and works, so that its processor time is all there is (a server's own is not in
it). Every task is counted by its result: a chain of n counts to n, the closing task of a fan-out
adds up all that its members returned. The last column is the cost of a task beside that in the row
before: near 1 it is linear. Wall time is given for the eye only.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from andon import Andon

_PATIENCE_S = 3_600.0


def declared(url: str) -> Andon:
    """The application that is measured."""
    app = Andon(url)

    @app.task(name="count")
    async def count(number: int) -> int:  # pyright: ignore[reportUnusedFunction]
        return number + 1

    @app.task(name="sum")
    async def total(numbers: list[int]) -> int:  # pyright: ignore[reportUnusedFunction]
        return sum(numbers)

    return app


async def chain(app: Andon, size: int) -> bool:
    """Each task counts on from the one before."""
    count = app.functions["count", 0]
    with app.flow("chain") as flow:
        step = flow.add(count, 0)
        for _ in range(size - 1):
            step = flow.add(count, step.result)
    handle = await flow.submit()
    return await handle.result(timeout=_PATIENCE_S) == size


async def fan(app: Andon, size: int) -> bool:
    """As many side by side, and one that adds them up."""
    count, total = app.functions["count", 0], app.functions["sum", 0]
    with app.flow("fan") as flow:
        flow.add(total, flow.map(count, range(size - 1)).results)
    handle = await flow.submit()
    return await handle.result(timeout=_PATIENCE_S) == size * (size - 1) // 2


async def asked(app: Andon, size: int) -> bool:
    """How far a flow is, asked once; nothing runs."""
    with app.flow("asked") as flow:
        flow.map(app.functions["count", 0].options(queue="nobody"), range(size))
    handle = await flow.submit()
    began = time.process_time()
    found = await handle.progress()
    print(f"    progress of {size:,} read in {time.process_time() - began:.2f} s of processor time")
    return found.total == size == len((await handle.tree())[0].ids) + size - 10


async def measured(kind: str, size: int, url: str) -> float:
    """Processor seconds for a task."""
    app = declared(url)
    async with app:
        began, clock = time.process_time(), time.monotonic()
        if kind == "asked":
            held = await asked(app, size)
        else:
            async with app.working():
                held = await {"chain": chain, "fan": fan}[kind](app, size)
        if not held:
            raise AssertionError(f"{kind} of {size}: the count is wrong")
        used, took = time.process_time() - began, time.monotonic() - clock
    each = 1e6 * used / size
    print(f"{kind:6} {size:>7,} {used:9.2f} s {each:9.0f} us a task {took:9.2f} s wall")
    return used / size


async def main() -> None:
    """Measure each kind in each size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="", help="The store; a new SQLite file by default.")
    parser.add_argument("--sizes", default="1000,2000,4000", help="Tasks of each flow.")
    parser.add_argument("--kinds", default="chain,fan,asked", help="Which of the three.")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    for kind in given.kinds.split(","):
        before = 0.0
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                url = given.url or f"sqlite:///{Path(folder) / 'flows.db'}"
                cost = await measured(kind, size, url)
            if before:
                print(f"    {cost / before:.2f} of the cost of a task before")
            before = cost


if __name__ == "__main__":
    asyncio.run(main())
