"""Which partition a task belongs to: the hash of its id (docs/rulings.md, R13), the same in every
store; and helpers to address several partitions at once."""

from collections.abc import Sequence
from zlib import crc32


def partition_of(name: str, partitions: int) -> int:
    """The partition, from 0, of a task id, or of a unique key in a store that spreads those."""
    return crc32(name.encode()) % partitions if partitions > 1 else 0


def partitions_of(names: Sequence[str], partitions: int) -> list[int]:
    """The partition of each."""
    if partitions == 1:  # as nearly always: then no name is looked at
        return [0] * len(names)
    return [partition_of(name, partitions) for name in names]


def rounds_of(names: Sequence[str]) -> list[list[int]]:
    """Positions such that no round holds a name twice: a name's second place comes in the second
    round, when the outcome of its first is known."""
    rounds: list[list[int]] = []
    seen: dict[str, int] = {}
    for position, name in enumerate(names):
        number = seen.get(name, 0)
        seen[name] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(position)
    return rounds
