"""Taskcluster: only what is intermittent is tried again."""

import os
import signal

from andon import Andon, Context, Retry

from . import bodies

app = Andon(profile="taskcluster", deadline_required=True)


@app.task(name="build")
async def build(commit: int = 0) -> int:
    return commit


@app.task(name="fail")
async def fail(ctx: Context, bad_runs: int = 99) -> int:
    """The tests fail in the first runs."""
    if ctx.run < bad_runs:
        raise RuntimeError("tests failed")
    return ctx.run


@app.task(name="flaky")
async def flaky(ctx: Context, bad_runs: int = 1) -> int:
    """Says of its first runs that another may do better."""
    if ctx.run < bad_runs:
        raise Retry(message="the network was down")
    return ctx.run


@app.task(name="crash", isolation="process")
def crash() -> None:
    """The worker's own machinery breaks."""
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(name="hold")
async def hold(ctx: Context, gate: str) -> int:
    bodies.tell(gate, f"run {ctx.run}")
    await bodies.wait(gate)
    return ctx.run
