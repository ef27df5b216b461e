"""cbintel's jobs over HTTP: submit and wait, poll with progress, handle failures.

Starts a service and a worker for itself; needs andon[cli,http,server].
"""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from andon import Andon, Context
from andon.client.jobs import JobsClient

app = Andon(profile="cbintel")


@app.task(name="crawl")
async def crawl(ctx: Context, query: str, pages: int = 5) -> dict[str, int]:
    for page in range(pages):
        await asyncio.sleep(0.05)
        ctx.progress(int((page + 1) / pages * 100), f"Processing URL {page + 1} of {pages}")
    return {query: pages}


@app.task(name="reach", retry_delay=0.1)
async def reach(host: str) -> None:
    raise ConnectionError("Connection timeout to upstream server")


async def submit_and_wait(client: JobsClient) -> None:
    job = await client.submit("crawl", {"query": "andon"})
    result = await client.wait(job.job_id, timeout=60)
    print(f"{result.status}: {result.result}")
    assert result.result == {"andon": 5}


async def poll_with_progress(client: JobsClient) -> None:
    job = await client.submit("crawl", {"query": "andon", "pages": 10})
    while True:
        status = await client.get(job.job_id)
        print(f"Status: {status.status}, Progress: {status.progress}%")
        if status.status in ["COMPLETED", "FAILED", "CANCELLED"]:
            break
        await asyncio.sleep(0.2)


async def handle_failures(client: JobsClient) -> None:
    job = await client.submit("reach", {"host": "upstream"}, max_retries=2)
    result = await client.wait(job.job_id)
    if result.status == "COMPLETED":
        print(f"Success: {result.result}")
    elif result.status == "FAILED":
        print(f"Failed: {result.error}")
        print(f"Attempts: {result.attempts}/{result.max_retries}")
    elif result.status == "CANCELLED":
        print("Job was cancelled")
    assert (result.status, result.attempts) == ("FAILED", 2)


@asynccontextmanager
async def service() -> AsyncGenerator[str]:
    """`andon serve` on a free port; its URL."""
    command = (sys.executable, "-m", "andon.cli", "serve", __file__, "--port", "0")
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        said = ""
        while not (url := re.search(r"at (http://\S+)", said)):
            line = await process.stderr.readline()
            assert line, said
            said += line.decode()
        yield url[1]
    finally:
        process.terminate()
        await process.communicate()


async def main() -> None:
    async with service() as url, app.working(), JobsClient(url) as client:
        await submit_and_wait(client)
        await poll_with_progress(client)
        await handle_failures(client)


if __name__ == "__main__":
    asyncio.run(main())
