"""Creates records: the columns sent for each, and the outcomes from the answer."""

from collections.abc import Sequence
from copy import copy
from typing import Any

from msgspec import json

from andon.contract.limits import MAX_BATCH
from andon.contract.outcomes import CREATED, Created, CreateKind
from andon.contract.topics import CONFIG_TOPIC, task_topic
from andon.lifecycle.batches import alike
from andon.lifecycle.effects import Effects
from andon.lifecycle.indexes import IndexEntry, ReadyEntry
from andon.lifecycle.unique import key_freed_by_claim
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_definition, encode, encode_event
from andon.stores.kit.partitions import partitions_of
from andon.stores.kit.topics import topics_of
from andon.stores.postgres.names import Lane, Names

MOST_OFFERED = 8
"""How many of the oldest tasks a full queue names, for `discard-old` to evict."""

MOST_BYTES = 1_000_000
"""Arguments that are sent in one call of more than `MAX_BATCH` records."""

BEFORE_EVENTS = 12
"""Columns before that of the events."""


def frees(task: Task, entry: IndexEntry) -> str | None:
    """The unique key that a claim of this pending task sets free (docs/rulings.md, R13)."""
    return None if entry.unique_key is None else key_freed_by_claim(task)


def lane_of(
    queue: str, name: str, ready: ReadyEntry | None, names: Names, partition: int
) -> Lane | None:
    """Where a record of this queue and task type stands when it may be claimed."""
    if ready is None:
        return None
    ids = names.ids
    return ids[queue], partition, -ready.priority, ids[ready.kind], ids[name]


def names_of(queue: str, name: str, ready: ReadyEntry | None) -> tuple[str, ...]:
    """The names and lanes that must have a number before the record is written."""
    return (queue,) if ready is None else (queue, name, ready.kind)


def is_plain(effects: Effects) -> bool:
    """Whether the call for one plain record can create it (sql/functions/create_one.sql)."""
    return effects.is_separate and not effects.dead_letter_in and not effects.lists_in


async def arguments_of_one(
    task: Task, effects: Effects, partition: int, names: Names
) -> tuple[list[Any], set[str]]:
    """Arguments of the statement for one plain record, after its first two, and its topics."""
    definition, status, entry = task.definition, task.status, effects.entry
    assert entry is not None
    queue, ready = entry.queue, entry.ready
    topics = {*topics_of(effects, status.created_at), task_topic(definition.id)}
    if await names.know(names_of(queue, definition.name, ready)):
        topics.add(CONFIG_TOPIC)
    lane = lane_of(queue, definition.name, ready, names, partition)
    if lane is not None and lane not in names.lanes:
        await names.know_lanes((lane,))
    arguments: list[Any] = [
        definition.id,
        encode(definition),
        partition,
        names.ids[entry.queue],
        entry.state.value,
        status.revision,
        status.created_at,
        entry.timer,
        entry.group,
        encode(status),
        encode_event(status.events[-1], definition.id),
    ]
    if ready is None or lane is None:
        arguments += (None,) * 5
    else:
        number = status.runs[-1].number
        arguments += (names.lanes[lane], ready.order, ready.dead_at, ready.first_limit, number)
    return arguments, topics


def first_repeat(tasks: Sequence[Task]) -> int | None:
    """Where in a batch an id comes for the second time."""
    ids = [task.definition.id for task in tasks]
    if len(set(ids)) == len(ids):
        return None
    return next(place for place, task_id in enumerate(ids) if task_id in ids[:place])


