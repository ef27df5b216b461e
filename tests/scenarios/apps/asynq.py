"""asynq: every error is retried, panics too."""

from andon import Andon, Context

from . import bodies

app = Andon(profile="asynq")


@app.task(name="email:deliver")
async def deliver(ctx: Context, bad_runs: int = 0) -> int:
    """Returns an error in its first runs."""
    if ctx.run < bad_runs:
        raise RuntimeError("mailbox full")
    return ctx.run


@app.task(name="image:resize")
def resize(ctx: Context, bad_runs: int = 0) -> int:
    """Panics in its first runs."""
    if ctx.run < bad_runs:
        raise SystemExit("panic")
    return ctx.run


@app.task(name="hold")
async def hold(gate: str) -> str:
    await bodies.wait(gate)
    return "held"
