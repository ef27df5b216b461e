"""Creating records that are alike, as in a bulk submit: what is sent once, and what of each.

Most of what a record's columns say is the same in all of them, and each column of each record costs
the driver and the server as much as a small computation (sql/functions/create_alike.sql).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from andon.contract.topics import CONFIG_TOPIC, EVENTS_TOPIC, ready_topic
from andon.lifecycle.indexes import IndexEntry, ReadyEntry
from andon.model.task import Task
from andon.model.words import State
from andon.stores.codec import encode, encode_event
from andon.stores.postgres.arrays import numbers
from andon.stores.postgres.creating import is_plain, lane_of, names_of
from andon.stores.postgres.names import Names


def are_alike(tasks: Sequence[Task], entries: Sequence[IndexEntry]) -> bool:
    """Whether one call for records that are alike does for these, if they share a partition."""
    first, known = entries[0], None
    if not _is_bare(first):
        return False
    for task, entry in zip(tasks, entries, strict=True):
        if entry is not first and not (_is_bare(entry) and _key(entry) == _key(first)):
            return False
        status = task.status
        if status is not known and not (status.revision == 1 and status.runs[-1].number == 0):
            return False
        known = status
    return True


def _is_bare(entry: IndexEntry) -> bool:
    """Pending, without anything of its own that `create_alike` knows no column for."""
    return entry.state is State.PENDING and entry.timer is None and is_plain(entry)


def _key(entry: IndexEntry) -> tuple[Any, ...]:
    ready = entry.ready
    assert ready is not None, "what is pending has one"
    lane = entry.queue, entry.name, ready.kind, ready.priority
    return *lane, entry.group, ready.first_limit, ready.dead_at


async def arguments(
    tasks: Sequence[Task], entries: Sequence[IndexEntry], partition: int, names: Names
) -> tuple[list[Any], set[str]]:
    """Arguments of the statement after its first two, and the topics of its hints but for the
    tasks' own."""
    first = entries[0]
    ready = [entry.ready for entry in entries if entry.ready is not None]
    topics = {EVENTS_TOPIC, ready_topic(first.queue)}
    if await names.know(names_of(first)):
        topics.add(CONFIG_TOPIC)
    lane = lane_of(first, names, partition)
    assert lane is not None
    await names.know_lanes((lane,))
    ids = [task.definition.id for task in tasks]
    definitions = [encode(task.definition) for task in tasks]
    starts = list(accumulate(map(len, definitions), initial=1))[:-1]
    return [
        partition,
        names.ids[first.queue],
        first.group,
        names.lanes[lane],
        ready[0].first_limit,
        min(entry.order for entry in ready),
        *_shared(tasks, ids),
        " ".join(ids),
        b"".join(definitions),
        numbers(starts),
        *_own(tasks, ready, ids),
    ], topics


def _is_shared(tasks: Sequence[Task], ids: Sequence[str]) -> bool:
    """Whether they have one status, and so one place in their lane, and events that differ by the
    id alone."""
    status, size = tasks[0].status, len(ids[0])
    return all(task.status is status for task in tasks) and all(len(i) == size for i in ids)


def _shared(tasks: Sequence[Task], ids: Sequence[str]) -> tuple[int | bytes | None, ...]:
    """When they were created, the status, and what stands before and after the id in an event, if
    they have that in common; ids of one length, because the length stands before it."""
    if not _is_shared(tasks, ids):
        return None, None, None, None
    status = tasks[0].status
    head, _, tail = encode_event(status.events[-1], ids[0]).rpartition(ids[0].encode())
    return status.created_at, encode(status), head, tail


def _own(
    tasks: Sequence[Task], ready: Sequence[ReadyEntry], ids: Sequence[str]
) -> tuple[str, str, list[bytes], list[bytes]]:
    """Times, places, statuses and events where they have them not in common."""
    if _is_shared(tasks, ids):
        return "{}", "{}", [], []
    return (
        numbers([task.status.created_at for task in tasks]),
        numbers([entry.order for entry in ready]),
        [encode(task.status) for task in tasks],
        [encode_event(task.status.events[-1], task.definition.id) for task in tasks],
    )
