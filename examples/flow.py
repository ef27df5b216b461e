"""A flow: twenty pages are fetched, added up, and the sum is published; and what happens when one
of them cannot be had."""

import asyncio

from andon import Andon, Context

app = Andon()
GONE = {13}


@app.task(max_retries=0)
async def fetch(page: int) -> int:
    if page in GONE:
        raise LookupError(f"page {page} is gone")
    return 100 * page


@app.task
async def aggregate(words: list[int], title: str) -> str:
    return f"{title}: {sum(words)} words on {len(words)} pages"


@app.task
async def publish(ctx: Context, text: str) -> str:
    ctx.log.info("publishing %s", text)
    return f"published {text!r}"


async def main() -> None:
    with app.flow("monday") as flow:
        pages = flow.map(fetch, range(1, 21))
        report = flow.add(aggregate, pages.results, title="Monday")
        flow.add(publish, report.result)
    async with app, app.working():
        handle = await flow.submit()
        async for task, words in handle.results(pages):  # as they come
            if words is None:
                print(task.args["page"], task.state, task.error and task.error.message)
        async for _ in handle.results():
            pass  # all of it has ended: nothing waits for what cannot come
        for node in await handle.tree():
            print(node.name, node.count, node.states)

        GONE.clear()
        await handle.rerun()  # what failed, and what follows it; nineteen pages are kept
        print(await handle.result(timeout=60))
        progress = await handle.progress()
        print(f"{progress.percent} %: {progress.completed} of {progress.total} completed")


if __name__ == "__main__":
    asyncio.run(main())
