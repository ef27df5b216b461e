"""Where the artifacts of a namespace are, and the loop that deletes those of deleted tasks.

The place is, in this order: what the application or ANDON_ARTIFACTS says, what `andon storage
configure --artifacts` wrote into the store for all clients, the folder beside an embedded store,
the store itself where it keeps files (PostgreSQL). Redis and NATS have no place of their own:
memory is no place for files, and their clients may be on many machines.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from andon.artifacts.base import ArtifactEntries
from andon.artifacts.blobs import Blobs
from andon.artifacts.kept import KeptArtifacts
from andon.artifacts.place import VARIABLE, default_place, named_place, open_blobs
from andon.contract.isolation import why_of
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.store import Store
from andon.lifecycle.constants import SLOW_POLL_S
from andon.model.errors import AndonError, ConfigurationError, StoreUnavailable
from andon.model.settings import PLACE_SETTING, ROOT_SETTING, SWEPT_SETTING

SWEEP_EVERY_MS = 3_600_000
_LOOK_S = 60.0

log = logging.getLogger("andon.timekeeper")

NO_PLACE = (
    "There is no place for artifacts and logs of runs, so they are not kept. Name one for "
    "everybody: andon storage configure --artifacts s3://bucket/prefix (or file:///folder), or set "
    f"{VARIABLE}."
)


class KeepsLogs(Protocol):
    """The part of an `Engine` that knows whether logs are kept."""

    async def keeps_logs(self) -> bool:
        """Whether there is a place for them."""
        ...


async def warn_if_not_kept(engine: KeepsLogs, logger: logging.Logger) -> None:
    """Log that artifacts and logs are not kept, and why: no place is named, or it cannot be
    opened."""
    try:
        why = None if await engine.keeps_logs() else NO_PLACE
    except ConfigurationError as error:
        why = str(error)
    if why is not None:
        logger.warning("artifacts and logs: %s", why)


def _unswept_task(task: str, error: Exception) -> None:
    _unswept(f"of task {task}", error)


def _unswept(which: str, error: Exception) -> None:
    log.error(
        "Sweeping the artifacts %s failed alone; it is tried again with the next sweep: %s",
        which,
        why_of(error),
        exc_info=error,
    )


class Keeping:
    """The artifacts of one store, opened when they are first asked for."""

    def __init__(
        self, store: Store, url: str, place: str | None = None, *, poll_s: float = SLOW_POLL_S
    ) -> None:
        self._store = store
        self._look_s = max(_LOOK_S, poll_s)
        self._url = url
        self._place = place or named_place()
        self._opened: KeptArtifacts | None = None
        self._opening = asyncio.Lock()

    async def artifacts(self) -> ArtifactEntries:
        """The artifacts. Raises `ConfigurationError` when there is no place for them."""
        return await self._open()

    async def _open(self) -> KeptArtifacts:
        if self._opened is None:
            async with self._opening:
                if self._opened is None:
                    blobs = await self._blobs()
                    if blobs is None:
                        raise ConfigurationError(NO_PLACE)
                    self._opened = KeptArtifacts(blobs, self._store.now, await self._root())
        return self._opened

    async def has_place(self) -> bool:
        """Whether there is a place for them. Writes nothing."""
        return self._opened is not None or await self._blobs() is not None

    async def _blobs(self) -> Blobs | None:
        place = self._place or await self._agreed() or default_place(self._url)
        if place is not None:
            return open_blobs(place)
        # Not `isinstance`, which is False for the wrapper of a measured store.
        kept: Callable[[], Blobs] | None = getattr(self._store, "blobs", None)
        return None if kept is None else kept()

    async def _agreed(self) -> str | None:
        value = await self._store.setting(PLACE_SETTING)
        return value.decode() if value else None

    async def _root(self) -> str:
        while True:
            root = await self._store.setting(ROOT_SETTING)
            if root is not None:
                return root.decode()
            await self._store.put_setting(ROOT_SETTING, secrets.token_hex(8).encode(), expect=None)

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()

    # --- sweeping ---

    async def keep_swept(self, random: Random) -> None:
        """Sweep about once an hour, for ever; whichever timekeeper comes first does it."""
        while True:
            await asyncio.sleep(self._look_s * (0.5 + random.random()))
            try:
                await self.sweep_if_due()
            except ConfigurationError:
                continue  # no place: nothing to sweep
            except (AndonError, OSError) as error:
                log.warning("artifacts are not swept: %s", error)
            except Exception as error:
                log.error("artifacts are not swept: %s", why_of(error), exc_info=error)

    async def sweep_if_due(self) -> int:
        """Sweep unless a timekeeper did within the hour. Returns how much was deleted."""
        now = self._store.now()
        swept = await self._store.setting(SWEPT_SETTING)
        if swept is not None and int(swept) + SWEEP_EVERY_MS > now:
            return 0
        kept = await self._open()
        if not await self._store.put_setting(SWEPT_SETTING, str(now).encode(), expect=swept):
            return 0  # another timekeeper begins
        gone = 0
        for shard in await kept.shards():
            try:
                gone += await kept.sweep(shard, self._lives, _unswept_task)
            except StoreUnavailable:
                raise
            except Exception as error:
                _unswept(f"in shard {shard}", error)
        return gone

    async def _lives(self, ids: Sequence[str]) -> set[str]:
        alive: set[str] = set()
        for batch in in_batches(ids, MAX_BATCH):
            records = await self._store.get(batch)
            alive.update(t for t, record in zip(batch, records, strict=True) if record is not None)
        return alive