class Creation:
    """One batch on its way."""

    def __init__(self, tasks: Sequence[Task], partitions: int) -> None:
        self.tasks = tasks
        self.batches = alike(tasks)
        self.effects = [batch.effects for batch in self.batches for _ in batch.tasks]
        self._lanes: list[int | None] = []
        self.ids = [task.definition.id for task in tasks]
        self._partitions = partitions_of(self.ids, partitions)

    def only(self, places: Sequence[int]) -> "Creation":
        """The part of it at some places, once its columns are made."""
        part = copy(self)
        part.tasks = [self.tasks[i] for i in places]
        part.ids = [self.ids[i] for i in places]
        part.effects = [self.effects[i] for i in places]
        part._lanes = [self._lanes[i] for i in places]
        part._partitions = [self._partitions[i] for i in places]
        return part

    @property
    def entries(self) -> list[IndexEntry]:
        """The index entry of each."""
        return [effects.entry for effects in self.effects if effects.entry is not None]

    @property
    def partition(self) -> int | None:
        """The one in which all of them are."""
        several = set(self._partitions)
        return several.pop() if len(several) == 1 else None

    @property
    def is_heavy(self) -> bool:
        """Whether it is better sent in parts."""
        tasks = self.tasks
        return len(tasks) > MAX_BATCH and sum(len(t.definition.args) for t in tasks) > MOST_BYTES

    async def arguments(self, names: Names) -> tuple[list[Any], set[str]]:
        """Arguments of the statement after its first three, and the topics of its hints."""
        columns, topics = await self.columns(names)
        events = [encode_event(t.status.events[-1], t.definition.id) for t in self.tasks]
        columns.insert(BEFORE_EVENTS, events)
        return columns, topics

    async def columns(self, names: Names) -> tuple[list[Any], set[str]]:
        """The columns sent for every new record, and the topics of its hints."""
        entries, tasks = self.entries, self.tasks
        is_new = await names.know(
            [
                name
                for b in self.batches
                for e in (b.entry,)
                for name in names_of(e.queue, e.name, e.ready)
            ]
        )
        lanes = [
            lane_of(e.queue, e.name, e.ready, names, p)
            for e, p in zip(entries, self._partitions, strict=True)
        ]
        await names.know_lanes(lane for lane in lanes if lane is not None)
        self._lanes = [None if lane is None else names.lanes[lane] for lane in lanes]
        ready = [e.ready for e in entries]
        columns: list[list[Any]] = [
            self.ids,
            [encode(t.definition) for t in tasks],
            self._partitions,
            [names.ids[e.queue] for e in entries],
            [e.state.value for e in entries],
            [t.status.revision for t in tasks],
            [t.status.created_at for t in tasks],
            [e.timer for e in entries],
            [e.key for e in entries],
            [e.group for e in entries],
            [e.dead_letter for e in entries],
            [encode(t.status) for t in tasks],
            self._lanes,
            [None if lane is None else lane[2] for lane in lanes],
            [None if r is None else r.order for r in ready],
            [None if r is None else r.dead_at for r in ready],
            [None if r is None else r.first_limit for r in ready],
            [
                None if r is None else t.status.runs[-1].number
                for r, t in zip(ready, tasks, strict=True)
            ],
            [
                None if r is None else frees(t, e)
                for r, t, e in zip(ready, tasks, entries, strict=True)
            ],
            [e.remaining or None for e in entries],
            [e.unique_key for e in entries],
            [e.unique_until for e in entries],
            [effects.heir_of for effects in self.effects],
            [e.spare for e in entries],
            [json.encode(e.lists).decode() if e.lists else None for e in entries],
        ]
        topics = {task_topic(task.definition.id) for task in tasks}
        for batch in self.batches:
            topics.update(topics_of(batch.effects, batch.status.created_at))
        if is_new:
            topics.add(CONFIG_TOPIC)  # a worker that serves every queue has one more
        return columns, topics

    def summary(self, names: Names) -> list[Any]:
        """The arguments about the batch as a whole, after its columns."""
        entries = self.entries
        keyed = [e for e in entries if e.key is not None]
        lows: dict[int, int] = {}
        for lane, entry in zip(self._lanes, entries, strict=True):
            if lane is not None and entry.ready is not None:
                order = entry.ready.order
                lows[lane] = min(lows.get(lane, order), order)
        return [
            list({names.ids[e.queue] for e in entries}),
            [names.ids[e.queue] for e in keyed],
            [e.key for e in keyed],
            list(lows),
            list(lows.values()),
            any(e.unique_key is not None for e in entries),
            any(e.remaining or e.dead_letter or e.lists for e in entries),
        ]

    def outcomes(self, row: Any) -> list[Created]:
        """The outcome of each; a refusal by a full queue gets its `oldest` filled in later."""
        kinds = row["outcomes"]
        if kinds is None:
            return [CREATED] * len(self.tasks)
        return [self._outcome(row, kind, i) for i, kind in enumerate(kinds)]

    def _outcome(self, row: Any, kind: str, i: int) -> Created:
        match kind:
            case "n":
                return CREATED
            case "e":
                digests, bodies = row["digests"], row["bodies"]
                digest = _at(digests, i)
                if digest is None:
                    digest = _digest(_at(bodies, i) or b"")
                return Created(CreateKind.EXISTS, digest, State(row["states"][i]))
            case "k":
                return Created(CreateKind.KEY_HELD, holder=row["holders"][i])
            case _:
                return Created(CreateKind.FULL)


def _at(values: Sequence[Any] | None, i: int) -> Any:
    return values[i] if values is not None and i < len(values) else None


def _digest(body: bytes) -> str:
    try:
        return decode_definition(body).digest
    except Undecodable:
        return ""
