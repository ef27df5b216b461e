"""The application that tests serve and run."""

import asyncio

from andon import Andon
from andon.worker.context import Context

app = Andon()


@app.task(name="add")
async def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(name="hold", max_retries=5, retry_delay=0, lease=2)
async def hold(seconds: float, context: Context) -> int:
    await asyncio.sleep(seconds)
    return context.run
