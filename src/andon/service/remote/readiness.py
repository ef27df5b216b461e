"""Which held claims a hint is for: what queues have ready is read once for all that were woken.

A hint says only that a queue has something. Were each claim that waits there to ask the store, a
task would cost as many claims as there are workers of other applications.
"""

import asyncio
from collections.abc import Sequence

from andon.contract.queries import ReadyKind
from andon.contract.store import Store
from andon.lifecycle.routing import may_claim
from andon.model.code import Code


class Readiness:
    """Reads what queues have ready, one read at a time; whoever comes meanwhile shares the next."""

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
    """Nobody may have waited for it to the end; whoever did has its error."""
    if not read.cancelled():
        read.exception()
