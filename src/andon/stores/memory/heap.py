"""A heap whose entries can be moved and removed by name."""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", int, tuple[int, int, int])

_MIN_STALE = 64
"""Below this many stale entries a rebuild is not worth its cost."""


class NamedHeap(Generic[K]):
    """Names in the order of their keys.

    Moving or removing leaves a stale entry behind, which is dropped when it comes to the top; when
    most entries are stale the heap is rebuilt, so both cost O(log n) and memory stays in bounds.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[K, str]] = []
        self._keys: dict[str, K] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def put(self, name: str, key: K) -> None:
        """Add the name, or move it to a new key."""
        if self._keys.get(name) == key:
            return
        self._keys[name] = key
        heappush(self._heap, (key, name))
        if len(self._heap) > 2 * len(self._keys) + _MIN_STALE:
            self._rebuild()

    def discard(self, name: str) -> bool:
        """Remove the name, if it is there; whether any other is left."""
        if self._keys.pop(name, None) is not None and (
            len(self._heap) > 2 * len(self._keys) + _MIN_STALE
        ):
            self._rebuild()
        return bool(self._keys)

    def first(self) -> tuple[K, str] | None:
        """The least key and its name."""
        heap, keys = self._heap, self._keys
        while heap:
            key, name = heap[0]
            if keys.get(name) == key:
                return heap[0]
            heappop(heap)
        return None

    def _rebuild(self) -> None:
        self._heap = [(key, name) for name, key in self._keys.items()]
        heapify(self._heap)
