"""Reads the output of a process line by line, whatever bytes it prints."""

import asyncio
import logging
from collections.abc import Callable

logger = logging.getLogger("andon.worker")

MOST_LINE = 8 * 1024
"""Bytes after which a line without an end is cut."""


async def each_line(reader: asyncio.StreamReader, use: Callable[[str], None]) -> None:
    """Call `use` with every line until the end; undecodable bytes are replaced.

    A line for which `use` raises is left out: if reading stopped, the process would block on a full
    pipe.
    """
    pending = b""
    failed = 0

    def each(line: bytes) -> None:
        nonlocal failed
        try:
            use(_text(line))
        except Exception:
            failed += 1
            if failed == 1:
                logger.exception("A line that a process printed cannot be logged: %.200r", line)

    while chunk := await reader.read(65_536):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            each(line)
        while len(pending) > MOST_LINE:
            each(pending[:MOST_LINE])
            pending = pending[MOST_LINE:]
    if pending:
        each(pending)
    if failed > 1:
        logger.error("%d lines that a process printed could not be logged.", failed)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
