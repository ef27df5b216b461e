"""Which partition a task belongs to: the hash of its id (R13), the same in every store."""

from zlib import crc32


def partition_of(task_id: str, partitions: int) -> int:
    """The partition of a task id, from 0."""
    return crc32(task_id.encode()) % partitions if partitions > 1 else 0
