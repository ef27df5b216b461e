"""Dead letters: a small mark each, so that a bound on their number costs no look at the records.

A mark stands under the task's id and the revision of its end. It is written before the record, and
goes after the record has moved on; so one that a crash left behind is found to mean nothing when
its turn comes, and until then makes the bound one smaller.
"""

from collections.abc import Sequence

from andon.lifecycle.apply import is_dead_letter
from andon.model.task import Task
from andon.stores.nats.bodies import Head
from andon.stores.nats.core import Core
from andon.stores.nats.heads import Heads
from andon.stores.nats.names import Names
from andon.stores.nats.wire import Write, seq_of, subject_of

_PAGE = 200


def marks_of(names: Names, tasks: Sequence[Task]) -> list[Write]:
    """What is to stand before the records of those that end as dead letters with this version."""
    return [
        (names.dead(task.id, task.status.revision), b"1", None)
        for task in tasks
        if is_dead_letter(task, task.status)
    ]


async def oldest_dead_letters(core: Core, *, beyond: int, most: int) -> list[Task]:
    """The oldest beyond a number of them, up to `most`, oldest first."""
    counts = [await _count(heads) for heads in core.heads]
    excess = min(sum(counts) - beyond, most)
    if excess <= 0:
        return []
    found: list[Task] = []
    stale = 0
    for heads, count in zip(core.heads, counts, strict=True):
        tasks, of_nothing = await _oldest(core, heads, min(excess, count))
        found += tasks
        stale += of_nothing
    found.sort(key=lambda task: task.status.finished_at or 0)
    # Marks may have gone between the count and the look: then younger letters were met.
    excess = min(excess, sum([await _count(heads) for heads in core.heads]) - beyond)
    return found[: max(excess - stale, 0)]


async def _count(heads: Heads) -> int:
    page, more = await heads.page(heads.names.of("z", ">"), 1, 1)
    return len(page) + more


async def _oldest(core: Core, heads: Heads, most: int) -> tuple[list[Task], int]:
    """Dead letters by their marks, and how many marks meant nothing; those are dropped."""
    found: list[Task] = []
    stale = seq = 0
    while len(found) + stale < most:
        limit = min(_PAGE, most - len(found) - stale)
        page, _ = await heads.page(heads.names.of("z", ">"), seq + 1, limit)
        if not page:
            break
        seq = seq_of(page[-1])
        named = [subject_of(mark).rsplit(".", 2)[1:] for mark in page]
        there = await heads.read(task_id for task_id, _ in named)
        for mark, (task_id, revision) in zip(page, named, strict=True):
            task = _dead(there.get(task_id), int(revision))
            if task is not None:
                found.append(task)
                continue
            head = there.get(task_id)
            stale += 1
            # One whose record is not there yet is being written: it goes the next time.
            if head is not None and head.body.revision >= int(revision):
                core.later(heads.purge(subject_of(mark)))
    return found, stale


def _dead(head: Head | None, revision: int) -> Task | None:
    """The record, if it still is the dead letter that was marked."""
    task = None if head is None else head.task
    if task is None or task.status.revision != revision or not is_dead_letter(task, task.status):
        return None
    return task
