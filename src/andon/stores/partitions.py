"""Which partition a task belongs to: the hash of its id (R13), the same in every store."""

from zlib import crc32


def partition_of(name: str, partitions: int) -> int:
    """The partition, from 0, of a task id, or of a unique key in a store that spreads those."""
    return crc32(name.encode()) % partitions if partitions > 1 else 0
