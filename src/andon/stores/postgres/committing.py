"""Committing: what is sent for each change, and what comes back.

Changes travel as rows of the type `change`, not as an array for each column: for every element of
an array the driver asks whether it is an array itself, and a change has some forty columns. Ends of
runs that are alike go another way (`ends`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from andon.contract.isolation import each_alone
from andon.contract.outcomes import APPLIED, HAS_DEPENDENTS, Changed, ChangeKind
from andon.contract.refusals import change_refused
from andon.contract.requests import Change
from andon.contract.topics import TIMER_TOPIC
from andon.lifecycle.batches import moved_alike
from andon.lifecycle.effects import Effects, of_discard
from andon.lifecycle.indexes import ReadyEntry
from andon.lifecycle.repeats import tombstone_of
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import encode, encode_event
from andon.stores.kit.topics import topics_of
from andon.stores.postgres import composites, ends
from andon.stores.postgres.creating import frees, lane_of, names_of
from andon.stores.postgres.edges import Edges
from andon.stores.postgres.names import Lane, Names
from andon.stores.postgres.reading import Reading
from andon.stores.postgres.server import Server
from andon.stores.postgres.timers import Timers

GONE = Changed(ChangeKind.GONE)


class _Prepared(msgspec.Struct, frozen=True, gc=False):
    """A change with its effects."""

    change: Change
    effects: Effects

    @property
    def names(self) -> tuple[str, ...]:
        """The names and lanes that must have a number before the change is written."""
        queue, name = self.effects.queue, self.change.before.definition.name
        out, into = self.effects.ready_out, self.effects.ready_in
        return names_of(queue, name, out) + names_of(queue, name, into)

    @property
    def is_plain(self) -> bool:
        """Whether it is written with others: one statement cannot take an entry out of the ready
        order and put the same in, since it sees what was there when it began; and few changes
        enter or leave a list by name."""
        effects = self.effects
        return (
            self.change.before.ref > 0
            and effects.is_separate
            and not effects.stays_in_place
            and not (effects.lists_in or effects.lists_out)
        )


class Commit:
    """One batch on its way."""

    def __init__(
        self,
        changes: Sequence[Change],
        effects: Sequence[Effects],
        partition_of: Callable[[str], int],
    ) -> None:
        self._prepared = [_Prepared(*pair) for pair in zip(changes, effects, strict=True)]
        self._partition_of = partition_of

    async def arguments(self, names: Names) -> tuple[list[Any], set[str]]:
        """Arguments of the statement after its first two, and the topics of its hints but for the
        tasks' own."""
        batch = self._prepared
        await names.know([name for p in batch for name in p.names])
        old = [self._lane(p, p.effects.ready_out, names) for p in batch]
        new = [self._lane(p, p.effects.ready_in, names) for p in batch]
        await names.know_lanes(lane for lane in (*old, *new) if lane is not None)
        keyed = [p.effects for p in batch if p.effects.key is not None]
        return [
            [_row(p, names, *lanes) for p, *lanes in zip(batch, old, new, strict=True)],
            list({names.ids[p.effects.queue] for p in batch}),
            [names.ids[effects.queue] for effects in keyed],
            [effects.key for effects in keyed],
        ], {topic for p in batch for topic in topics_of(p.effects, p.change.event.at)}

    def _lane(self, p: _Prepared, ready: ReadyEntry | None, names: Names) -> Lane | None:
        definition = p.change.before.definition
        partition = self._partition_of(definition.id)
        return lane_of(definition.queue, definition.name, ready, names, partition)


def _row(p: _Prepared, names: Names, old: Lane | None, new: Lane | None) -> tuple[Any, ...]:
    """One `change` of the schema."""
    c, status, effects = p.change, p.change.after, p.effects
    before, task_id = c.before.status, c.before.definition.id
    writes = c.event.write_id
    if status is None and before.events:
        # a tombstone knows the write that ended its task too (docs/rulings.md, R31): the reply to
        # that may be lost as well
        writes = f"{before.events[-1].write_id} {writes}"
    out, into = effects.ready_out, effects.ready_in
    last_run, report = _left(c)
    return composites.CHANGE.row(
        {
            "plain": p.is_plain,
            "seq": c.before.ref,
            "id": task_id,
            "created": before.created_at,
            "revision": before.revision,
            "was": before.state.value,
            "was_dead": effects.dead_letter_out,
            "seen_lease": c.seen_lease,
            "state": None if status is None else status.state.value,
            "new_revision": None if status is None else status.revision,
            "timer": effects.timer,
            "dead": effects.dead_letter_in,
            "asked": status is not None and status.cancel_requested_at is not None,
            "status": None if status is None else encode(status),
            "run": None if status is None else status.run or None,
            "worker": None if status is None else status.worker or None,
            "write_id": c.event.write_id,
            "event": encode_event(c.event, task_id),
            "at": c.event.at,
            "sets_result": c.sets_result,
            "result": c.result,
            "force": c.force,
            "discard": None if c.discard is None else encode_event(c.discard, task_id),
            "digest": c.before.definition.digest,
            "writes": writes,
            "last_run": last_run,
            "report": report,
            "unknown": before.state is State.UNKNOWN,
            "old_lane": None if old is None else names.lanes[old],
            "old_level": None if old is None else old[2],
            "old_ord": None if out is None else out.order,
            "lane": None if new is None else names.lanes[new],
            "level": None if new is None else new[2],
            "ord": None if into is None else into.order,
            "dead_at": None if into is None else into.dead_at,
            "first_limit": None if into is None else into.first_limit,
            "run_no": None if into is None or status is None else status.runs[-1].number,
            "frees": _frees(p),
            "takes": effects.takes_key,
            "takes_until": _takes_until(effects),
            "leaves": effects.frees_key,
            "discard_leaves": _freed_by_discard(p),
            "tally": effects.tally,
            "lists_out": effects.lists_out or None,
            "lists_in": effects.lists_in or None,
            "end_lists": _lists_at_end(p),
        }
    )


