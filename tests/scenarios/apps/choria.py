"""Choria asyncjobs: handlers for `email:new`, `email` and everything else."""

from typing import Any

from andon import Andon, Context, Terminate

from . import bodies

app = Andon(profile="choria")


@app.task(name="email:new")
async def email_new(ctx: Context, bad_runs: int = 0) -> str:
    """Fails in its first runs."""
    if ctx.run < bad_runs:
        raise RuntimeError("no mail server")
    return "email:new"


@app.task(name="email")
async def email() -> str:
    return "email"


@app.task(name="*")
async def anything() -> str:
    return "anything"


@app.task(name="give-up")
async def give_up(ctx: Context, bad_runs: int = 1) -> str:
    """Terminates in its first runs."""
    if ctx.run < bad_runs:
        raise Terminate("there is no such address")
    return "went on"


@app.task(name="hold")
async def hold(gate: str) -> str:
    await bodies.wait(gate)
    return "held"


@app.task(name="collect")
async def collect(ctx: Context) -> dict[str, Any]:
    """What the dependencies gave."""
    return {id: found.result for id, found in ctx.dependencies.items()}
