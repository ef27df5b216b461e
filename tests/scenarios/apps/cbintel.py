"""cbintel: jobs with progress; timeouts and network errors are retried."""

from andon import Andon, Context, Terminate

from . import bodies

app = Andon(profile="cbintel")


class UpstreamError(Exception):
    """Carries the code that the job's rules look at."""

    def __init__(self, code: str) -> None:
        super().__init__("Connection timeout to upstream server")
        self.code = code


@app.task(name="crawl")
async def crawl(ctx: Context, bad_runs: int = 0, code: str = "NETWORK_ERROR") -> dict[str, int]:
    """Fails in its first runs."""
    if ctx.run < bad_runs:
        ctx.progress(45, "Processing URL 23 of 50")
        raise UpstreamError(code)
    return {"pages": 50}


@app.task(name="crawl-slowly")
async def crawl_slowly(ctx: Context, gate: str) -> dict[str, int]:
    """Half way it waits."""
    ctx.progress(45, "Processing URL 23 of 50")
    await bodies.wait(gate)
    for i in range(24, 51):
        ctx.progress(int(i / 50 * 100), f"Processing URL {i} of 50")
    return {"pages": 50}


@app.task(name="give-up")
async def give_up() -> None:
    raise Terminate("there is nothing to crawl")
