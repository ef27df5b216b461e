"""Restores records as another store held them, with their moves, edges and counts.

All that belongs to a record is written before it, so a record that exists is complete.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.contract.requests import Snapshot
from andon.contract.topics import CONFIG_TOPIC, task_topic
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.effects import of_new
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.kit.topics import topics_of
from andon.stores.nats.context import StoreContext
from andon.stores.nats.dead_letter_index import dead_letter_mark
from andon.stores.nats.edge_codec import encoded
from andon.stores.nats.edges import is_over
from andon.stores.nats.end_marks import end_marks
from andon.stores.nats.event_log import archived
from andon.stores.nats.jetstream import CONFLICT, Write
from andon.stores.nats.record_cache import RecordCache, subqueue_of
from andon.stores.nats.record_codec import Archive, StoredRecord
from andon.stores.nats.subjects import ARCHIVED
from andon.stores.nats.timers import schedules

if TYPE_CHECKING:
    from andon.model.task import TaskEvent


async def restore(context: StoreContext, snapshots: Sequence[Snapshot]) -> list[bool]:
    """Store each; False where the id is taken."""
    outcomes = [False] * len(snapshots)
    first: dict[str, int] = {}
    for position, snapshot in enumerate(snapshots):
        first.setdefault(snapshot.task.id, position)
    for partition, records in enumerate(context.records):
        mine = [i for i in first.values() if context.partition(snapshots[i].task.id) == partition]
        there = await records.read(snapshots[i].task.id for i in mine)
        now = context.clock.now()
        mine = [i for i in mine if not _is_taken(there.get(snapshots[i].task.id), now)]
        subqueues = [subqueue_of(snapshots[i].task) for i in mine]
        new_queue = await context.fleet.use(subqueues) if mine else False
        topics: list[str] = [CONFIG_TOPIC] if new_queue else []
        beside: list[Write] = []
        timers: list[tuple[str, int, int]] = []
        for i in mine:
            task = snapshots[i].task
            effects, revision = of_new(task), task.status.revision
            await context.reserve_for(effects, task.id, revision, now)
            if effects.timer is not None:
                timers.append((task.id, revision, effects.timer))
            if effects.dead_letter_in:
                beside.append(dead_letter_mark(records.subjects, task.id, revision))
            beside += _beside(records, snapshots[i])
            topics += [task_topic(task.id), *topics_of(effects, now)]
        stream = records.subjects.stream
        await records.js.write(stream, [*beside, *schedules(records.subjects, timers, now)])
        writes = [_record(records, snapshots[i], there.get(snapshots[i].task.id)) for i in mine]
        seqs = await records.js.write(stream, writes)
        for i, seq in zip(mine, seqs, strict=True):
            outcomes[i] = seq > CONFLICT
        context.hint(topics)
    return outcomes


def _is_taken(stored: StoredRecord | None, now: int) -> bool:
    if stored is None:
        return False
    return not stored.body.deleted or stored.body.deleted > now - SUBMIT_WINDOW_MS


def _beside(records: RecordCache, snapshot: Snapshot) -> list[Write]:
    """Edges, satisfied dependencies and the moves for which the record itself has no room."""
    task, subjects = snapshot.task, records.subjects
    writes: list[Write] = [
        (subjects.of("e", task.id, edge.child), encoded(edge), None) for edge in snapshot.edges
    ]
    if is_over(task.state) and any(not edge.settled for edge in snapshot.edges):
        writes += end_marks(subjects, [task.id])
    if task.state is State.BLOCKED:
        satisfied = {*snapshot.satisfied} & {*task.definition.dependencies}
        writes += [(subjects.of("f", task.id, parent), b"1", None) for parent in sorted(satisfied)]
    parts: dict[int, list[TaskEvent]] = {}
    for event in snapshot.history:
        if event.revision <= archived(task.status.revision):
            part = parts.setdefault((event.revision - 1) // ARCHIVED, [])
            part.append(replace(event, task=""))
    for part in parts.values():
        archive = Archive(task.id, task.status.created_at, tuple(part), ())
        writes.append((subjects.archive(task.id, part[0].revision), encode(archive), None))
    return writes


def _record(records: RecordCache, snapshot: Snapshot, there: StoredRecord | None) -> Write:
    task = snapshot.task
    body = records.body(task, None, own=len(task.status.events))
    body.linked = 1 if snapshot.edges else 0
    body.dropped = snapshot.dropped
    guard = 0 if there is None else there.guard
    return records.write(body, records.subject(task), guard=guard)
