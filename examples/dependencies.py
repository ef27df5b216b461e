"""Tasks that wait for others: three pages are fetched, then one report is made of them."""

import asyncio

from andon import Andon, Context

app = Andon()


@app.task
async def fetch(page: int) -> int:
    return page * 100


@app.task
async def report(ctx: Context, title: str) -> str:
    words = [parent.result for parent in ctx.dependencies.values()]
    return f"{title}: {sum(words)} words on {len(words)} pages"


async def main() -> None:
    async with app, app.working():
        pages = [fetch.draft(page) for page in (1, 2, 3)]
        summary = report.options(depends_on=pages, load_dependencies=True).draft("Monday")
        await app.submit_many([*pages, summary])  # one round trip; parents are stored first
        print(await app.handle(summary.id, report).result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
