"""The registry of workers that only claim: what they claimed last, and which of them are
quarantined.

Claims are noted in the background, in batches and at most once a second, so that no claim waits for
it; a crash loses what the last second would have added. A reader in this process sees all that it
has noted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic
from typing import TypeVar

import msgspec

from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.requests import ClaimRequest
from andon.contract.store import Store
from andon.engine.reading import check_page
from andon.lifecycle.admission import check_key, check_moment
from andon.lifecycle.registry import (
    claimed,
    declared,
    is_quarantined,
    quarantined,
    queue_claimed,
)
from andon.model.errors import (
    AndonError,
    InvalidSubmission,
    StoreUnavailable,
    WorkerNotFound,
)
from andon.model.registry import (
    QUEUE_NOTES,
    WORKER_NOTES,
    ClaimedQueue,
    ClaimingWorker,
    Quarantine,
    RecentRun,
)
from andon.model.task import Task

log = logging.getLogger("andon.engine")

KNOWN_S = 1.0
"""Seconds for which a read quarantine is cached."""

PACE_S = 1.0
"""Seconds between two writes of noted claims, at least."""

_MOST_KNOWN = 20_000
_MOST_INFO = 4_000
_ATTEMPTS = 20

T = TypeVar("T", ClaimingWorker, ClaimedQueue)

_encode = msgspec.msgpack.Encoder().encode
_worker = msgspec.msgpack.Decoder(ClaimingWorker).decode
_queue = msgspec.msgpack.Decoder(ClaimedQueue).decode


class Registry:
    """Workers that only claim, and the queues they claim from, of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: dict[tuple[str, str], list[RecentRun]] = {}
        self._quarantined: dict[tuple[str, str], tuple[float, bool]] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._swept = ""
        self._is_closed = False

    async def claim(
        self,
        request: ClaimRequest,
        claim: Callable[[ClaimRequest], Awaitable[list[Task]]],
    ) -> list[Task]:
        """Claim for a worker that is known by its claims; it gets nothing while it is quarantined
        in one of the queues. Its claim is noted all the same."""
        queues = [q for q in request.queues if not await self.is_quarantined(q, request.worker)]
        tasks: list[Task] = []
        if queues:
            allowed = msgspec.structs.replace(request, queues=tuple(queues))
            tasks = await claim(allowed if len(queues) < len(request.queues) else request)
        for queue in request.queues:
            self.note(queue, request.worker, [t for t in tasks if t.definition.queue == queue])
        return tasks

    def note(self, queue: str, worker: str, tasks: Sequence[Task] = ()) -> None:
        """Note that a worker asks for tasks of a queue, or has claimed these."""
        runs = self._noted.setdefault((queue, worker), [])
        runs += [RecentRun(task.id, task.status.runs[-1].number) for task in tasks]
        self._flush_soon()

    async def is_quarantined(self, queue: str, worker: str) -> bool:
        """Whether a worker is quarantined in a queue, as read within the last second."""
        known = self._quarantined.get((queue, worker))
        if known is not None and monotonic() - known[0] < KNOWN_S:
            return known[1]
        found, _ = await self._read(queue, worker)
        return self._know(queue, worker, is_quarantined(found, self._store.now()))

    def _know(self, queue: str, worker: str, is_so: bool) -> bool:
        if len(self._quarantined) >= _MOST_KNOWN:
            self._quarantined.clear()
        self._quarantined[queue, worker] = monotonic(), is_so
        return is_so

    async def _read(self, queue: str, worker: str) -> tuple[ClaimingWorker | None, bytes | None]:
        [value] = await self._store.notes([NoteName(WORKER_NOTES, queue, worker)])
        return _decoded(_worker, value), value

    # --- noting claims ---

    def _flush_soon(self) -> None:
        if self._flushing is None and not self._is_closed:
            self._flushing = asyncio.ensure_future(self._flush_later())

    async def _flush_later(self) -> None:
        try:
            await asyncio.sleep(PACE_S)
            await self.flush()
        except (AndonError, OSError) as error:
            log.warning("Claims of workers could not be noted; the next ones are: %s", error)
        except Exception as error:
            log.error("Claims of workers could not be noted.", exc_info=error)
        finally:
            self._flushing = None
            if self._noted:
                self._flush_soon()

    async def flush(self) -> None:
        """Write what was claimed so far."""
        async with self._turn:
            noted, self._noted = self._noted, {}
            if not noted:
                return
            workers = {
                NoteName(WORKER_NOTES, q, w): ((q, w), runs) for (q, w), runs in noted.items()
            }
            queues = {NoteName(QUEUE_NOTES, "", queue): queue for queue, _ in noted}
            now = self._store.now()

            def worker_after(name: NoteName, found: ClaimingWorker | None) -> ClaimingWorker:
                (queue, worker), runs = workers[name]
                return claimed(queue, worker, found, runs, now)

            def queue_after(name: NoteName, found: ClaimedQueue | None) -> ClaimedQueue:
                return queue_claimed(queues[name], found, now)

            await self._change(list(queues), _queue, queue_after)
            await self._change(list(workers), _worker, worker_after)

    async def _change(
        self,
        names: Sequence[NoteName],
        decode: Callable[[bytes], T],
        decide: Callable[[NoteName, T | None], T],
    ) -> None:
        """Decide on notes until each is written. One that cannot be written is left out, and the
        store logs it."""
        for _ in range(_ATTEMPTS):
            if not names:
                return
            values = await self._store.notes(names)
            puts: list[PutNote] = []
            for name, value in zip(names, values, strict=True):
                found = _decoded(decode, value)
                after = decide(name, found)
                if after is not found:
                    puts.append(PutNote(name, _encode(after), value))
            outcomes = await self._store.put_notes(puts) if puts else []
            names = [
                put.name
                for put, outcome in zip(puts, outcomes, strict=True)
                if outcome is NotePut.OTHER
            ]

    async def close(self) -> None:
        """Write what was claimed, and stop."""
        self._is_closed = True
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
        try:
            await self.flush()
        except (AndonError, OSError) as error:
            log.warning("Claims of workers could not be noted; the next ones are: %s", error)

    # --- looking, and quarantine ---

    async def worker(self, queue: str, worker: str) -> ClaimingWorker:
        """One worker of a queue. Raises `WorkerNotFound`."""
        await self.flush()
        _check(queue, worker)
        found, _ = await self._read(queue, worker)
        if found is None or found.expires_at <= self._store.now():
            raise WorkerNotFound(queue, worker)
        return found

    async def workers(
        self,
        queue: str,
        cursor: str = "",
        limit: int = 100,
        *,
        in_quarantine: bool | None = None,
    ) -> tuple[list[ClaimingWorker], str]:
        """Workers of a queue by their ids, and a cursor if there are more. Optionally only those in
        quarantine, or only the others. Raises `InvalidSubmission`."""
        check_page(limit)
        check_key(queue, field="queue")
        await self.flush()
        now = self._store.now()

        def read(note: Note) -> ClaimingWorker | None:
            found = _decoded(_worker, note.value)
            if found is None or found.expires_at <= now:
                return None
            return found if in_quarantine in (None, is_quarantined(found, now)) else None

        place = WORKER_NOTES, queue
        return await self._page(place, cursor, limit, read, lambda one: one.worker)

    async def queues(self, cursor: str = "", limit: int = 100) -> tuple[list[ClaimedQueue], str]:
        """Queues that such workers claim from, by name, and a cursor if there are more."""
        check_page(limit)
        await self.flush()
        now = self._store.now()

        def read(note: Note) -> ClaimedQueue | None:
            found = _decoded(_queue, note.value)
            return None if found is None or found.expires_at <= now else found

        place = QUEUE_NOTES, ""
        return await self._page(place, cursor, limit, read, lambda one: one.queue)

    async def queue(self, queue: str) -> ClaimedQueue | None:
        """One of those queues; None if no worker has claimed from it lately."""
        await self.flush()
        check_key(queue, field="queue")
        [value] = await self._store.notes([NoteName(QUEUE_NOTES, "", queue)])
        found = _decoded(_queue, value)
        return None if _is_over(found, self._store.now()) else found

    async def _page(
        self,
        place: tuple[str, str],
        after: str,
        limit: int,
        read: Callable[[Note], T | None],
        key: Callable[[T], str],
    ) -> tuple[list[T], str]:
        if after:
            check_key(after, field="cursor")
        found: list[T] = []
        while len(found) <= limit:
            page = await self._store.list_notes(*place, after, limit + 1)
            found += [one for note in page if (one := read(note)) is not None]
            if len(page) <= limit:
                break
            after = page[-1].key
        more = len(found) > limit
        return found[:limit], key(found[limit - 1]) if more else ""

    async def quarantine(
        self, queue: str, worker: str, until: int, *, by: str = "", info: str = ""
    ) -> ClaimingWorker:
        """Give a worker no tasks until that moment (ms UTC); a moment that has passed lifts the
        quarantine. Raises `WorkerNotFound` for a worker that never claimed."""
        await self.flush()
        _check(queue, worker)
        check_moment(until, field="until")
        if len(info) > _MOST_INFO:
            raise InvalidSubmission(
                f"info is {len(info):,} characters long, and may have {_MOST_INFO:,}.", field="info"
            )

        def after(found: ClaimingWorker | None, now: int) -> ClaimingWorker:
            if found is None:
                raise WorkerNotFound(queue, worker)
            return quarantined(found, Quarantine(at=now, until=until, by=by, info=info))

        held = await self._change_one(queue, worker, after)
        self._know(queue, worker, is_quarantined(held, self._store.now()))
        return held

    async def declare(self, queue: str, worker: str, expires_at: int) -> ClaimingWorker:
        """Note that there is such a worker, though it may never have claimed, and keep it until
        that moment (ms UTC) at least. Raises `InvalidSubmission` for one that has passed."""
        check_key(queue, field="queue")
        check_key(worker, field="worker")
        check_moment(expires_at, field="expires")
        if expires_at <= self._store.now():
            raise InvalidSubmission("expires has passed.", field="expires")
        self.note(queue, worker)
        await self.flush()

        def after(found: ClaimingWorker | None, now: int) -> ClaimingWorker:
            return declared(queue, worker, found, expires_at, now)

        return await self._change_one(queue, worker, after)

    async def _change_one(
        self,
        queue: str,
        worker: str,
        decide: Callable[[ClaimingWorker | None, int], ClaimingWorker],
    ) -> ClaimingWorker:
        """Decide on one worker until that is written; an expired one counts as absent."""
        for _ in range(_ATTEMPTS):
            found, value = await self._read(queue, worker)
            now = self._store.now()
            after = decide(None if _is_over(found, now) else found, now)
            name = NoteName(WORKER_NOTES, queue, worker)
            [outcome] = await self._store.put_notes([PutNote(name, _encode(after), value)])
            if outcome is NotePut.WRITTEN:
                return after
            if outcome is NotePut.INVALID:
                raise InvalidSubmission(
                    "by and info are text without half characters.", field="info"
                )
        raise StoreUnavailable(f"Worker {worker!r} keeps changing; try again.")

    async def sweep(self, limit: int = 100) -> int:
        """Delete the expired workers of the next queue, and then the queue if none is left. Returns
        how many were deleted."""
        page = await self._store.list_notes(QUEUE_NOTES, "", self._swept, 1)
        if not page:
            self._swept = ""
            return 0
        [queue] = page
        now = self._store.now()
        notes = await self._store.list_notes(WORKER_NOTES, queue.key, "", limit)
        puts = [
            PutNote(NoteName(WORKER_NOTES, queue.key, note.key), None, note.value)
            for note in notes
            if _is_over(_decoded(_worker, note.value), now)
        ]
        if not notes and _is_over(_decoded(_queue, queue.value), now):
            puts.append(PutNote(NoteName(QUEUE_NOTES, "", queue.key), None, queue.value))
        outcomes = await self._store.put_notes(puts) if puts else []
        gone = sum(outcome is NotePut.WRITTEN for outcome in outcomes)
        if not gone or len(notes) < limit:
            self._swept = queue.key
        return gone


def _decoded(decode: Callable[[bytes], T], value: bytes | None) -> T | None:
    """The content of a note; one that does not decode counts as empty, and is written again."""
    if value is None:
        return None
    try:
        return decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.error("What is kept of a worker or queue does not decode: %s", error)
        return None


def _is_over(found: ClaimingWorker | ClaimedQueue | None, now: int) -> bool:
    return found is None or found.expires_at <= now


def _check(queue: str, worker: str) -> None:
    """Raise `WorkerNotFound` for a name that no worker can have."""
    try:
        check_key(queue, field="queue")
        check_key(worker, field="worker")
    except InvalidSubmission:
        raise WorkerNotFound(queue, worker) from None