def _left(c: Change) -> tuple[str | None, str | None]:
    """The last run and its report, for the tombstone of a deleted task (docs/rulings.md, R33)."""
    if c.after is not None and c.discard is None:
        return None, None
    left = tombstone_of(c.before.status if c.after is None else c.after)
    return left.run, left.report


def _frees(p: _Prepared) -> str | None:
    """The unique key that the next claim sets free."""
    entry, status = p.effects.entry, p.change.after
    if p.effects.ready_in is None or entry is None or status is None:
        return None
    return frees(Task(definition=p.change.before.definition, status=status), entry)


def _takes_until(effects: Effects) -> int | None:
    if effects.takes_key is None or effects.entry is None:
        return None
    return effects.entry.unique_until


def _freed_by_discard(p: _Prepared) -> str | None:
    """The unique key that a record which is discarded held at its end."""
    discard, entry = p.change.discard, p.effects.entry
    if discard is None or entry is None:
        return None
    return of_discard(entry, discard).frees_key


def _lists_at_end(p: _Prepared) -> tuple[str, ...] | None:
    """The lists by name in which a record that is discarded stood at its end."""
    discard, entry = p.change.discard, p.effects.entry
    return None if discard is None or entry is None else entry.lists or None


class Committing:
    """Sends batches of changes, and returns the outcome of each."""

    def __init__(
        self,
        server: Server,
        reading: Reading,
        timers: Timers,
        edges: Edges,
        partition_of: Callable[[str], int],
    ) -> None:
        self._server = server
        self._reading = reading
        self._timers = timers
        self._edges = edges
        self._partition_of = partition_of

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        """See the contract."""
        return await each_alone(self._commit_all, changes, change_refused) if changes else []

    async def _commit_all(self, changes: Sequence[Change]) -> list[Changed]:
        if len(changes) == 1:
            return await self._commit(changes)
        order = sorted(range(len(changes)), key=lambda i: changes[i].before.ref)
        # in the order of their keys, in which every commit locks rows
        told = await self._commit([changes[i] for i in order])
        outcomes = list(told)
        for place, outcome in zip(order, told, strict=True):
            outcomes[place] = outcome
        return outcomes

    async def _commit(
        self, changes: Sequence[Change], *, one_by_one: bool = False
    ) -> list[Changed]:
        server = self._server
        batches = moved_alike(changes)
        if not one_by_one and ends.are_alike(batches):
            columns, topics = await ends.arguments(batches, changes, server.names)
            row = await server.call(server.calls.commit_ends, *columns)
        else:
            effects = [batch.effects for batch in batches for _ in batch.moves]
            batch = Commit(changes, effects, self._partition_of)
            columns, topics = await batch.arguments(server.names)
            row = await server.call(server.calls.commit, *columns)
        if row["due"]:
            topics.add(TIMER_TOPIC)
        await server.tell(topics, row, [change.before.definition.id for change in changes])
        kinds: list[str | None] | None = row["kinds"]
        if kinds is None:
            self._timers.moved(changes)
            return [APPLIED] * len(changes)
        holders: list[str] = row["holders"] or []
        self._timers.moved(
            [c for c, kind in zip(changes, kinds, strict=True) if kind in ("a", "d")]
        )
        outcomes = [APPLIED] * len(changes)
        for i, kind in enumerate(kinds):
            if kind == "d":
                outcomes[i] = HAS_DEPENDENTS
            elif kind == "g":
                outcomes[i] = GONE
            elif kind == "k":
                outcomes[i] = Changed(ChangeKind.KEY_HELD, holder=holders[i])
        conflicts = [i for i, kind in enumerate(kinds) if kind == "c"]
        if conflicts:
            await self._look(changes, conflicts, outcomes)
        left = [i for i, kind in enumerate(kinds) if kind is None]
        if left:  # no longer ends of those runs: the other call finds out what they are
            rest = [changes[i] for i in left]
            told = await self._commit(rest, one_by_one=True)
            for i, outcome in zip(left, told, strict=True):
                outcomes[i] = outcome
        return outcomes

    async def _look(
        self, changes: Sequence[Change], conflicts: Sequence[int], outcomes: list[Changed]
    ) -> None:
        """What is there instead; or applied, if what is there is this very write (docs/rulings.md,
        R31)."""
        ids = [changes[i].before.definition.id for i in conflicts]
        ended: set[str] = set()
        found = await self._reading.tasks(ids)
        for i, current in zip(conflicts, found, strict=True):
            write_id = changes[i].event.write_id
            if current is None:
                outcomes[i] = GONE
            elif write_id and any(e.write_id == write_id for e in current.status.events):
                outcomes[i] = APPLIED
                ended.add(current.definition.id)
            else:
                outcomes[i] = Changed(ChangeKind.CONFLICT, current=current)
        ends = [i for i in conflicts if changes[i].before.id in ended and changes[i].after]
        if ends:
            asked = [(changes[i].before.id, "") for i in ends]
            for i, edges in zip(ends, await self._edges.dependents(asked, 1), strict=True):
                if edges:
                    outcomes[i] = HAS_DEPENDENTS
