"""The application of `bearing.py`: tasks that do nothing but bear tasks."""

import os

from andon import Andon, Context

app = Andon(os.environ.get("ANDON_URL", "memory://"), name="bearing", release="1")

LEASE_S = float(os.environ.get("BEARING_LEASE_S", "30"))
"""How soon a worker that was killed is missed. Short only where workers are killed: a worker claims
all its tasks for the shortest lease of any."""


@app.task(name="count")
async def count(number: int) -> int:
    return number + 1


@app.task(name="sum")
async def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(name="tick", lease=LEASE_S, max_retries=1_000, retry_delay=0.1)
async def tick() -> None:
    """One occurrence."""


@app.task(name="scan", max_retries=1, retry_delay=None)
async def scan(ctx: Context, size: int, how: str = "completes") -> str:
    """Fan out so many tasks; the run fails for good, or fails once and fans out no more."""
    if how == "fails once" and ctx.run:
        return ""
    with app.flow("fan") as flow:
        flow.add(total, flow.map(count, range(size)).results)
    handle = await ctx.fan_out(flow)
    if how != "completes":
        raise ValueError(handle.id)
    return handle.id


@app.task(name="bears")
async def bears(ctx: Context, number: int) -> None:
    ctx.follow_up(count.draft(number))


@app.task(name="submits")
async def submits(number: int) -> None:
    await count.submit(number)
