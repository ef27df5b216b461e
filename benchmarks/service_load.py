"""The load on a service, in a process of its own: plain HTTP/1.1 over kept connections.

    python benchmarks/service_load.py post  HOST:PORT PATH BODY CONNECTIONS REQUESTS
    python benchmarks/service_load.py get   HOST:PORT PATH - CONNECTIONS REQUESTS
    python benchmarks/service_load.py paced HOST:PORT PATH - PER_SECOND SECONDS
    python benchmarks/service_load.py streams HOST:PORT PATH BODY STREAMS EVENTS

`post` and `get` send the next request on a connection when its answer has come; `paced` sends one
`GET` after the other at a fixed rate and counts from when each was due; `streams` opens event
streams, says so, waits for a line on its input, then submits single tasks and takes the time until
each stream has their moves. Prints JSON. A client library would cost more than the service does.
"""

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import cast

import uvloop

_TIMEOUT_S = 120.0


def _request(host: str, path: str, body: bytes | None) -> bytes:
    method = "GET" if body is None else "POST"
    lines = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n"
    if body is not None:
        lines += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return lines.encode() + b"\r\n" + (body or b"")


class _Connection(asyncio.Protocol):
    """One kept connection: sends, and gives each whole answer to `answered`."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.statuses: dict[int, int] = {}
        self._answer: asyncio.Future[int] | None = None
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError(f"The service hung up: {exc}."))

    async def ask(self, request: bytes) -> int:
        """Send; the status, once the whole answer has come."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        got = self._got = self._got + data if self._got else data
        head = got.find(b"\r\n\r\n")
        if head < 0:
            return
        at = got.lower().find(b"content-length: ", 0, head)
        length = int(got[at + 16 : got.find(b"\r\n", at)])
        if len(got) < head + 4 + length:
            return
        self._got = b""
        status = int(got[9:12])
        self.statuses[status] = self.statuses.get(status, 0) + 1
        assert self._answer is not None
        self._answer.set_result(status)


class _Stream(asyncio.Protocol):
    """One event stream; counts moves that a submit makes and when they came."""

    def __init__(self) -> None:
        self.opened = asyncio.get_running_loop().create_future()
        self.came: list[float] = []
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        if not self.opened.done() and b"\r\n\r\n" in data:
            self.opened.set_result(data[:300])
        now = time.perf_counter()
        text = self._rest + data
        count = text.count(b"event: move\n")
        self.came += [now] * count
        self._rest = text[-11:] if not text.endswith(b"event: move\n") else b""


async def _connect(host: str, kind: type) -> tuple[asyncio.Transport, "_Connection | _Stream"]:
    name, port = host.split(":")
    return await asyncio.get_running_loop().create_connection(kind, name, int(port))


def _quantiles(seconds: list[float]) -> dict[str, float]:
    if len(seconds) == 1:
        seconds *= 2
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50_ms": cuts[49] * 1e3, "p99_ms": cuts[98] * 1e3, "max_ms": max(seconds) * 1e3}


async def _closed(host: str, request: bytes, connections: int, requests: int) -> dict[str, object]:
    links = [(await _connect(host, _Connection))[1] for _ in range(connections)]
    left, taken = requests, []

    async def one(link: _Connection) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            begun = time.perf_counter()
            await link.ask(request)
            taken.append(time.perf_counter() - begun)

    begun = time.perf_counter()
    await asyncio.gather(*(one(link) for link in links))  # type: ignore[arg-type]
    took = time.perf_counter() - begun
    statuses: dict[int, int] = {}
    for link in links:
        for status, count in link.statuses.items():  # type: ignore[union-attr]
            statuses[status] = statuses.get(status, 0) + count
    return {"rate": requests / took, "statuses": statuses, **_quantiles(taken)}


async def _paced(host: str, request: bytes, rate: float, seconds: float) -> dict[str, object]:
    _, link = await _connect(host, _Connection)
    assert isinstance(link, _Connection)
    taken = []
    begun = time.perf_counter()
    for number in range(round(rate * seconds)):
        due = begun + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await link.ask(request)
        taken.append(time.perf_counter() - due)
    return {"statuses": link.statuses, **_quantiles(taken)}


async def _streams(
    host: str, path: str, body: bytes, streams: int, events: int
) -> dict[str, object]:
    opened: list[_Stream] = []
    for _ in range(streams):
        transport, stream = await _connect(host, _Stream)
        transport.write(_request(host, path, None))
        opened.append(stream)  # type: ignore[arg-type]
        if len(opened) % 50 == 0:
            await opened[-1].opened
    for stream in opened:
        answer = await stream.opened
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"A stream was refused: {answer}")
    print("open", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    _, link = await _connect(host, _Connection)
    assert isinstance(link, _Connection)
    submit = _request(host, "/api/v1/tasks", body)
    first, last = [], []
    for number in range(1, events + 1):
        begun = time.perf_counter()
        await link.ask(submit)
        while any(len(stream.came) < number for stream in opened):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        first.append(min(stream.came[number - 1] for stream in opened) - begun)
        last.append(max(stream.came[number - 1] for stream in opened) - begun)
        await asyncio.sleep(0.05)
    return {
        "moves": sum(len(stream.came) for stream in opened),
        "first_ms": statistics.median(first) * 1e3,
        "last_ms": statistics.median(last) * 1e3,
        "last_max_ms": max(last) * 1e3,
    }


async def main() -> None:
    kind, host, path, body, many, each = sys.argv[1:]
    if body.startswith("@"):  # too long for an argument
        body = Path(body[1:]).read_text(encoding="utf-8")  # noqa: ASYNC240
    async with asyncio.timeout(_TIMEOUT_S):
        if kind == "streams":
            told = await _streams(host, path, body.encode(), int(many), int(each))
        elif kind == "paced":
            told = await _paced(host, _request(host, path, None), float(many), float(each))
        else:
            request = _request(host, path, None if kind == "get" else body.encode())
            told = await _closed(host, request, int(many), int(each))
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
