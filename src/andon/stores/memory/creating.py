"""Creating: records written, or refused for their id, their unique key, or a queue that is full."""

from collections.abc import Callable, Sequence
from itertools import islice

from andon.contract.limits import MAX_BATCH
from andon.contract.notes import NotePut
from andon.contract.outcomes import CREATED, Created, CreateKind
from andon.contract.requests import NotedTask
from andon.lifecycle.batches import alike
from andon.lifecycle.effects import Effects
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.partitions import partitions_of
from andon.stores.memory.fleet import Fleet
from andon.stores.memory.notes import Notes
from andon.stores.memory.records import Records
from andon.stores.memory.row import Row

_NOTE_CHANGED = Created(CreateKind.NOTE_CHANGED)


class Creating:
    """Creates records, each by itself."""

    def __init__(
        self,
        *,
        records: Records,
        fleet: Fleet,
        notes: Notes,
        now: Callable[[], int],
        partitions: int,
    ) -> None:
        self._records = records
        self._fleet = fleet
        self._notes = notes
        self._now = now
        self._partitions = partitions

    def create(self, tasks: Sequence[Task]) -> list[Created]:
        """An outcome for each."""
        return self._insert(self._rows(tasks))

    def create_together(self, tasks: Sequence[Task]) -> bool:
        """Create all of them or none; whether they were created."""
        fresh, now = self._rows(tasks), self._now()
        ids = {row.id for row, _ in fresh}
        if len(ids) < len(fresh) or any(self._may_be_refused(*one, now) for one in fresh):
            return False
        for row, effects in fresh:
            self._records.insert(row, effects, now)
        return True

    def create_with_notes(self, noted: Sequence[NotedTask]) -> list[Created]:
        """The same, each only if its note is still the one that was decided on."""
        rows = self._rows([one.task for one in noted])
        kept = [self._notes.put(one.note) is NotePut.WRITTEN for one in noted]
        fresh = [row for row, is_kept in zip(rows, kept, strict=True) if is_kept]
        outcomes = iter(self._insert(fresh))
        return [next(outcomes) if is_kept else _NOTE_CHANGED for is_kept in kept]

    def _rows(self, tasks: Sequence[Task]) -> list[tuple[Row, Effects]]:
        """Every row, made before the first is written, so that an invalid record is found before
        any write."""
        places = iter(partitions_of([task.definition.id for task in tasks], self._partitions))
        return [
            (Row(task, next(places), batch.entry), batch.effects)
            for batch in alike(tasks)
            for task in batch.tasks
        ]

    def _insert(self, fresh: Sequence[tuple[Row, Effects]]) -> list[Created]:
        now = self._now()
        named: dict[str, int] = {}
        outcomes: list[Created] = []
        for row, effects in fresh:
            refused = self._taken(row, effects, now) or self._full(row.task, named)
            if refused is None:
                self._records.insert(row, effects, now)
            outcomes.append(refused or CREATED)
        return outcomes

    def _taken(self, new: Row, effects: Effects, now: int) -> Created | None:
        """The outcome when the id or the unique key is taken."""
        row = self._records.rows.get(new.id)
        if row is not None:
            return Created(CreateKind.EXISTS, row.task.definition.digest, row.task.state)
        stub = self._records.stub(new.id, now)
        if stub is not None:
            return Created(CreateKind.EXISTS, stub.digest, stub.state)
        if effects.takes_key is None:
            return None
        key = effects.key_to_reserve(now)
        holder = self._records.holder(new.id, key, now, effects.heir_of)
        return None if holder is None else Created(CreateKind.KEY_HELD, holder=holder)

    def _may_be_refused(self, new: Row, effects: Effects, now: int) -> bool:
        """Whether the id is taken, or more than an id can be."""
        config = self._fleet.queue(new.task.definition.queue)
        return (
            effects.takes_key is not None
            or (config.max_size is not None and new.task.state is State.PENDING)
            or self._taken(new, effects, now) is not None
        )

    def _full(self, task: Task, named: dict[str, int]) -> Created | None:
        """The outcome when the queue has no place for one more pending task.

        The first refusal of a batch names as many to evict as are too many, each later one the
        next, so that one round of evictions makes room for the whole batch.
        """
        queue = task.definition.queue
        config = self._fleet.queue(queue)
        if config.max_size is None or task.status.state is not State.PENDING:
            return None
        surplus = self._records.lists.count(queue, State.PENDING) + 1 - config.max_size
        if surplus <= 0:
            return None
        if config.on_full != "discard-old":
            return Created(CreateKind.FULL)
        start = named.get(queue, 0)
        named[queue] = start + 1 if start else min(surplus, MAX_BATCH)
        oldest = islice(self._records.lists.oldest(queue, State.PENDING), start, named[queue])
        return Created(CreateKind.FULL, oldest=tuple(row.copy() for row in oldest))
