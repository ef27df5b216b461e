"""The dead-letter index: a small mark for each dead letter, so that keeping to their bound needs no
read of records.

A mark stands under the task's id and the revision of its end. It is written before the record, and
deleted after the record has moved on. A mark that a crash left behind is recognised when its turn
comes, and until then makes the bound one smaller.
"""

from andon.lifecycle.apply import is_dead_letter
from andon.model.task import Task
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import Write, seq_of, subject_of
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import Subjects

_PAGE = 200


def dead_letter_mark(subjects: Subjects, task_id: str, revision: int) -> Write:
    """The write of the mark, before the record of a task that ends as a dead letter with this
    revision."""
    return subjects.dead(task_id, revision), b"1", None


async def oldest_dead_letters(context: StoreContext, *, beyond: int, most: int) -> list[Task]:
    """The oldest dead letters beyond a number of them, up to `most`, oldest first."""
    counts = [await _count(records) for records in context.records]
    excess = min(sum(counts) - beyond, most)
    if excess <= 0:
        return []
    found: list[Task] = []
    stale = 0
    for records, count in zip(context.records, counts, strict=True):
        tasks, of_nothing = await _oldest(context, records, min(excess, count))
        found += tasks
        stale += of_nothing
    found.sort(key=lambda task: task.status.finished_at or 0)
    # Marks may have been deleted between the count and the read: then younger letters were read.
    excess = min(excess, sum([await _count(records) for records in context.records]) - beyond)
    return found[: max(excess - stale, 0)]


async def _count(records: RecordCache) -> int:
    page, more = await records.page(records.subjects.of("z", ">"), 1, 1)
    return len(page) + more


async def _oldest(context: StoreContext, records: RecordCache, most: int) -> tuple[list[Task], int]:
    """Dead letters by their marks, and how many marks belong to no dead letter; those are
    dropped."""
    found: list[Task] = []
    stale = seq = 0
    while len(found) + stale < most:
        limit = min(_PAGE, most - len(found) - stale)
        page, _ = await records.page(records.subjects.of("z", ">"), seq + 1, limit)
        if not page:
            break
        seq = seq_of(page[-1])
        named = [subject_of(mark).rsplit(".", 2)[1:] for mark in page]
        there = await records.read(task_id for task_id, _ in named)
        for mark, (task_id, revision) in zip(page, named, strict=True):
            task = _dead(there.get(task_id), int(revision))
            if task is not None:
                found.append(task)
                continue
            stored = there.get(task_id)
            stale += 1
            # If the record is not there yet, it is being written: the next call finds it.
            if stored is not None and stored.body.revision >= int(revision):
                context.in_background(records.purge(subject_of(mark)))
    return found, stale


def _dead(stored: StoredRecord | None, revision: int) -> Task | None:
    """The record, if it still is the marked dead letter."""
    task = None if stored is None else stored.task
    if task is None or task.status.revision != revision or not is_dead_letter(task, task.status):
        return None
    return task
