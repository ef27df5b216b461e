"""The limit on Redis: a blocking client that sends what Andon's store sent, byte for byte, each
request when the one before is answered (`python -m limits.redis URL PLAN`; see life.py).
"""

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import hiredis

from andon.stores.redis.connection import Connection
from limits import life


@contextmanager
def recording() -> Iterator[list[bytes]]:
    """While it is open, what every connection sends is kept as well as sent."""
    requests: list[bytes] = []
    send = Connection.send_alive  # `send` comes by it, too

    def kept(connection: Connection, packed: bytes, **how: Any) -> Any:
        requests.append(packed)
        return send(connection, packed, **how)

    Connection.send_alive = kept
    try:
        yield requests
    finally:
        Connection.send_alive = send


def repeat(url: str, requests: list[bytes]) -> float:
    """Seconds that it takes one connection to send them."""
    where, reader = urlsplit(url), hiredis.Reader()
    with socket.create_connection((where.hostname, where.port or 6379), 30) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        for packed in requests:
            link.sendall(packed)
            while (reply := reader.gets()) is False:
                reader.feed(link.recv(1 << 20))
            if isinstance(reply, hiredis.ReplyError):
                raise reply
        return time.perf_counter() - begun


async def _repeat(url: str, requests: list[bytes]) -> float:
    return await asyncio.to_thread(repeat, url, requests)


if __name__ == "__main__":
    life.main(sys.argv[1], sys.argv[2], recording, _repeat)
