"""Decides which held claims a hint is for: the ready kinds of queues are read once for all claims
that it woke.

A hint says only that a queue has something. If each waiting claim asked the store, a task would
cost as many claims as there are workers of other applications.
"""

import asyncio
from collections.abc import Sequence

from andon.contract.queries import ReadyKind
from andon.contract.store import Store
from andon.lifecycle.routing import may_claim
from andon.model.code import Code


class Readiness:
    """Reads the ready kinds of queues, one read at a time; callers that arrive meanwhile share the
    next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted: set[str] = set()
        self._next: asyncio.Task[list[ReadyKind]] | None = None
        self._reading = asyncio.Lock()

    async def has_some(self, code: Code, queues: Sequence[str]) -> bool:
        """Whether one of the queues has something ready that this code may claim."""
        self._wanted.update(queues)
        if self._next is None:
            self._next = asyncio.create_task(self._read())
            self._next.add_done_callback(_looked_at)
        ready = await asyncio.shield(self._next)
        names = set(queues)
        return any(one.queue in names and may_claim(code, one.kind) for one in ready)

    async def _read(self) -> list[ReadyKind]:
        async with self._reading:
            wanted, self._wanted, self._next = self._wanted, set(), None
            return await self._store.ready_kinds(sorted(wanted))


def _looked_at(read: asyncio.Task[list[ReadyKind]]) -> None:
    """Retrieve the error of a read whose callers may all have gone; a caller that waited has got
    it."""
    if not read.cancelled():
        read.exception()
