"""What a worker opens before its first run and closes after its last, and what wraps each run."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from andon import Andon, Context
from andon.engine.base import Submission


class Pool:
    """Stands for a pool of connections."""

    def __init__(self) -> None:
        self.is_open = True

    async def fetch(self, order: int) -> str:
        assert self.is_open
        return f"order {order}"


pools: list[Pool] = []


@asynccontextmanager
async def database() -> AsyncGenerator[None]:
    pool = Pool()
    pools.append(pool)
    yield
    pool.is_open = False


class Tenant:
    """Stamps each submission, and refuses those of nobody."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_submit(self, submission: Submission) -> Submission:
        if not self.name:
            raise PermissionError(f"Task {submission.name} was submitted for nobody.")
        return replace(submission, headers={**submission.headers, "tenant": self.name})


class Timed:
    """Tells how long each run took, however it ended."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def around(self, context: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
        began = time.monotonic()
        try:
            return await call_next()
        finally:
            self.told.append(
                f"{context.name}, try {context.attempt}: {time.monotonic() - began:g} s"
            )


timed = Timed()
app = Andon(lifespan=database, middleware=[Tenant("acme"), timed])


@app.on_worker_start
async def warm_up() -> None:
    await pools[-1].fetch(0)


@app.on_worker_stop
def say_goodbye() -> None:
    print("the last run is over, the pool is still open:", pools[-1].is_open)


@app.task(name="look-up")
async def look_up(order: int) -> str:
    return await pools[-1].fetch(order)


async def main() -> None:
    async with app:
        async with app.working():
            handle = await look_up.submit(7)
            assert await handle.result(timeout=30) == "order 7"
        assert (await handle.get()).headers == {"tenant": "acme"}
    assert not pools[-1].is_open
    print(*timed.told, sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
