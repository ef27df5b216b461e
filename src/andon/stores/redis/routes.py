"""Which server holds which partition: from the replies of sentinels and cluster nodes to addresses.
Pure."""

import binascii
from functools import lru_cache
from typing import Any

from andon.stores.redis.location import Address
from andon.stores.redis.wire import refused

SLOTS = 16_384

ASK_FOR_SLOTS = (b"CLUSTER", b"SLOTS")


@lru_cache(maxsize=1024)
def prefix(namespace: str, partition: int) -> str:
    """The beginning of all keys of a partition; the braces keep them in one slot."""
    return f"{{{namespace}:{partition}}}:"


def slot_of(namespace: str, partition: int) -> int:
    """The cluster slot of a partition."""
    return binascii.crc_hqx(f"{namespace}:{partition}".encode(), 0) % SLOTS


def ask_for_primary(service: str) -> tuple[bytes | str, ...]:
    """The question to a sentinel."""
    return (b"SENTINEL", b"get-master-addr-by-name", service)


def primary_in(reply: Any) -> Address | None:
    """The primary that a sentinel names, if it knows one."""
    if reply is None or refused(reply):
        return None
    host, port = reply
    return host.decode(), int(port)


class SlotMap:
    """Which node serves which slots, from the reply of one node; empty until it is read."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, Address]] = []

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def clear(self) -> None:
        """Forget all: something has moved."""
        self._ranges.clear()

    def read(self, reply: list[Any], asked: Address) -> None:
        """Take a reply to CLUSTER SLOTS; a node that does not know its own host is at the address
        that was asked."""
        self._ranges = [
            (first, last, (owner[0].decode() or asked[0], owner[1]))
            for first, last, owner, *_ in reply
        ]

    def owner(self, slot: int) -> Address | None:
        """The node that serves a slot."""
        return next((a for first, last, a in self._ranges if first <= slot <= last), None)


def redirected_to(reason: str, asked: Address) -> Address:
    """The target of a redirection; without a host it is the one that was asked."""
    host, _, port = reason.split()[2].rpartition(":")
    return host or asked[0], int(port)
