"""What the worker processes run. They write into the folder they are started in."""

import asyncio
import os
from pathlib import Path

from andon import Andon, Context

LEASE = 3.0
TICK = 0.02

app = Andon(max_retries=100, retry_delay=0.05, backoff="constant", lease=LEASE)


def say(*words: object) -> None:
    """Append a line, which is there or is not whatever happens to the process."""
    file = os.open("done", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, (" ".join(map(str, words)) + "\n").encode())
    os.close(file)


def begin(gate: str) -> None:
    """Let the test know that a handler runs."""
    Path(f"{gate}.begun").touch()


def is_open(gate: str) -> bool:
    return Path(gate).exists()


@app.task
async def step(ctx: Context, pause: float = 0.0) -> int:
    """Work a little, and say that it was done."""
    await asyncio.sleep(pause)
    say(ctx.task_id, ctx.run, ctx.fence)
    return ctx.fence


@app.task
async def hold(ctx: Context, gate: str) -> int:
    """Work until the gate is opened."""
    begin(gate)
    while not is_open(gate):  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(TICK)
    say(ctx.task_id, ctx.run, ctx.fence)
    return ctx.fence
