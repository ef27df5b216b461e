"""What commit sends and what comes back."""

from collections.abc import Sequence
from typing import Any

import msgspec

from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.task import MAX_EVENTS_KEPT, Task
from andon.model.words import TERMINAL, Event, State
from andon.stores.base import Change, Changed, ChangeKind
from andon.stores.redis.records import body, encode, packed_entry, packed_event, task_of
from andon.stores.redis.reserving import Wish

APPLIED = Changed(ChangeKind.APPLIED)
HAS_DEPENDENTS = Changed(ChangeKind.APPLIED, has_dependents=True)
GONE = Changed(ChangeKind.GONE)

_DONE_TO_A_RUN = frozenset({Event.REQUEST_CANCEL, Event.CANCEL, Event.EXPIRE})
"""Moves of an active task that its worker does not make itself, so that it must be told."""

FIRST_APART = 13
"""Revision from which a task's moves are kept apart too: its status carries the last 16 only, and
a claim writes none, so the list is begun while the status has them all."""


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A change with the index entry it leads to."""

    change: Change
    after: IndexEntry | None


def prepare(change: Change) -> Prepared:
    """Derive the entry."""
    if change.after is None:
        return Prepared(change, None)
    record = Task(
        definition=change.before.definition, status=change.after, cell=change.before.cell
    )
    return Prepared(change, entry_of(record))


def wish(prepared: Prepared) -> Wish | None:
    """The unique key that a change begins to hold."""
    after = prepared.after
    if after is None or after.unique_key is None:
        return None
    if entry_of(prepared.change.before).unique_key is not None:
        return None
    return Wish(after.unique_key, after.unique_until, prepared.change.before.definition.id)


def perhaps_free(prepared: Sequence[Prepared]) -> list[tuple[str, str]]:
    """Unique keys that changes may have given up, or may have reserved in vain."""
    return [
        (definition.unique_key, definition.id)
        for p in prepared
        for definition in (p.change.before.definition,)
        if definition.unique_key is not None
        and (p.after is None or p.change.discard is not None or _key_changes(p))
    ]


def _key_changes(prepared: Prepared) -> bool:
    after = prepared.after
    assert after is not None
    return (entry_of(prepared.change.before).unique_key is None) != (after.unique_key is None)


def item(prepared: Prepared, *, reserved: bool) -> tuple[Any, ...]:
    """One change as `commit.lua` takes it; `reserved`: its unique key is seen to elsewhere."""
    change = prepared.change
    before, after, event = change.before, change.after, change.event
    definition = before.definition
    task_id = definition.id
    status = before.status
    packed = body(packed_event(event, task_id))
    history: list[msgspec.Raw] | None = None
    if after is not None and after.revision >= FIRST_APART:
        begun = after.revision > MAX_EVENTS_KEPT
        history = [packed] if begun else [
            body(packed_event(e, task_id)) for e in after.events
        ]
    told = change.seen_lease is not None or event.event in _DONE_TO_A_RUN
    entry = prepared.after
    return (
        task_id,
        status.revision,
        status.created_at,
        change.seen_lease,
        None if after is None else body(encode(after)),
        None if entry is None or after is None else body(packed_entry(entry, before, after)),
        packed,
        change.sets_result,
        None if change.result is None else body(change.result),
        change.force,
        None if change.discard is None else body(packed_event(change.discard, task_id)),
        status.worker,
        event.write_id,
        history,
        after is not None and after.cancel_requested_at is not None,
        status.state is State.UNKNOWN,
        told,
        0 if after is None else after.revision,
        1 if reserved else 0,
    )


def outcome(reply: Any, change: Change) -> Changed:
    """The outcome of one change; "needed" is for the caller to look into."""
    if reply == b"a":
        return APPLIED
    if reply == b"d":
        return HAS_DEPENDENTS
    if reply == b"g":
        return GONE
    if reply[0] == b"k":
        return Changed(ChangeKind.KEY_HELD, holder=reply[1].decode())
    current = task_of(change.before.definition.id, reply[2:])
    if current is None:
        return GONE
    write_id = change.event.write_id
    if write_id and any(event.write_id == write_id for event in current.status.events):
        return HAS_DEPENDENTS if current.state in TERMINAL and reply[1] else APPLIED
    return Changed(ChangeKind.CONFLICT, current=current)
