"""Setting aside: the move that takes a record which does not decode out of all lines (R28).

Whoever meets one first writes it: a claim, a timer, or a change decided on what was read of it.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.topics import EVENTS_TOPIC, ready_topic, task_topic
from andon.lifecycle.apply import set_aside
from andon.model.words import State
from andon.stores.codec import Undecodable, decode_definition
from andon.stores.nats.bodies import Body, Head, decode_body
from andon.stores.nats.heads import Heads, earlier
from andon.stores.nats.wire import CONFLICT, REFUSED

if TYPE_CHECKING:
    from andon.stores.nats.wire import Write

logger = logging.getLogger("andon.nats")

_MOVES = 15
"""Earlier moves kept with this one, where they can still be read."""


def is_aside(head: Head) -> bool:
    """Whether the move was written already."""
    return head.body.state == State.UNKNOWN and bool(head.body.events)


def is_broken(head: Head) -> bool:
    """Whether it does not decode and nobody has set it aside yet."""
    task = head.task
    return task is not None and task.state is State.UNKNOWN and not is_aside(head)


async def put_aside(heads: Heads, broken: Sequence[Head], now: int) -> list[str]:
    """Write the move over each; the topics to hint. Who loses a race for one leaves it be: the
    record has moved on, or another has set it aside."""
    first: list[Write] = []
    writes: list[Write] = []
    topics: list[str] = []
    for head in broken:
        old = head.body
        event = set_aside(old.revision, _state(old), now, "")
        body = Body(
            old.v,
            old.id,
            event.revision,
            State.UNKNOWN,
            old.digest,
            # As damaged as they are: who wants to mend by hand has all there is.
            old.definition,
            old.status,
            seqs=earlier(head, _MOVES),
            linked=old.linked,
            events=(event,),
            dropped=old.dropped,
        )
        archive = heads.archive(head, event.revision)
        if archive is not None:
            first.append(archive)
        subject = heads.names.rest(old.id)
        writes.append(heads.write(body, subject, guard=head.guard, purge=head.subject))
        heads.forget(old.id)
        topics += [task_topic(old.id), *_room(old)]
        logger.error("The record of task %s does not decode; it is set aside (R28).", old.id)
    if not writes:
        return []
    await heads.wire.write(heads.names.stream, first)
    seqs = await heads.wire.write(heads.names.stream, writes, each=True)
    foreign = [
        (head, write)
        for head, write, seq in zip(broken, writes, seqs, strict=True)
        if seq == REFUSED
    ]
    await _put_foreign_aside(heads, foreign)
    return [*topics, EVENTS_TOPIC]


async def _put_foreign_aside(heads: Heads, foreign: "Sequence[tuple[Head, Write]]") -> None:
    """Messages that Andon did not write are no schedules, so no write can take them along."""
    if not foreign:
        return
    bare = [
        heads.write(decode_body(data), subject, guard=head.guard)
        for head, (subject, data, _) in foreign
    ]
    seqs = await heads.wire.write(heads.names.stream, bare, each=True)
    for (head, (subject, _, _)), seq in zip(foreign, seqs, strict=True):
        if seq > CONFLICT and head.subject != subject:
            await heads.delete(head.seq)


def _state(body: Body) -> State | None:
    """The state it was in, if that much can be read."""
    return State(body.state) if body.revision and body.state in set(State) else None


def _room(body: Body) -> list[str]:
    """Where there may be room for another now, if that much can be read."""
    try:
        return [ready_topic(decode_definition(body.definition).queue)]
    except Undecodable:
        return []
