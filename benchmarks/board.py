"""The board over a store with many tasks: its pages, who looks at it, and what that costs.

    python benchmarks/board.py KIND [--tasks N] [--only pages,paint,viewers,streams]

The store is filled with N tasks (a million if none is said), then served by `andon serve` in a
process of its own.

pages    each page is asked for over HTTP, in turn, so that what one read lately serves few others
paint    each page in Chromium: when something is seen of it first; and the one failure of its name
         is found, read and run again, counting the clicks
viewers  a worker drains tasks while nobody, one, and a hundred look at the first page; rounds in
         turn. Beside the rate, what processor time and memory of the service that takes. Who looks
         is in the process of this script, which has its own share of the processors
streams  a thousand streams of that page are open at once

Every part is printed beside the load of the machine. On a busy one times say little; processor
time of the service (`cpu`, ms a page; it is counted in steps of 10 ms, so ask for many rounds)
says more.
"""

import argparse
import asyncio
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import board_filling
import httpx
import psutil
import store_servers

from andon.bench import producing
from andon.bench.app import noop
from andon.bench.processes import WorkerProcess
from andon.client.app import Andon
from andon.stores.registry import open_store

PARTS = ("pages", "paint", "viewers", "streams")
QUEUE = "drained"
WARMING = 3
_START_S = 60.0

PAGES = {
    "andon": "/",
    "tasks": "/tasks",
    "tasks: failed": "/tasks?state=failed",
    "tasks: failed of one name": f"/tasks?state=failed&name={board_filling.NEEDLE_NAME}",
    "tasks: failed of a frequent name": "/tasks?state=failed&name=bench.step0",
    "tasks: of one queue": "/tasks?queue=queue-3&state=pending",
    "tasks: of a key": "/tasks?key=customer-10",
    "tasks: of a group": f"/tasks?group={board_filling.FLOW}",
    "tasks: of a frequent tag": "/tasks?tag=web",
    "tasks: of a rare tag": "/tasks?tag=rare",
    "tasks: id begins so, few": "/tasks?id=needle",
    "tasks: id begins so, most": "/tasks?id=0",
    "tasks: due first": "/tasks?state=scheduled",
    "task": f"/tasks/{board_filling.NEEDLE}",
    "dead letters": "/dead-letters",
    "dead letters, listed": "/dead-letters/list",
    "queues": "/queues",
    "queue": "/queues/queue-3",
    "workers": "/workers",
    "schedules": "/schedules",
    "flows": "/flows",
    "flow": f"/flows/{board_filling.FLOW}",
    "tokens": "/tokens",
    "audit": "/audit",
    "doctor": "/doctor",
    "search: an id": f"/search?q={board_filling.NEEDLE}",
    "search: how an id begins": "/search?q=needle-",
}
CUT = {"tasks: of a name alone": f"/tasks?name={board_filling.NEEDLE_NAME}"}
"""No index has these: the look is cut after a time, with a way on."""


