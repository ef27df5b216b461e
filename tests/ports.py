"""Ports for servers that have to be told theirs before they start.

None of those that the system gives to connections by itself: until the server has bound such a one,
any connection that anybody makes may be given it.
"""

import random
import socket
from pathlib import Path

_LOWEST = 12_000
_TRIES = 1_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_rng = random.SystemRandom()  # the tests seed the common one alike in every process
_given: set[int] = set()


def _end() -> int:
    """Where the system's own begin, or the first of them that it would rarely give."""
    first = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 49_152
    return first if first > _LOWEST + 2 * _TRIES else 65_536


def free_port(*, beside: int = 0) -> int:
    """A loopback port that nobody has, and that was given to nobody here; so is the one `beside`
    it, if not 0."""
    for _ in range(_TRIES):
        port = _rng.randrange(_LOWEST, _end() - beside)
        wanted = {port, port + beside}
        if not wanted & _given and all(map(_is_free, wanted)):
            _given.update(wanted)
            return port
    raise AssertionError("no free port")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
