"""Andon as it is by itself: one handler for each way in which a run may go."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from andon import Andon, Context

from . import bodies

app = Andon(retry_delay=0.05, backoff="constant")

PROGRAM = (sys.executable, "-S", "-E", str(Path(__file__).with_name("program.py")))


# --- handlers that come to an end by themselves ---


@app.task(name="work")
async def work(value: int = 0) -> int:
    return value


@app.task(name="fail")
async def fail(ctx: Context, bad_runs: int = 99) -> int:
    """Fails in its first runs."""
    if ctx.run < bad_runs:
        raise RuntimeError("out of order")
    return ctx.run


@app.task(name="collect")
async def collect(ctx: Context) -> dict[str, Any]:
    """What the dependencies came to."""
    return {id: [found.state, found.result] for id, found in ctx.dependencies.items()}


@app.task(name="quit")
async def quit_the_process() -> None:
    sys.exit(3)


@app.task(name="quit-in-thread")
def quit_in_thread() -> None:
    sys.exit(3)


@app.task(name="quit-in-process", isolation="process")
def quit_in_process() -> None:
    sys.exit(3)


@app.task(name="interrupt")
async def interrupt() -> None:
    raise KeyboardInterrupt


@app.task(name="cancel-itself")
async def cancel_itself() -> None:
    raise asyncio.CancelledError


@app.task(name="time-out-itself")
async def time_out_itself() -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(60)


@app.task(name="odd-result")
async def odd_result() -> Any:
    return object()


@app.task(name="large-result")
async def large_result() -> str:
    return "x" * 300_000


@app.task(name="odd-progress")
async def odd_progress(ctx: Context) -> None:
    ctx.progress(101)


@app.task(name="die", isolation="process")
def die(status: int = 0) -> None:
    """Takes the whole child process along."""
    if status:
        os._exit(status)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="snooze")
async def snooze(ctx: Context) -> int:
    """Wants to be started again later, the first time."""
    if ctx.run == 0:
        ctx.snooze(0.1)
    return ctx.run


@app.task(name="fence")
async def fence(ctx: Context, bad_runs: int = 0) -> int:
    """Tells its fence in the end."""
    if ctx.run < bad_runs:
        raise RuntimeError("again")
    return ctx.fence


# --- handlers that wait, one of each kind ---


@app.task(name="hold")
async def hold(ctx: Context, gate: str) -> int:
    bodies.tell(gate, f"run {ctx.run}")
    await bodies.wait(gate)
    return ctx.run


@app.task(name="hold-in-thread")
def hold_in_thread(ctx: Context, gate: str) -> int:
    bodies.wait_blocking(gate, ctx)
    return ctx.run


@app.task(name="hold-in-process", isolation="process")
def hold_in_process(ctx: Context, gate: str) -> int:
    bodies.wait_blocking(gate)
    return ctx.run


hold_command = app.command("hold-command", PROGRAM)


@app.task(name="block")
async def block(gate: str) -> str:
    """Blocks the loop of its worker."""
    bodies.wait_blocking(gate)
    return "held"


# --- handlers that do not stop when told, and those that end in their own way ---


@app.task(name="defy")
async def defy(gate: str) -> None:
    bodies.begin(gate)
    while not bodies.is_open(gate):
        try:
            await asyncio.sleep(bodies.TICK)
        except asyncio.CancelledError:
            continue


@app.task(name="defy-in-thread")
def defy_in_thread(gate: str) -> str:
    bodies.wait_blocking(gate)
    return "late"


@app.task(name="defy-in-process", isolation="process")
def defy_in_process(gate: str) -> None:
    try:
        bodies.wait_blocking(gate)
    except BaseException:  # told once, wherever it was; from then on it is killed
        bodies.wait_blocking(gate)


@app.task(name="end-when-told")
async def end_when_told(gate: str, how: str) -> str:
    """Does not stop when told, but ends: well, or not."""
    try:
        await bodies.wait(gate)
    except asyncio.CancelledError:
        if how == "fail":
            raise RuntimeError("was told to stop") from None
    return how
