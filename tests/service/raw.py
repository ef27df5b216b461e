"""A connection by hand, for what no proper client would send."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from .kit import PATIENCE


class Connection:
    """Bytes out, bytes in."""

    def __init__(self, url: str, receive_buffer: int | None) -> None:
        parts = urlsplit(url)
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect((parts.hostname, parts.port))

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, Any]]:
        """The status and the JSON of the next answer."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.socket.recv(65_536)
            assert part, f"closed after {data!r}"
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {
            name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])
        }
        while len(body) < int(headers["content-length"]):
            body += self.socket.recv(65_536)
        return int(lines[0].split()[1]), json.loads(body) if body else {}

    def is_closed(self) -> bool:
        """Whether the other side closes it, sooner or later."""
        try:
            while self.socket.recv(65_536):
                pass
        except ConnectionResetError:
            return True
        return True


@contextmanager
def connected(url: str, *, receive_buffer: int | None = None) -> Iterator[Connection]:
    """A connection for as long as the block lasts."""
    connection = Connection(url, receive_buffer)
    try:
        yield connection
    finally:
        connection.socket.close()
