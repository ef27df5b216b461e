"""How much one call to a store may carry or read."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

MAX_BATCH = 200
"""Most changes in one call; a caller splits what is larger. (Of creates see `TakesMany`.)"""

MAX_PAYLOAD = 256 * 1024
"""Default limit in bytes for arguments and for a result."""

SCAN_BUDGET = 2_000
"""Most index entries one call looks at to find what it may return."""

MOST_SORTED = 10_000
"""Most ids that begin alike which one call sorts; where more do, it looks along another order."""

T = TypeVar("T")


def in_batches(items: Sequence[T], size: int = MAX_BATCH) -> Iterable[Sequence[T]]:
    """The items in slices of at most `size`."""
    return (items[i : i + size] for i in range(0, len(items), size))
