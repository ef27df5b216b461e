"""The shop in which the examples of the reference take place."""

from andon import Andon, Context, Snooze, Terminate

app = Andon("memory://")


@app.task(name="charge", retry_delay=60)
async def charge(order: int, cents: int) -> str:
    if cents <= 0:
        raise Terminate("nothing to charge")
    return f"order {order} paid"


@app.task(name="remind", queue="mail")
async def remind(ctx: Context, to: str) -> str:
    ctx.log.info("reminding %s", to)
    await ctx.artifact("mail.txt", f"Dear {to}, …")
    return f"{to} reminded"


@app.task(name="report", load_dependencies=True)
async def report(ctx: Context) -> list[str]:
    return [parent.result for parent in ctx.dependencies.values()]


@app.task(name="poll")
async def poll(ctx: Context, url: str) -> None:
    if ctx.run == 0:
        raise Snooze(3600)  # not there yet; ask again in an hour
