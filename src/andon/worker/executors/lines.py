"""Reading what a process prints, line by line, whatever it prints."""

import asyncio
from collections.abc import Callable

MOST_LINE = 8 * 1024
"""Bytes after which a line without an end is cut."""


async def each_line(reader: asyncio.StreamReader, use: Callable[[str], None]) -> None:
    """Call `use` with every line until the end; undecodable bytes are replaced."""
    pending = b""
    while chunk := await reader.read(65_536):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            use(_text(line))
        while len(pending) > MOST_LINE:
            use(_text(pending[:MOST_LINE]))
            pending = pending[MOST_LINE:]
    if pending:
        use(_text(pending))


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