class Served:
    """`andon serve` over a store."""

    def __init__(self, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = Path(__file__).with_name("service_app.py")
        command = [sys.executable, "-m", "andon", "serve", str(app), "--port", str(self.port)]
        self._process = subprocess.Popen(
            command, env={**os.environ, "ANDON_URL": url}, stdout=subprocess.DEVNULL
        )
        self.stats = psutil.Process(self._process.pid)
        until = time.monotonic() + _START_S
        while True:
            try:
                httpx.get(self.url, timeout=_START_S).raise_for_status()
                return
            except httpx.TransportError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise SystemExit("The service did not start; what it said is above.") from None
                time.sleep(0.1)

    @property
    def cpu_s(self) -> float:
        """Processor time that it has taken so far."""
        return sum(self.stats.cpu_times()[:2])

    @property
    def rss_mb(self) -> float:
        """Memory that it has."""
        return self.stats.memory_info().rss / 2**20

    def close(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait(_START_S)


# --- pages ---


def pages(served: Served, rounds: int) -> dict[str, Any]:
    """How long each page takes, ms; and what processor time of the service, in the mean."""
    taken: dict[str, list[float]] = {}
    used: dict[str, float] = {}
    with httpx.Client(base_url=served.url, timeout=60, follow_redirects=True) as http:
        for number in range(WARMING + rounds):
            asked = PAGES if number >= WARMING + 5 else PAGES | CUT
            for name, path in asked.items():
                cpu, begun = served.cpu_s, time.perf_counter()
                http.get(path).raise_for_status()
                if number >= WARMING:
                    used[name] = used.get(name, 0.0) + served.cpu_s - cpu
                    taken.setdefault(name, []).append((time.perf_counter() - begun) * 1000)
    return {
        name: spread(ms) | {"cpu": round(1000 * used[name] / len(ms), 1)}
        for name, ms in taken.items()
    }


def spread(values: list[float]) -> dict[str, float]:
    """The median and the 95th percentile."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[min(len(ordered) * 95 // 100, len(ordered) - 1)], 1),
    }


# --- who looks ---


class Lookers:
    """Streams that somebody looks at, and how much came of them."""

    def __init__(self, url: str) -> None:
        self._at = urlsplit(url)
        self._tasks: list[asyncio.Task[None]] = []
        self.first = 0  #: streams on which a fragment came
        self.bytes = 0

    async def look(self, count: int, patience_s: float = 60.0) -> None:
        """Open so many, and wait until each has got something."""
        self._tasks = [asyncio.ensure_future(self._one()) for _ in range(count)]
        until = time.monotonic() + patience_s
        while self.first < count and time.monotonic() < until:  # noqa: ASYNC110 - streams count
            await asyncio.sleep(0.05)

    async def _one(self) -> None:
        port = self._at.port or 80
        reader, writer = await asyncio.open_connection(self._at.hostname, port)
        try:
            head = f"GET /live?topic=andon HTTP/1.1\r\nHost: {self._at.netloc}\r\n\r\n"
            writer.write(head.encode())
            has_come = False
            while some := await reader.read(65_536):
                self.bytes += len(some)
                if not has_come and b"event: fragment" in some:
                    has_come = True
                    self.first += 1
        finally:
            writer.close()

    async def leave(self) -> None:
        """Close them all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def looked_at(served: Served, count: int) -> AsyncIterator[Lookers]:
    """So many look at the first page for as long as the block lasts."""
    lookers = Lookers(served.url)
    await lookers.look(count)
    try:
        yield lookers
    finally:
        await lookers.leave()


async def _drained(served: Served, url: str, app: Andon, tasks: int, count: int) -> dict[str, Any]:
    """A drain while so many look."""
    handler = noop.type.handler
    assert handler is not None
    task = app.task(name=noop.name, queue=QUEUE)(handler)
    engine = await app.engine()
    await producing.submit(task, tasks, "bulk", 1)
    async with looked_at(served, count) as lookers:
        async with WorkerProcess(url, QUEUE, concurrency=100):
            while (left := await _left(engine)) == tasks:  # noqa: ASYNC110 - another process's
                await asyncio.sleep(0.02)
            cpu, begun = served.cpu_s, time.perf_counter()
            while await _left(engine):  # noqa: ASYNC110 - another process ends them
                await asyncio.sleep(0.05)
            seconds = time.perf_counter() - begun
            used = served.cpu_s - cpu
        return {
            "rate": left / seconds,
            "cpu_percent": 100 * used / seconds,
            "rss_mb": served.rss_mb,
            "streams": lookers.first,
            "mb_sent": lookers.bytes / 2**20,
        }


async def _left(engine: Any) -> int:
    queues = {one.queue: one.counts for one in await engine.stats()}
    counts = queues.get(QUEUE, {})
    return sum(counts.get(state, 0) for state in ("pending", "active"))


async def viewers(url: str, tasks: int, rounds: int) -> dict[str, Any]:
    """What a hundred who look cost beside one, and both beside nobody."""
    found: dict[int, list[dict[str, Any]]] = {0: [], 1: [], 100: []}
    async with Andon(url) as app:
        for number in range(rounds):
            for count in list(found) if number % 2 else list(found)[::-1]:
                served = Served(url)
                try:
                    found[count].append(await _drained(served, url, app, tasks, count))
                finally:
                    served.close()
    return {
        str(count): {name: round(statistics.median(r[name] for r in rows), 2) for name in rows[0]}
        for count, rows in found.items()
    }


async def streams(served: Served, count: int, idle_s: float = 10.0) -> dict[str, Any]:
    """So many streams at once, while nothing happens."""
    before = served.rss_mb
    begun = time.perf_counter()
    async with looked_at(served, count) as lookers:
        opened = time.perf_counter() - begun
        cpu = served.cpu_s
        await asyncio.sleep(idle_s)
        idle = (served.cpu_s - cpu) / idle_s
        async with httpx.AsyncClient(base_url=served.url, timeout=30) as http:
            asked = time.perf_counter()
            (await http.get("/")).raise_for_status()
            page_ms = (time.perf_counter() - asked) * 1000
        return {
            "asked_for": count,
            "with_a_fragment": lookers.first,
            "opened_s": round(opened, 2),
            "rss_mb_more": round(served.rss_mb - before, 1),
            "cpu_percent_idle": round(100 * idle, 1),
            "page_meanwhile_ms": round(page_ms, 1),
        }


# --- all of it ---


def measure(kind: str, asked: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, over a store of that kind."""
    told: dict[str, Any] = {"store": kind, "tasks": asked.tasks}
    with ExitStack() as stack:
        if kind == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="andon-board-"))
            url = f"sqlite:///{folder}/tasks.db"
        else:
            url = stack.enter_context(store_servers.running(kind)).namespace("board")
        begun = time.perf_counter()
        asyncio.run(_filled(url, asked.tasks))
        told["filled_s"] = round(time.perf_counter() - begun)
        served = Served(url)
        stack.callback(served.close)
        for part in asked.only:
            told[part] = {"load": os.getloadavg()[0]} | _part(part, served, url, asked)
            print(json.dumps({part: told[part]}, indent=1), flush=True)
    return told


def _part(part: str, served: Served, url: str, asked: argparse.Namespace) -> dict[str, Any]:
    if part == "pages":
        return pages(served, asked.rounds)
    if part == "paint":
        import board_paint

        return board_paint.measure(served.url, PAGES, asked.paints)
    if part == "viewers":
        return asyncio.run(viewers(url, asked.drained, asked.drains))
    return asyncio.run(streams(served, asked.streams))


async def _filled(url: str, tasks: int) -> None:
    store = open_store(url)
    await store.open()
    await board_filling.fill(store, tasks)
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("sqlite", "redis", "postgres", "nats"))
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(PARTS), help="of: " + ", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=40, help="that each page is asked for")
    parser.add_argument("--paints", type=int, default=5, help="of each page in the browser")
    parser.add_argument("--drained", type=int, default=30_000, help="tasks of one drain")
    parser.add_argument("--drains", type=int, default=3, help="rounds of drains")
    parser.add_argument("--streams", type=int, default=1_000)
    asked = parser.parse_args()
    asked.only = asked.only.split(",")
    if unknown := set(asked.only) - set(PARTS):
        parser.error(f"--only: not measured here: {', '.join(unknown)}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # children have it too
    print(json.dumps(measure(asked.kind, asked), indent=1))


if __name__ == "__main__":
    main()
