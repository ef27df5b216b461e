"""The limit on Redis: a blocking client that sends what Andon's store sent, byte for byte.

The requests of a whole life of `n` tasks (creates of 200, claims and commits of 100) are recorded
while the store makes them, then repeated on the emptied server, each sent when the one before is
answered. So the server has the same scripts to run on the same records, while nothing is encoded,
decoded or waited for beside it.

    python -m limits.redis URL PLAN      prints outcomes as a session does (side_by_side.py)
"""

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import hiredis
from andon.stores.redis.connection import Connection

from andon.model.words import State
from andon.stores.base import Store
from andon.stores.registry import open_store
from limits import life


class Recorded:
    """While it is open, the requests of every connection are kept as well as sent."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self._send = Connection.send

    def __enter__(self) -> "Recorded":
        def send(connection: Connection, packed: bytes) -> Any:
            self.requests.append(packed)
            return self._send(connection, packed)

        Connection.send = send
        return self

    def __exit__(self, *exc: object) -> None:
        Connection.send = self._send


class Bare:
    """One blocking connection."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._socket = socket.create_connection((where.hostname, where.port or 6379), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def repeat(self, requests: list[bytes]) -> float:
        """Seconds that it takes to send them in turn, each after the answer to the last."""
        begun = time.perf_counter()
        for packed in requests:
            self._socket.sendall(packed)
            while (reply := self._reader.gets()) is False:
                self._reader.feed(self._socket.recv(1 << 20))
            if isinstance(reply, hiredis.ReplyError):
                raise reply
        return time.perf_counter() - begun

    def close(self) -> None:
        self._socket.close()


async def _recorded(store: Store, act: Callable[[Store, int], Awaitable[None]], n: int) -> Any:
    with Recorded() as recorded:
        await act(store, n)
    return recorded.requests


async def measure(url: str, n: int, empty: Callable[[], None]) -> dict[str, dict[str, Any]]:
    """What submitting and draining `n` tasks reach."""
    store = open_store(url)
    await store.open()
    submits = await _recorded(store, life.submit, n)
    drains = await _recorded(store, life.drain, n)
    await store.close()
    empty()
    store = open_store(url)
    await store.open()
    bare = Bare(url)
    try:
        found = {}
        for name, requests, state in (
            ("submit bulk", submits, State.PENDING),
            ("drain", drains, State.COMPLETED),
        ):
            seconds = await asyncio.to_thread(bare.repeat, requests)
            verified = await life.counted(store, state)
            found[name] = {"n": n, "rate": round(n / seconds, 1), "verified": verified}
        return found
    finally:
        bare.close()
        await store.close()


def main(url: str, told: str) -> None:
    """Measure once, as the plan says."""

    def empty() -> None:
        subprocess.run(shlex.split(os.environ["BENCH_RESET"]), check=True)

    empty()
    found = asyncio.run(measure(url, json.loads(told)["drain"], empty))
    for kind, outcome in found.items():
        print(json.dumps({"kind": kind, **outcome}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
