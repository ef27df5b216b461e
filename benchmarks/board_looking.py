"""Who looks at the board of `board.py`: streams of its first page, and what they cost."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

import board_stores
import httpx
from board_served import Served
from board_stores import Filled

from andon.bench import producing
from andon.bench.app import noop
from andon.bench.processes import WorkerProcess
from andon.client.app import Andon
from andon.engine.rollups import Rollups
from andon.lifecycle.minutes import MINUTE_MS

QUEUE = "drained"
_PATIENCE_S = 60.0


def _request(host: str, again: str) -> bytes:
    return f"GET /live?topic=andon HTTP/1.1\r\nHost: {host}\r\n{again}\r\n".encode()


class Looker:
    """One stream of the first page, as a browser reads it."""

    def __init__(self) -> None:
        self.last_id = ""
        self.fragments: dict[bytes, bytes] = {}  #: the newest of each, by its id in the page
        self.bytes = 0
        self._task: asyncio.Task[None] | None = None

    def look(self, url: str) -> None:
        """Open the stream, going on where it was."""
        self._task = asyncio.ensure_future(self._read(url))

    async def leave(self) -> None:
        """Close the stream."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self, url: str) -> None:
        at = urlsplit(url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=2**20)
        try:
            again = f"Last-Event-ID: {self.last_id}\r\n" if self.last_id else ""
            writer.write(_request(at.netloc, again))
            await reader.readuntil(b"\r\n\r\n")
            told = b""
            while size := int(await reader.readline(), 16):  # chunks, as HTTP has them
                piece = await reader.readexactly(size + 2)
                self.bytes += len(piece)
                *events, told = (told + piece[:-2]).split(b"\n\n")
                for event in events:
                    self._take(event)
        finally:
            writer.close()

    def _take(self, event: bytes) -> None:
        named = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
        if named.get(b"event") == b"fragment":
            self.last_id = named[b"id"].decode()
            name = event.split(b' id="', 1)[1].split(b'"', 1)[0]
            self.fragments[name] = event.partition(b"\nevent")[2]


class Lookers:
    """Several who look at once."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self.all = [Looker() for _ in range(count)]

    async def look(self) -> int:
        """Open all streams, and wait until each has got something; how many have."""
        before = [one.bytes for one in self.all]
        for one in self.all:
            one.look(self._url)
        until, have = time.monotonic() + _PATIENCE_S, 0
        while have < len(self.all) and time.monotonic() < until:
            await asyncio.sleep(0.02)
            have = sum(
                bool(one.last_id) and one.bytes > was
                for one, was in zip(self.all, before, strict=True)
            )
        return have

    async def leave(self) -> None:
        """Close them all."""
        await asyncio.gather(*(one.leave() for one in self.all))

    async def alike(self) -> int:
        """How many come to have seen the same of every fragment as the first of them, at one
        moment."""
        until, most = time.monotonic() + _PATIENCE_S, 0
        while most < len(self.all) and time.monotonic() < until:
            first = self.all[0]
            same = [one for one in self.all if one.last_id == first.last_id]
            most = max(most, sum(one.fragments == first.fragments for one in same))
            await asyncio.sleep(0.02)
        return most


class _Sink(asyncio.Protocol):
    """A stream of which nothing is read but that it comes: so that who looks takes as little as can
    be of the processors of who is looked at."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.has_begun = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.has_begun.is_set() and b"event: fragment" in data:
            self.has_begun.set()


@asynccontextmanager
async def looked_at(served: Served, count: int) -> AsyncIterator[None]:
    """So many look at the first page for as long as the block lasts."""
    at = urlsplit(served.url)
    request = _request(at.netloc, "")
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: _Sink(request), at.hostname, at.port)
        for _ in range(count)
    ]
    try:
        async with asyncio.timeout(_PATIENCE_S):
            for _, sink in opened:
                await sink.has_begun.wait()
        yield
    finally:
        for transport, _ in opened:
            transport.abort()


async def left(engine: Any) -> int:
    """How many tasks of the queue have not ended."""
    queues = {one.queue: one.counts for one in await engine.stats()}
    counts = queues.get(QUEUE, {})
    return sum(counts.get(state, 0) for state in ("pending", "active"))


# --- while nothing happens ---


async def streams(served: Served, count: int, idle_s: float = 10.0) -> dict[str, Any]:
    """So many streams at once, while nothing happens; then all break off and come back, while
    something changes."""
    before = served.rss_mb
    begun = time.perf_counter()
    lookers = Lookers(served.url, count)
    try:
        opened = await lookers.look()
        took = time.perf_counter() - begun
        cpu = served.cpu_s
        await asyncio.sleep(idle_s)
        idle = (served.cpu_s - cpu) / idle_s
        # From another thread: the loop of this process is busy with what the streams are sent.
        page_ms = await asyncio.to_thread(_page_ms, served.url)
        rss = served.rss_mb
        await lookers.leave()
        await lookers.look()
        alike = await lookers.alike()
    finally:
        await lookers.leave()
    return {
        "asked_for": count,
        "with_a_fragment": opened,
        "opened_s": round(took, 2),
        "rss_mb_more": round(rss - before, 1),
        "cpu_percent_idle": round(100 * idle, 1),
        "page_meanwhile_ms": round(page_ms, 1),
        "alike_after_coming_back": alike,
    }


def _page_ms(url: str) -> float:
    taken: list[float] = []
    for _ in range(5):
        begun = time.perf_counter()
        httpx.get(url, timeout=_PATIENCE_S).raise_for_status()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


async def nobody(served: Served, store: Filled, idle_s: float) -> dict[str, Any]:
    """What a service costs that nobody looks at, with all that its timekeeper does."""
    cpu, server = served.cpu_s, store.server_cpu_s
    await asyncio.sleep(idle_s)
    return {
        "service_percent": round(100 * (served.cpu_s - cpu) / idle_s, 3),
        "server_percent": round(100 * (store.server_cpu_s - server) / idle_s, 3),
    }


async def rolled_up(store: Filled, tasks: int) -> dict[str, Any]:
    """What it costs to roll up a minute in which so many tasks ran, of the service and the server
    together. Nobody else may roll up meanwhile."""
    async with Andon(store.url) as app, board_stores.engine(store.url) as engine:
        rollups = Rollups(engine.store, Random(1))
        await _next_minute(engine)
        await rollups.roll_up()  # from here on it counts
        handler = noop.type.handler
        assert handler is not None
        await producing.submit(app.task(name=noop.name, queue=QUEUE)(handler), tasks, "bulk", 1)
        async with WorkerProcess(store.url, QUEUE, concurrency=100):
            while await left(engine):  # noqa: ASYNC110 - another process ends them
                await asyncio.sleep(0.05)
        await _next_minute(engine)
        cpu, server = time.process_time(), store.server_cpu_s
        row = await rollups.roll_up()
        ms = 1000 * (time.process_time() - cpu + store.server_cpu_s - server)
    await board_stores.emptied(store.url, QUEUE)
    counted = 0 if row is None else sum(one.finished for one in row.queues.values())
    return {"tasks": tasks, "counted": counted, "ms": round(ms, 2),
            "percent": round(100 * ms / MINUTE_MS, 4)}  # fmt: skip


async def _next_minute(engine: Any) -> None:
    await asyncio.sleep((MINUTE_MS - engine.now() % MINUTE_MS) / 1000 + 0.5)


def load() -> float:
    """Of the machine, in the last minute."""
    return round(os.getloadavg()[0], 1)
