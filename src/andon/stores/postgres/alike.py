"""Creates records that are alike, as in a bulk submit: common values are sent once, the others per
record.

Most of what a record's columns say is the same in all of them, and each column of each record costs
the driver and the server as much as a small computation (sql/functions/create_alike.sql).
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from andon.contract.topics import CONFIG_TOPIC
from andon.lifecycle.batches import NewTasks
from andon.lifecycle.indexes import IndexEntry
from andon.model.words import State
from andon.stores.kit.codec import around_id, encode, encode_event, of_one_length
from andon.stores.kit.topics import topics_of
from andon.stores.postgres.arrays import numbers
from andon.stores.postgres.creating import lane_of, names_of
from andon.stores.postgres.names import Names


def are_alike(batches: Sequence[NewTasks]) -> bool:
    """Whether the call for records that are alike can create these, if they share a partition. What
    they begin with may differ by the moment and the priority among equals."""
    first = batches[0].entry
    return all(_is_bare(batch) and _key(batch.entry) == _key(first) for batch in batches)


def _is_bare(batch: NewTasks) -> bool:
    """Pending for the first time, without anything of its own that `create_alike` knows no column
    for."""
    effects, status = batch.effects, batch.status
    return (
        effects.state is State.PENDING
        and effects.timer is None
        and effects.is_separate
        and not effects.dead_letter_in
        and status.revision == 1
        and status.runs[-1].number == 0
    )


def _key(entry: IndexEntry) -> tuple[Any, ...]:
    ready = entry.ready
    assert ready is not None, "what is pending has one"
    lane = entry.queue, entry.name, ready.kind, ready.priority
    return *lane, entry.group, entry.lists, ready.first_limit, ready.dead_at


async def arguments(
    batches: Sequence[NewTasks], ids: Sequence[str], partition: int, names: Names
) -> tuple[list[Any], set[str]]:
    """Arguments of the statement after its first two, and the topics of its hints but for the
    tasks' own. `ids` are those of all tasks."""
    effects, first = batches[0].effects, batches[0].entry
    ready, queue, name = first.ready, first.queue, first.name
    topics = set(topics_of(effects, batches[0].status.created_at))
    if await names.know(names_of(queue, name, ready)):
        topics.add(CONFIG_TOPIC)
    lane = lane_of(queue, name, ready, names, partition)
    assert lane is not None
    assert ready is not None
    await names.know_lanes((lane,))
    definitions = [encode(task.definition) for batch in batches for task in batch.tasks]
    starts = list(accumulate(map(len, definitions), initial=1))[:-1]
    return [
        partition,
        names.ids[queue],
        first.group,
        names.lanes[lane],
        ready.first_limit,
        min(batch.status.order for batch in batches),
        *_shared(batches, ids),
        " ".join(ids),
        b"".join(definitions),
        numbers(starts),
        *_own(batches, ids),
        list(first.lists),
    ], topics


def _is_shared(batches: Sequence[NewTasks], ids: Sequence[str]) -> bool:
    """Whether all have the same status, and so the same place in their lane, and events that differ
    only in the id."""
    return len(batches) == 1 and of_one_length(ids)


def _shared(batches: Sequence[NewTasks], ids: Sequence[str]) -> tuple[int | bytes | None, ...]:
    """When they were created, the status, and what stands before and after the id in an event, if
    they have that in common; ids of one length, because the length stands before it."""
    if not _is_shared(batches, ids):
        return None, None, None, None
    status = batches[0].status
    return status.created_at, encode(status), *around_id(status.events[-1], ids[0])


def _own(
    batches: Sequence[NewTasks], ids: Sequence[str]
) -> tuple[str, str, list[bytes], list[bytes]]:
    """Times, places, statuses and events where they have them not in common."""
    if _is_shared(batches, ids):
        return "{}", "{}", [], []
    statuses = [batch.status for batch in batches for _ in batch.tasks]
    return (
        numbers([status.created_at for status in statuses]),
        numbers([status.order for status in statuses]),
        [body for batch in batches for body in [encode(batch.status)] * len(batch.tasks)],
        [
            encode_event(status.events[-1], task_id)
            for status, task_id in zip(statuses, ids, strict=True)
        ],
    )
