"""What handlers do in scenarios. A gate is a path: who waits at it says so in `.begun`."""

import asyncio
import time
from pathlib import Path

from andon import Context

TICK = 0.01


def begin(gate: str) -> None:
    """Let the test know that the handler runs."""
    Path(gate + ".begun").touch()


def tell(gate: str, what: str) -> None:
    """Leave a word for the test."""
    with Path(gate + ".told").open("a") as file:
        file.write(f"{what}\n")


async def wait(gate: str) -> None:
    """Wait for the test to open the gate."""
    begin(gate)
    while not is_open(gate):  # noqa: ASYNC110 - the test is another process
        await asyncio.sleep(TICK)


def is_open(gate: str) -> bool:
    return Path(gate).exists()


def wait_blocking(gate: str, ctx: Context | None = None) -> None:
    """The same without the loop; with a context, until told to stop."""
    begin(gate)
    while not is_open(gate):
        if ctx is not None:
            ctx.raise_if_cancelled()
        time.sleep(TICK)
