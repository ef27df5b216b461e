"""Writes decided moves if the record is still what they were decided on."""

from collections.abc import Sequence
from typing import Any

import msgspec

from andon.contract.outcomes import APPLIED, HAS_DEPENDENTS, Changed, ChangeKind
from andon.contract.refusals import change_refused
from andon.contract.requests import Change
from andon.lifecycle.batches import moved_alike
from andon.lifecycle.constants import DAY_MS
from andon.lifecycle.effects import Effects
from andon.lifecycle.repeats import tombstone_of
from andon.model.task import MAX_EVENTS_KEPT
from andon.model.words import LIVE, TERMINAL, State
from andon.stores.kit.codec import encode, encode_event
from andon.stores.redis import reserving
from andon.stores.redis.dependencies import unlink
from andon.stores.redis.packed import EndGroup
from andon.stores.redis.partitions import Partitions, Parts, is_short
from andon.stores.redis.reading import read, states
from andon.stores.redis.records import FIRST_APART, body, damage, packed_entry, task_of

_GONE = Changed(ChangeKind.GONE)

_NOTHING_RARE = (None, False, None, None, None, False, False, None, None)
"""The values that most changes have in the places that `commit.lua` can do without."""


_UNSET, _SET, _CLEARED = 0, 1, 2
"""What a change does with the result, as `commit_plain.lua` knows it."""


class _Prepared(msgspec.Struct, frozen=True, gc=False):
    """A change with its effects."""

    change: Change
    effects: Effects
    ends_run: bool  #: the run ended by itself, see `commit_plain.lua`


async def commit(at: Partitions, changes: Sequence[Change]) -> list[Changed]:
    """Write the changes; outcomes in order."""
    prepared: list[_Prepared] = []
    for batch in moved_alike(changes):
        effects = batch.effects
        ends_run = effects.ends_run and not effects.interrupts
        prepared += [_Prepared(change, effects, ends_run) for change in batch.moves]
    if at.count > 1 and any(p.change.before.definition.unique_key for p in prepared):
        outcomes = await _commit_apart(at, prepared)
    else:
        outcomes = await _commit(at, prepared, reserved=False)
    gone = [
        (parent, change.before.definition.id)
        for change, outcome in zip(changes, outcomes, strict=True)
        if (change.after is None or change.discard is not None)
        and outcome.kind is ChangeKind.APPLIED
        for parent in change.before.definition.dependencies
    ]
    if gone:  # edges that end in a deleted task are removed with it
        await unlink(at, gone)
    return outcomes


async def _commit_apart(at: Partitions, prepared: Sequence[_Prepared]) -> list[Changed]:
    """The same where unique keys are reserved in partitions of their own."""
    wishes = [
        wish
        for p in prepared
        if (wish := reserving.wish_of(p.effects, p.change.before.id, at.clock.now())) is not None
    ]
    for one in prepared:  # a change that cannot be encoded is found before anything is reserved
        encode(_item(one, reserved=True))
    held = await reserving.reserve(at, wishes)
    written = [p for p in prepared if p.change.before.id not in held]
    outcomes = iter(await _commit(at, written, reserved=True))
    told = [
        Changed(ChangeKind.KEY_HELD, holder=held[p.change.before.id])
        if p.change.before.id in held
        else next(outcomes)
        for p in prepared
    ]
    await reserving.release(at, _perhaps_free(prepared))
    return told


async def _commit(
    at: Partitions, prepared: Sequence[_Prepared], *, reserved: bool
) -> list[Changed]:
    ids = [p.change.before.definition.id for p in prepared]
    if not reserved and all(map(_is_plain, prepared)) and is_short(ids):
        replies = await at.spread_parts("commit", ids, lambda here: _parts(here, prepared))
    else:
        items = [_item(p, reserved=reserved) for p in prepared]
        replies = await at.spread("commit", items, ids)
    return [
        APPLIED
        if reply is None
        else await _delete_needed(at, p, reply, reserved=reserved)
        if reply[0] == b"n"
        else _outcome(reply, p.change)
        for p, reply in zip(prepared, replies, strict=True)
    ]


def _is_plain(prepared: _Prepared) -> bool:
    """Whether a change ends a run that ended by itself, and the script need only check the record's
    version, which says whether its moves are kept apart."""
    change = prepared.change
    after = change.after
    return (
        prepared.ends_run
        and after is not None
        and after.revision < FIRST_APART
        and change.seen_lease is None
        and not change.force
    )


