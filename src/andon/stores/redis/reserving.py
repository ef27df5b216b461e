"""Reserves unique keys in a store with several partitions: each in the key's own partition.

A reservation is a hint, its holder's record decides. It is made before the record is written and
dropped after the record has left the states in which it holds the key, so a crash in between leaves
one without a holder: a process that finds it reads the record, and takes the reservation over if it
still stands as it was read.
"""

from collections.abc import Sequence

import msgspec

from andon.lifecycle.effects import Effects
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.unique import UNWRITTEN_MS, holds
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.reading import read


class Wish(msgspec.Struct, frozen=True):
    """A task that wants to hold a unique key."""

    key: str
    until: int | None
    task: str
    heir_of: str = ""  #: the task whose place it takes


def wish_of(effects: Effects, task_id: str, now: int) -> Wish | None:
    """The key that a write needs by its effects, unless the period has passed."""
    key, entry = effects.key_to_reserve(now), effects.entry
    if key is None or entry is None:
        return None
    return Wish(key, entry.unique_until, task_id, effects.heir_of)


async def reserve(at: Partitions, wishes: Sequence[Wish]) -> dict[str, str]:
    """Reserve keys for tasks. Returns, for keys that could not be reserved, the holder's id by the
    task's id."""
    refused: dict[str, str] = {}
    first: dict[str, str] = {}
    for wish in wishes:
        if first.setdefault(wish.key, wish.task) != wish.task:
            refused[wish.task] = first[wish.key]
    for wish in wishes:
        if wish.task not in refused:
            holder = await _reserve(at, wish)
            if holder is not None:
                refused[wish.task] = holder
    return refused


async def _reserve(at: Partitions, wish: Wish) -> str | None:
    stale: str | None = None
    while True:
        item = (wish.key, wish.until, wish.task, stale, wish.heir_of)
        answer = (await at.run("reserve", at.of(wish.key), [item]))[1]
        if not answer:
            return None
        holder, age, found = answer[0].decode(), answer[1], answer[2].decode()
        if found == stale or await _holds(at, holder, wish.key, age):
            return holder
        before = _before(found)
        if before and before != wish.heir_of and await _holds(at, before, wish.key, UNWRITTEN_MS):
            return before
        stale = found


def _holder(found: str) -> str:
    """The task that has reserved a key, by its reservation as it stands."""
    return found.split(" ")[2] if found else ""


def _before(found: str) -> str:
    """The task that had reserved it before, and still holds it if the other was never written."""
    parts = found.split(" ")
    return parts[3] if len(parts) > 3 else ""


async def _holds(at: Partitions, holder: str, key: str, age: int) -> bool:
    (record,) = await read(at, [holder])
    if record is None:
        return age < UNWRITTEN_MS
    return holds(entry_of(record), key, at.clock.now())


async def release(at: Partitions, held: Sequence[tuple[str, str]]) -> None:
    """Drop the reservations (key, task) whose task's record does not hold the key any more."""
    for key, task_id in held:
        partition = at.of(key)
        seen = (await at.run("reserved", partition, [key]))[1].decode()
        if _holder(seen) != task_id:
            continue
        (record,) = await read(at, [task_id])
        if record is None or entry_of(record).unique_key != key:
            await at.run("release", partition, [(key, seen)])
