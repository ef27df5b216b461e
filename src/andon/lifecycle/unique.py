"""Unique keys: makes one from a call, and decides when a held one lapses. Pure.

A reservation of a key is a hint; its holder's record is authoritative (docs/store-contract.md, 6).
`take_unique` in `postgres/sql/functions/time_and_keys.sql` and `lapsed` and `holder_of` in
`redis/lua/records.lua` are the same rules on their servers; `tests/properties/test_limits_agree.py`
holds each store against these.
"""

from hashlib import blake2b
from typing import Any

import msgspec

from andon.lifecycle.indexes import IndexEntry
from andon.model.errors import InvalidSubmission
from andon.model.task import Task
from andon.model.words import State

UNWRITTEN_MS = 15_000
"""How long a reservation counts while its holder has no record, which may be on its way."""


def derived_key(name: str, payload: bytes, by: tuple[str, ...] = ()) -> str:
    """The unique key of a call: the same for the same name and arguments, in whatever order; with
    `by` of those arguments only.

    Raises `InvalidSubmission` for arguments without names where some are asked for.
    """
    args: Any
    if by:
        try:
            named = msgspec.json.decode(payload, type=dict[str, Any])
        except msgspec.ValidationError:
            raise InvalidSubmission(
                f"unique_by={list(by)} needs named arguments; {name!r} was given positions.",
                field="unique_by",
            ) from None
        args = {arg: named[arg] for arg in by if arg in named}
    else:
        args = msgspec.json.decode(payload)
    canonical = msgspec.json.encode(args, order="deterministic")
    return f"{name}:{blake2b(canonical, digest_size=16).hexdigest()}"


def is_past(until: int | None, now: int) -> bool:
    """Whether the period for which a key is held has passed; None: it has no end. In ms UTC."""
    return until is not None and until <= now


def lapsed(entry: IndexEntry, now: int) -> bool:
    """Whether the period for which the entry's record may hold its key has passed."""
    return is_past(entry.unique_until, now)


def keeps_from_others(state: State | str | None, until: int | None, now: int) -> bool:
    """Whether a reservation keeps others from the key: its holder, whose state is given, is there
    and can be read, and its period has not passed."""
    return state is not None and state != State.UNKNOWN and not is_past(until, now)


def holds(entry: IndexEntry, key: str, now: int) -> bool:
    """Whether a record with this entry holds the key now."""
    return entry.unique_key == key and not lapsed(entry, now)


def key_freed_by_claim(task: Task) -> str | None:
    """The unique key of a pending task that is free once the task is claimed (docs/rulings.md,
    R13)."""
    key = task.definition.unique_key
    return None if key is None or State.ACTIVE.value in task.policy.unique_states else key