def _parts(places: Sequence[int], prepared: Sequence[_Prepared]) -> Parts:
    """Changes as `commit_plain.lua` takes them; a group shares an entry, revisions, and whether
    there are results."""
    groups: list[EndGroup] = []
    parts: list[bytes | str] = []
    last, last_shared = None, None
    for place in places:
        change, effects = prepared[place].change, prepared[place].effects
        entry, tally = effects.entry, effects.tally
        before, after, event = change.before, change.after, change.event
        assert after is not None
        assert entry is not None
        definition, status = before.definition, before.status
        packed = packed_entry(entry, before, after)
        results = _UNSET
        if change.sets_result:
            results = _CLEARED if change.result is None else _SET
        day = event.at // DAY_MS
        shared = (status.revision, after.revision, results, day, tally)
        if shared != last_shared or packed != last:
            last, last_shared = packed, shared
            created = str(status.created_at)
            groups.append(
                EndGroup(
                    entry=packed,
                    guard=f"{status.revision} {created} ",
                    next=f"{after.revision} {created} ",
                    queue=entry.queue,
                    state=entry.state,
                    created=created,
                    timer=None if entry.timer is None else str(entry.timer),
                    dead_letter=entry.dead_letter,
                    results=results,
                    day=str(day),
                    tally=tally,
                    lists=entry.lists or None,
                    size=0,
                )
            )
        groups[-1].size += 1
        parts += (
            definition.id,
            encode(after),
            encode_event(event, definition.id),
            event.write_id,
            change.result or b"",
        )
    return groups, parts


async def _delete_needed(
    at: Partitions, prepared: _Prepared, reply: list[Any], *, reserved: bool
) -> Changed:
    """A deletion that edges forbid: edges of children that have ended keep nothing."""
    parent = prepared.change.before.id
    children = sorted({child.decode() for child in reply[1:]})
    found = await states(at, children)
    ended = [child for child, state in zip(children, found, strict=True) if state not in LIVE]
    if len(ended) < len(children):
        (current,) = await read(at, [parent])
        return _GONE if current is None else Changed(ChangeKind.CONFLICT, current=current)
    await unlink(at, [(parent, child) for child in ended])
    (changed,) = await _commit(at, [prepared], reserved=reserved)
    return changed


def _perhaps_free(prepared: Sequence[_Prepared]) -> list[tuple[str, str]]:
    """Unique keys that changes may have freed, or may have reserved in vain."""
    return [
        (definition.unique_key, definition.id)
        for p in prepared
        for definition, effects in ((p.change.before.definition, p.effects),)
        if definition.unique_key is not None
        and (effects.takes_key or effects.frees_key or effects.discards or effects.entry is None)
    ]


def _item(prepared: _Prepared, *, reserved: bool) -> tuple[Any, ...]:
    """One change as `commit.lua` takes it; `reserved`: its unique key is reserved in another
    partition."""
    change = prepared.change
    effects, before, after, event = prepared.effects, change.before, change.after, change.event
    entry = effects.entry
    status = before.status
    task_id, created_at = before.definition.id, status.created_at
    packed = body(encode_event(event, task_id))
    result: Any = None
    if change.sets_result:
        result = False if change.result is None else body(change.result)
    version = status_body = entry_body = None
    asked = history = last = None
    if after is not None and entry is not None:
        version = f"{after.revision} {created_at} "
        status_body, entry_body = body(encode(after)), packed_entry(entry, before, after)
        if after.state is State.ACTIVE and after.cancel_requested_at is not None:
            asked = after.run
        if after.revision >= FIRST_APART:
            begun = after.revision > MAX_EVENTS_KEPT
            history = [packed] if begun else [body(encode_event(e, task_id)) for e in after.events]
    elif status.events:
        last = status.events[-1].write_id
    common = (
        task_id,
        f"{status.revision} {created_at} ",
        version,
        status_body,
        entry_body,
        packed,
        event.write_id,
        effects.interrupts,
        str(event.at // DAY_MS),
        effects.tally or False,
        result,
    )
    rare = (
        change.seen_lease,
        change.force,
        None if change.discard is None else body(encode_event(change.discard, task_id)),
        history,
        asked,
        status.state is State.UNKNOWN,
        reserved,
        last,
        _last_run(change),
    )
    return common if rare == _NOTHING_RARE else common + rare


def _last_run(change: Change) -> str | None:
    """What the stub of a record that this change deletes keeps of its last run."""
    if change.after is not None and change.discard is None:
        return None
    left = tombstone_of(change.before.status if change.after is None else change.after)
    return f"{left.run} {left.report}" if left.run else None


def _outcome(reply: Any, change: Change) -> Changed:
    if reply == b"a":
        return APPLIED
    if reply == b"d":
        return HAS_DEPENDENTS
    if reply == b"g":
        return _GONE
    if reply[0] == b"k":
        return Changed(ChangeKind.KEY_HELD, holder=reply[1].decode())
    if reply[0] == b"i":
        return change_refused(change, damage(reply[1]))
    current = task_of(change.before.definition.id, reply[2:])
    if current is None:
        return _GONE
    write_id = change.event.write_id
    if write_id and any(event.write_id == write_id for event in current.status.events):
        return HAS_DEPENDENTS if current.state in TERMINAL and reply[1] else APPLIED
    return Changed(ChangeKind.CONFLICT, current=current)
