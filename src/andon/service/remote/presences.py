"""The presences of remote workers: the description of a worker belongs to the token that sent it
first.

The owner is in the record, so every service on the store knows it, also after a restart. It lasts
as long as the record: a minute after the worker fell silent the name is free. It also ends with its
token, so that a worker comes back under its name with a new one. A caller with `admin:workers`, and
so every caller of an open service, may take any. Two tokens that first describe the same name on
two services within a second are both accepted; from then on the last of them owns it.

Workers in other languages describe themselves only by their claims, so this process publishes them:
which queues they ask and which task types they have code for. Otherwise it could not be shown what
a task waits for.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from andon.engine.local import LocalEngine
from andon.model.code import Code
from andon.model.errors import AndonError, PermissionRefused
from andon.model.fleet import WorkerInfo
from andon.service.trust.access import Caller
from andon.service.trust.registry import Registry

logger = logging.getLogger("andon.service")

ADMIN = "admin:workers"
FRESH_S = 1.0
"""How long the list of workers is cached: it is read whole, and every worker describes itself."""


TOLD_S = 10.0
"""How often a worker that claims is published."""

MOST_SEEN = 2_000
"""How many workers in other languages are published at a time."""


FORGOTTEN_S = 60.0


class _Seen(NamedTuple):
    at: float  # when it was published, monotonic seconds
    since: int  # when it was first seen, ms UTC
    asks: tuple[tuple[str, ...], str]  # queues, and the digest of its code


class Presences:
    """The descriptions of workers elsewhere, each written by its owner only."""

    def __init__(self, engine: LocalEngine, registry: Registry) -> None:
        self._engine = engine
        self._registry = registry
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._owners: dict[str, str] = {}
        self._seen: dict[str, _Seen] = {}  # the longest ago first
        self._telling: set[asyncio.Task[None]] = set()

    async def put(self, caller: Caller, info: WorkerInfo) -> None:
        """Record that a worker is alive. Raises `PermissionRefused` where it is another token's."""
        await self._check(caller, info.id)
        self._owners[info.id] = caller.id
        await self._engine.put_worker(msgspec.structs.replace(info, owner=caller.id))

    async def remove(self, caller: Caller, worker: str) -> None:
        """Record that a worker has left. Raises `PermissionRefused` where it is another token's."""
        await self._check(caller, worker)
        self._owners.pop(worker, None)
        await self._engine.remove_worker(worker)

    def seen(self, caller: Caller, worker: str, queues: Sequence[str], code: Code | None) -> None:
        """Publish a worker that claims, unless that was done within the last seconds. Does not
        wait, and never fails a claim."""
        now = time.monotonic()
        while self._seen and (first := next(iter(self._seen.items())))[1].at < now - FORGOTTEN_S:
            del self._seen[first[0]]
        asks = (tuple(queues), "" if code is None else code.digest)
        last = self._seen.pop(worker, None)
        if last is None:
            if len(self._seen) >= MOST_SEEN:
                return  # for example because each claim has a new worker id
            last = _Seen(float("-inf"), self._engine.now(), asks)
        if now < last.at + (TOLD_S if last.asks == asks else FRESH_S):
            self._seen[worker] = last  # at the end, a little out of order, which does no harm
            return
        self._seen[worker] = _Seen(now, last.since, asks)
        info = WorkerInfo(id=worker, queues=asks[0], code=asks[1], started_at=last.since)
        telling = asyncio.create_task(self._tell(caller, info))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, caller: Caller, info: WorkerInfo) -> None:
        try:
            await self.put(caller, info)
        except AndonError as error:
            logger.debug("Worker %r is not told of: %s", info.id, error)

    async def _check(self, caller: Caller, worker: str) -> None:
        if caller.may(ADMIN):
            return
        await self._refresh()
        owner = self._owners.get(worker)
        if owner is None or owner == caller.id or await self._is_over(owner):
            return
        raise PermissionRefused(
            ADMIN,
            f"Worker {worker[:128]!r} was first told of with another token, or with none. "
            "Give this worker an id of its own, or use that token.",
        )

    async def _is_over(self, owner: str) -> bool:
        """Whether the token that owned it can be used no more."""
        if not owner:
            return False  # a worker at the store itself, or on an open service
        return not await self._registry.is_valid(owner)

    async def _refresh(self) -> None:
        arrived = time.monotonic()
        if arrived - self._read_at < FRESH_S:
            return
        async with self._reading:
            if self._read_at >= arrived:
                return  # another caller has read since
            now = time.monotonic()
            owners = {worker.id: worker.owner for worker in await self._engine.workers()}
            self._owners, self._read_at = owners, now
