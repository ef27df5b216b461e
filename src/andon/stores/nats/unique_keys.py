"""Reserves unique keys. A reservation is a hint; its holder's record says whether it holds.

A reservation names the revision at which its holder begins to hold. Until that revision is
written it is respected for `UNWRITTEN_MS`; afterwards the record alone decides. Taking over is a
compare-and-set.
"""

import msgspec

from andon.lifecycle.indexes import entry_of
from andon.lifecycle.unique import UNWRITTEN_MS, holds
from andon.stores.kit.codec import encode
from andon.stores.kit.partitions import partition_of
from andon.stores.nats.jetstream import CONFLICT, GUARD, seq_of
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.subjects import hashed


class Reservation(msgspec.Struct, array_like=True):
    """The task that reserved the key, from which of its revisions it holds, and since when it is
    reserved."""

    holder: str
    revision: int
    at: int
    before: str = ""  #: the holder until then, and still so if `holder` is never written


_decode = msgspec.msgpack.Decoder(Reservation).decode


class UniqueKeys:
    """The reservations of one partition."""

    def __init__(self, records: RecordCache) -> None:
        self._records = records

    async def reserve(
        self,
        key: str,
        task_id: str,
        revision: int,
        now: int,
        partitions: list[RecordCache],
        *,
        heir_of: str = "",
    ) -> str:
        """Reserve the key. Returns the holder's id if another task holds it, else ''. `heir_of`:
        the task whose place this one takes; it keeps this one from the key no more than this one
        itself does."""
        subject = self._records.subjects.of("u", hashed(key))
        body = encode(Reservation(task_id, revision, now, heir_of))
        for _ in range(50):
            found = await self._records.last([subject])
            guard = 0
            if found and found[0].data:
                there = _decode(found[0].data)
                if there.holder not in (task_id, heir_of):
                    holder = await self._holder(key, there, now, partitions)
                    if holder not in ("", heir_of):
                        return holder
            if found:
                guard = seq_of(found[0])
            (seq,) = await self._records.js.write(
                self._records.subjects.stream, [(subject, body, {GUARD: str(guard)})]
            )
            if seq > CONFLICT:
                return ""
        return "?"

    async def drop(self, key: str, task_id: str, revision: int) -> None:
        """Drop the task's reservation, if it is still the task's, and not one that the task made
        for a later revision."""
        subject = self._records.subjects.of("u", hashed(key))
        found = await self._records.last([subject])
        there = _decode(found[0].data) if found and found[0].data else None
        if there is not None and there.holder == task_id and there.revision <= revision:
            headers = {GUARD: str(seq_of(found[0])), "Nats-TTL": "1s"}
            await self._records.js.write(self._records.subjects.stream, [(subject, b"", headers)])

    @staticmethod
    async def _holder(key: str, there: Reservation, now: int, partitions: list[RecordCache]) -> str:
        """The id of the task that holds the key by this reservation; '' if none does."""
        ids = [task_id for task_id in (there.holder, there.before) if task_id]
        for task_id in ids:
            records = partitions[partition_of(task_id, len(partitions))]
            stored = (await records.read([task_id])).get(task_id)
            is_first = task_id == there.holder
            if is_first and (stored is None or stored.body.revision < there.revision):
                if there.at > now - UNWRITTEN_MS:
                    return task_id
                continue
            there_is = None if stored is None else stored.task
            if there_is is not None and holds(entry_of(there_is), key, now):
                return task_id
        return ""
