"""Packs the beginnings of plain tasks, as `create_plain.lua` and `create_alone.lua` take them."""

from andon.lifecycle.batches import NewTasks, beginning_of
from andon.lifecycle.daily import day_of
from andon.model.task import Status, Task
from andon.stores.kit.codec import around_id, encode
from andon.stores.redis.packed import NewGroup
from andon.stores.redis.records import packed_entry, score_of

Beginning = tuple[bytes, bytes, bytes]
"""The beginning of one task, packed: its group, its status, and its event up to the id."""


def group_of(batch: NewTasks, size: int) -> NewGroup:
    """The beginning that so many tasks of a batch share."""
    entry, status = batch.entry, batch.status
    assert entry.ready is not None
    created = str(status.created_at)
    return NewGroup(
        entry=packed_entry(entry, batch.tasks[0], status),
        head=f"{status.revision} {created} ",
        queue=entry.queue,
        kind=entry.ready.kind,
        created=created,
        score=score_of(entry.ready),
        day=str(day_of(status.events[-1].at)),
        tally=batch.effects.tally,
        lists=entry.lists or None,
        size=size,
    )


def in_common(status: Status, task_id: str) -> tuple[bytes, bytes]:
    """A status, and its event up to the id; after the id the event only says that there is no
    result."""
    return encode(status), around_id(status.events[-1], task_id)[0]


class NewestBeginning:
    """The beginning of the newest lone task. Of tasks that are submitted one after another, those
    of a millisecond begin alike (`engine.writes.LoneWrites`): for most of them nothing must be
    derived and packed except their definition, which is a fifth of a lone submit's Python."""

    def __init__(self) -> None:
        self._newest: tuple[int, object, Beginning | None] = (0, None, None)

    def of(self, task: Task) -> Beginning | None:
        """The beginning of this task, if it is the same, by value."""
        size, told, beginning = self._newest
        is_same = size == len(task.definition.id) and told == beginning_of(task)
        return beginning if is_same else None

    def put(self, task: Task, batch: NewTasks) -> Beginning:
        """The beginning of a plain task, the only one of its batch."""
        beginning = (encode((group_of(batch, 1),)), *in_common(task.status, task.definition.id))
        # The length of the id stands in the event before the id.
        self._newest = len(task.definition.id), beginning_of(task), beginning
        return beginning
