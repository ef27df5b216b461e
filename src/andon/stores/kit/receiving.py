"""Receives answers in memory that the process has at hand.

asyncio's own transports receive up to 256 KB at once, each time in new memory. The C library asks
the system for so much and gives it back, unless its heap happens to have room: three system calls
and a page to clear for each answer (docs/decisions/receiving.md).
"""

from typing import Any

AT_ONCE = 64 * 1024
"""Bytes: half of what the C library (glibc) begins to ask the system for."""


def receive_less(transport: Any) -> None:
    """Let a transport receive no more at once. Those without that setting, as uvloop's and those
    with TLS, have a buffer of their own."""
    if hasattr(transport, "max_size"):
        transport.max_size = AT_ONCE
