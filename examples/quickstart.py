"""Submit two tasks, run them with a worker in this process, and take their results."""

import asyncio

from andon import Andon, Context

app = Andon()  # ANDON_URL, else sqlite:///andon.db in the current folder


@app.task(max_retries=5, timeout=60)
async def greet(ctx: Context, name: str) -> str:
    ctx.progress(50, "thinking of something kind")
    return f"Hello, {name}!"


async def main() -> None:
    async with app, app.working():
        handles = [await greet.submit(name) for name in ("Ann", "Bob")]
        for handle in handles:
            print(await handle.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
