"""Jobbers: errors are retried where they were expected, and one run per type and worker."""

import asyncio

from andon import Andon, Context

from . import bodies

app = Andon(profile="jobbers")


@app.task(name="work")
async def work(value: int = 0) -> int:
    return value


@app.task(name="fetch", retry_on=(ConnectionError,))
async def fetch(ctx: Context, bad_runs: int) -> int:
    """Fails as expected in its first runs."""
    if ctx.run < bad_runs:
        raise ConnectionError("no route")
    return ctx.run


@app.task(name="buggy", retry_on=(ConnectionError,))
async def buggy(ctx: Context, bad_runs: int) -> int:
    """Fails unexpectedly in its first runs."""
    if ctx.run < bad_runs:
        raise KeyError("a bug")
    return ctx.run


@app.task(name="hold")
async def hold(gate: str) -> str:
    await bodies.wait(gate)
    return "held"


@app.task(name="beat")
async def beat(ctx: Context, gate: str) -> None:
    """Gives a sign of life all the time."""
    holding = asyncio.ensure_future(bodies.wait(gate))
    while not holding.done():
        ctx.heartbeat()
        await asyncio.sleep(bodies.TICK)
    await holding


@app.task(name="pair", max_concurrent=2)
async def pair(gate: str) -> None:
    await bodies.wait(gate)


@app.task(name="fetch-then-hold", retry_on=(ConnectionError,))
async def fetch_then_hold(ctx: Context, gate: str) -> None:
    """Fails once, then waits, having given a sign of life."""
    if ctx.run == 0:
        raise ConnectionError("no route")
    ctx.heartbeat()
    await bodies.wait(gate)


@app.task(name="hold-then-fail")
async def hold_then_fail(gate: str) -> None:
    await bodies.wait(gate)
    raise KeyError("a bug")
