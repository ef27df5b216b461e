"""Unique keys of a store with several partitions: reservations in the key's own partition.

A reservation is a hint, its holder's record the truth. It is made before the record is written and
let go after the record has left the states in which it holds, so a crash in between leaves one that
nobody holds: whoever finds it looks at the record, and takes it over if that stands as it was seen.
"""

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.lifecycle.indexes import entry_of

if TYPE_CHECKING:
    from andon.stores.redis.store import RedisStore

UNWRITTEN_MS = 15_000
"""How long a reservation is believed while its holder has no record: it may be on its way."""


class Wish(msgspec.Struct, frozen=True):
    """A task that wants to hold a unique key."""

    key: str
    until: int | None
    task: str


def partition_of(store: "RedisStore", key: str) -> int:
    """The partition in which a unique key is reserved."""
    return zlib.crc32(key.encode()) % store.partitions


async def reserve(store: "RedisStore", wishes: Sequence[Wish]) -> dict[str, str]:
    """Reserve keys for tasks; for those that could not be, the task's id to the holder's."""
    refused: dict[str, str] = {}
    first: dict[str, str] = {}
    for wish in wishes:
        if first.setdefault(wish.key, wish.task) != wish.task:
            refused[wish.task] = first[wish.key]
    for wish in wishes:
        if wish.task not in refused:
            holder = await _reserve(store, wish)
            if holder is not None:
                refused[wish.task] = holder
    return refused


async def _reserve(store: "RedisStore", wish: Wish) -> str | None:
    stale: str | None = None
    while True:
        item = (wish.key, wish.until, wish.task, stale)
        answer = (await store.run("reserve", partition_of(store, wish.key), [item]))[1]
        if not answer:
            return None
        holder, age, found = answer[0].decode(), answer[1], answer[2].decode()
        if found == stale or await _holds(store, holder, wish.key, age):
            return holder
        stale = found


async def _holds(store: "RedisStore", holder: str, key: str, age: int) -> bool:
    (record,) = await store.get([holder])
    if record is None:
        return age < UNWRITTEN_MS
    entry = entry_of(record)
    lapsed = entry.unique_until is not None and entry.unique_until <= store.now()
    return entry.unique_key == key and not lapsed


async def let_go(store: "RedisStore", held: Sequence[tuple[str, str]]) -> None:
    """Let go of (key, task) where the task's record does not hold the key any more."""
    for key, task_id in held:
        partition = partition_of(store, key)
        seen = (await store.run("reserved", partition, [key]))[1].decode()
        if seen.split(" ", 2)[2:] != [task_id]:
            continue
        (record,) = await store.get([task_id])
        if record is None or entry_of(record).unique_key != key:
            await store.run("release", partition, [(key, seen)])
