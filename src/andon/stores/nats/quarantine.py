"""Quarantines records: writes the move that takes a record that does not decode out of all
sub-queues (docs/rulings.md, R28).

The operation that first reads such a record writes the move: a claim, a timer, or a change that was
decided on the record.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.topics import EVENTS_TOPIC, ready_topic, task_topic
from andon.lifecycle.apply import set_aside
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition
from andon.stores.nats.jetstream import CONFLICT, REFUSED
from andon.stores.nats.record_cache import RecordCache, earlier
from andon.stores.nats.record_codec import RecordBody, StoredRecord, decode_record

if TYPE_CHECKING:
    from andon.stores.nats.jetstream import Write

logger = logging.getLogger("andon.nats")

_MOVES = 15
"""Earlier moves kept with this one, if they can still be read."""


def is_quarantined(stored: StoredRecord) -> bool:
    """Whether the move was written already."""
    return stored.body.state == State.UNKNOWN and bool(stored.body.events)


def is_unreadable(stored: StoredRecord) -> bool:
    """Whether it does not decode and is not quarantined yet."""
    task = stored.task
    return task is not None and task.state is State.UNKNOWN and not is_quarantined(stored)


async def quarantine(records: RecordCache, broken: Sequence[StoredRecord], now: int) -> list[str]:
    """Write the move over each. Returns the topics to hint. A lost race for a record leaves it as
    it is: it has moved on, or another process has quarantined it."""
    first: list[Write] = []
    writes: list[Write] = []
    topics: list[str] = []
    for stored in broken:
        old = stored.body
        event = set_aside(old.revision, _state(old), now, "")
        body = RecordBody(
            old.v,
            old.id,
            event.revision,
            State.UNKNOWN,
            old.digest,
            # The damaged parts are kept as they are, for a repair by hand.
            old.definition,
            old.status,
            seqs=earlier(stored, _MOVES),
            linked=old.linked,
            events=(event,),
            dropped=old.dropped,
        )
        archive = records.archive(stored, event.revision)
        if archive is not None:
            first.append(archive)
        subject = records.subjects.rest(old.id)
        writes.append(records.write(body, subject, guard=stored.guard, purge=stored.subject))
        records.forget(old.id)
        topics += [task_topic(old.id), *_room(old)]
        logger.error("The record of task %s does not decode; it is set aside.", old.id)
    if not writes:
        return []
    await records.js.write(records.subjects.stream, first)
    seqs = await records.js.write(records.subjects.stream, writes, each=True)
    foreign = [
        (stored, write)
        for stored, write, seq in zip(broken, writes, seqs, strict=True)
        if seq == REFUSED
    ]
    await _quarantine_foreign(records, foreign)
    return [*topics, EVENTS_TOPIC]


async def _quarantine_foreign(
    records: RecordCache, foreign: "Sequence[tuple[StoredRecord, Write]]"
) -> None:
    """Messages that Andon did not write are no schedules, so a write cannot delete them in the same
    step."""
    if not foreign:
        return
    bare = [
        records.write(decode_record(data), subject, guard=stored.guard)
        for stored, (subject, data, _) in foreign
    ]
    seqs = await records.js.write(records.subjects.stream, bare, each=True)
    for (stored, (subject, _, _)), seq in zip(foreign, seqs, strict=True):
        if seq > CONFLICT and stored.subject != subject:
            await records.delete(stored.seq)


def _state(body: RecordBody) -> State | None:
    """The state it was in, if it can be read."""
    return State(body.state) if body.revision and body.state in set(State) else None


def _room(body: RecordBody) -> list[str]:
    """The queue that may have room for another task now, if it can be read."""
    try:
        return [ready_topic(decode_definition(body.definition).queue)]
    except Undecodable:
        return []
