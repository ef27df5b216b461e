"""Edges, satisfied dependencies and fan-outs: one small message each.

Whoever adds an edge writes it first and then bumps the parent's record: if the parent ends in
between, the bump finds the end; if it ends later, its guard has failed and it is looked at again
and found to have edges. So ends of tasks that nobody depends on cost no read.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import left_out
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.discarded import Discarded, discarded_of
from andon.lifecycle.parents import spare, to_satisfy
from andon.lifecycle.timers import next_timer
from andon.model.task import Definition, Tombstone
from andon.model.words import OVER, State
from andon.stores.kit.codec import encode
from andon.stores.kit.partitions import partition_of
from andon.stores.nats.jetstream import CONFLICT, Write, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache, unchanged
from andon.stores.nats.record_codec import StoredRecord
from andon.stores.nats.subjects import is_token
from andon.stores.nats.timers import Timers

_GONE = {"Nats-TTL": "1s"}

_SATISFIES, _FAILS = b"1", b"0"
"""Bodies of the message that says how a dependency of a blocked child ended."""


class _Edge(msgspec.Struct, array_like=True):
    loads: bool
    any_end: bool
    settled: bool


_decode = msgspec.msgpack.Decoder(_Edge).decode


def is_over(state: State) -> bool:
    """Whether a task of this state has ended; one that does not decode counts as ended."""
    return state in OVER


def state_of(stored: StoredRecord | None, now: int) -> State | None:
    """The state of a record, or what a task deleted within the submit window ended in."""
    if stored is None:
        return None
    if stored.body.deleted:
        return State(stored.body.state) if stored.body.deleted > now - SUBMIT_WINDOW_MS else None
    return None if stored.task is None else stored.task.state


def tombstone_of(stored: StoredRecord | None, now: int) -> Tombstone | None:
    """What a task deleted within the submit window left."""
    if stored is None or not stored.body.deleted or stored.body.deleted <= now - SUBMIT_WINDOW_MS:
        return None
    return stored.body.left or Tombstone(State(stored.body.state))


def last_moves_of(stored: StoredRecord | None, now: int) -> Discarded | None:
    """The last two moves of a task that was discarded at its end within the submit window."""
    if stored is None or not stored.body.deleted or stored.body.deleted <= now - SUBMIT_WINDOW_MS:
        return None
    return discarded_of(stored.body.id, stored.body.events)


def _is_possible(what: str, task_id: str) -> bool:
    """Whether a task can have the id; one that cannot is said to be left out."""
    if is_token(task_id):
        return True
    left_out(what, task_id, "no subject can hold the id")
    return False


def _is_blocked(stored: StoredRecord) -> bool:
    return stored.task is not None and stored.task.state is State.BLOCKED


class _Counted(NamedTuple):
    """The dependencies of a blocked child that have ended: those that satisfy it, and those that
    fail it, which are counted only if it can do without some."""

    satisfied: set[str]
    failing: set[str]

    def add(self, s: Settlement, child: Definition) -> bool:
        """Count one; whether that is to be written."""
        if s.parent in self.satisfied:
            return False
        if s.satisfied:
            self.satisfied.add(s.parent)
            self.failing.discard(s.parent)
            return True
        if child.needs is None or s.parent in self.failing:
            return False
        self.failing.add(s.parent)
        return True

    def left(self, s: Settlement, child: Definition) -> int:
        """What a settlement leaves to the child."""
        if s.satisfied:
            return to_satisfy(child) - len(self.satisfied)
        most = spare(child)
        return -1 if most is None else most - len(self.failing)


def _is_unsure(
    s: Settlement, counted: dict[str, _Counted], children: dict[str, StoredRecord]
) -> bool:
    """Whether another process may have counted what decides a settlement at the same time."""
    counts, stored = counted.get(s.child), children.get(s.child)
    if counts is None or stored is None or stored.task is None:
        return False
    left = counts.left(s, stored.task.definition)
    return left > 0 if s.satisfied else left >= 0


def _edge_of(msg: Reply) -> Edge:
    _, parent, child = subject_of(msg).rsplit(".", 2)
    found = _decode(msg.data)
    return Edge(parent, child, found.loads, found.any_end, found.settled)


class Edges:
    """Edges of all partitions: each stands in its parent's."""

    def __init__(self, partitions: list[RecordCache], timers: list[Timers]) -> None:
        self._partitions = partitions
        self._timers = timers

    def _at(self, task_id: str) -> RecordCache:
        return self._partitions[partition_of(task_id, len(self._partitions))]

    async def of(self, parent: str) -> dict[str, Edge]:
        """The edges of a parent by child."""
        records = self._at(parent)
        found = await records.last([records.subjects.of("e", parent, "*")])
        edges = [_edge_of(msg) for msg in found if msg.data]
        return {edge.child: edge for edge in edges}

    async def _those(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Edge]:
        """Edges by parent and child: these alone, of a parent that may have thousands."""
        wanted = set(pairs)
        found: dict[tuple[str, str], Edge] = {}
        for records in self._partitions:
            subjects = records.subjects
            mine = [subjects.of("e", p, c) for p, c in wanted if self._at(p) is records]
            for msg in await records.last(mine) if mine else ():
                if msg.data:
                    edge = _edge_of(msg)
                    found[edge.parent, edge.child] = edge
        return found

    async def held(self, parent: str) -> bool:
        """Whether edges forbid that the record is deleted (docs/rulings.md, R9)."""
        edges = await self.of(parent)
        children = [edge.child for edge in edges.values() if edge.loads or not edge.settled]
        return any(state is not None and not is_over(state) for state in await self._live(children))

    async def _live(self, ids: Sequence[str]) -> list[State | None]:
        found: dict[str, StoredRecord] = {}
        for records in self._partitions:
            mine = [i for i in ids if self._at(i) is records]
            if mine:
                found.update(await records.read(mine))
        return [
            None if i not in found or (task := found[i].task) is None else task.state for i in ids
        ]

    # --- linking ---

    async def link(self, links: Sequence[Link], now: int) -> list[Ended]:
        """Record edges; report ends."""
        links = [link for link in links if _is_possible("A link", link.child)]
        children = await self._records_of(link.child for link in links)
        ends: list[Ended] = []
        wanted: dict[str, list[Link]] = {}
        counts = await self._counted(c for c, stored in children.items() if _is_blocked(stored))
        satisfied = {child: one.satisfied for child, one in counts.items()}
        for link in links:
            if link.child not in satisfied:
                continue
            for parent in link.parents:
                if parent == link.child:
                    continue
                if not is_token(parent):  # nobody has such an id
                    ends.append(Ended(link.child, parent, None, link.any_end))
                elif parent in satisfied[link.child]:
                    ends.append(Ended(link.child, parent, State.COMPLETED, link.any_end))
                    if link.loads:
                        await self._write_edge(parent, link, settled=True)
                else:
                    wanted.setdefault(parent, []).append(link)
        for parent, of_parent in wanted.items():
            ends += await self._link(parent, of_parent, now)
        return ends

    async def _write_edge(self, parent: str, link: Link, *, settled: bool) -> None:
        records = self._at(parent)
        body = encode(_Edge(link.loads, link.any_end, settled))
        subject = records.subjects.of("e", parent, link.child)
        await records.js.write(records.subjects.stream, [(subject, body, None)])

    async def _link(self, parent: str, links: Sequence[Link], now: int) -> list[Ended]:
        records = self._at(parent)
        while True:
            stored = (await records.read([parent])).get(parent)
            state = state_of(stored, now)
            if stored is None or stored.task is None:
                return [Ended(link.child, parent, state, link.any_end) for link in links]
            assert state is not None
            over = is_over(state)
            there = await self.of(parent) if stored.body.linked else {}
            writes: list[Write] = []
            for link in links:
                old = there.get(link.child)
                # one whose parent was rerun since it told its end is to be told again; one that was
                # let go loads anew
                if old is None or (old.settled and not over) or (link.loads and not old.loads):
                    loads = link.loads or (old is not None and old.loads)
                    any_end = link.any_end if old is None else old.any_end
                    body = encode(_Edge(loads, any_end, old is not None and old.settled and over))
                    writes.append((records.subjects.of("e", parent, link.child), body, None))
            if writes and over:
                writes.append((records.subjects.of("x", parent), b"1", None))
            await records.js.write(records.subjects.stream, writes)
            if writes:
                body = unchanged(stored, linked=stored.body.linked + 1)
                bump = records.write(body, stored.subject, guard=stored.guard)
                (seq,) = await records.js.write(records.subjects.stream, [bump])
                if seq <= CONFLICT:
                    continue
                records.notes.note_write(seq)
                records.forget(parent)
            return [Ended(link.child, parent, state, link.any_end) for link in links if over]

    async def _records_of(self, ids: Iterable[str]) -> dict[str, StoredRecord]:
        wanted = list(dict.fromkeys(ids))
        found: dict[str, StoredRecord] = {}
        for records in self._partitions:
            mine = [i for i in wanted if self._at(i) is records]
            if mine:
                found.update(await records.read(mine))
        return found

    async def _counted(self, children: Iterable[str]) -> dict[str, _Counted]:
        """The dependencies of each that were counted."""
        counted = {child: _Counted(set(), set()) for child in children}
        for records in self._partitions:
            mine = [records.subjects.of("f", c, "*") for c in counted if self._at(c) is records]
            for msg in await records.last(mine) if mine else ():
                if msg.data:
                    _, child, parent = subject_of(msg).rsplit(".", 2)
                    one = counted[child]
                    (one.failing if msg.data == _FAILS else one.satisfied).add(parent)
        return counted

    # --- settling ---

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[int]:
        """Mark edges told, count dependencies."""
        outcomes = [0 if s.satisfied else -1 for s in settlements]
        possible = [
            position
            for position, s in enumerate(settlements)
            if _is_possible("A settlement", s.child)
        ]
        remaining = await self._settle([settlements[i] for i in possible], now)
        for position, left in zip(possible, remaining, strict=True):
            outcomes[position] = left
        return outcomes

    async def _settle(self, settlements: Sequence[Settlement], now: int) -> list[int]:
        possible = [s for s in settlements if is_token(s.parent)]
        edges = await self._those((s.parent, s.child) for s in possible)
        children = await self._records_of(s.child for s in settlements)
        counted = await self._counted(c for c, stored in children.items() if _is_blocked(stored))
        writes: dict[int, list[Write]] = {}
        outcomes: list[int] = []
        for s in settlements:
            edge = edges.get((s.parent, s.child))
            if edge is not None and not edge.settled:
                records = self._at(s.parent)
                body = encode(_Edge(edge.loads, edge.any_end, True))
                subject = records.subjects.of("e", s.parent, s.child)
                writes.setdefault(id(records), []).append((subject, body, None))
            stored = children.get(s.child)
            counts = counted.get(s.child)
            if counts is None or stored is None or stored.task is None:
                outcomes.append(0 if s.satisfied else -1)
                continue
            d = stored.task.definition
            if s.parent in d.dependencies and counts.add(s, d):
                records = self._at(s.child)
                subject = records.subjects.of("f", s.child, s.parent)
                body = _SATISFIES if s.satisfied else _FAILS
                writes.setdefault(id(records), []).append((subject, body, None))
            outcomes.append(counts.left(s, d))
        for records in self._partitions:
            await records.js.write(records.subjects.stream, writes.get(id(records), []))
        # Another process may have counted others meanwhile: the last of them must see the end.
        last = {(s.child, s.satisfied): place for place, s in enumerate(settlements)}
        unsure = {s.child for s in settlements if _is_unsure(s, counted, children)}
        for child, counts in (await self._counted(unsure)).items():
            task = children[child].task
            assert task is not None
            for satisfied in (True, False):
                place = last.get((child, satisfied))
                if place is not None:
                    really = counts.left(settlements[place], task.definition)
                    outcomes[place] = min(really, outcomes[place])
        await self.free([s.parent for s in possible], now)
        return outcomes

    async def free(self, parents: Iterable[str], now: int) -> None:
        """Make ended parents due whose deletion was put off, and that nothing holds any more."""
        records_of = await self._records_of(parents)
        for parent, stored in records_of.items():
            task = stored.task
            if task is None or not stored.body.linked or not is_over(task.state):
                continue
            at = next_timer(task)
            if at is not None and at <= now and not await self.held(parent):
                timers = self._timers[partition_of(parent, len(self._partitions))]
                await timers.set([(parent, task.status.revision, now)], now)

    async def dependents(self, parents: Sequence[tuple[str, str]], limit: int) -> list[list[Edge]]:
        """A page of the edges of each parent by child, after a child."""
        found: dict[str, dict[str, Edge]] = {parent: {} for parent, _ in parents}
        for records in self._partitions:
            mine = [
                records.subjects.of("e", parent, "*")
                for parent in found
                if self._at(parent) is records and is_token(parent)
            ]
            for msg in await records.last(mine) if mine else ():
                if msg.data:
                    edge = _edge_of(msg)
                    found[edge.parent][edge.child] = edge
        return [
            [found[parent][child] for child in sorted(found[parent]) if child > after][:limit]
            for parent, after in parents
        ]

    async def let_go(self, pairs: Sequence[tuple[str, str]], now: int) -> None:
        """Edges hold nothing up any more: they count as told, and keep no result."""
        pairs = [pair for pair in pairs if is_token(pair[0]) and _is_possible("An edge", pair[1])]
        held = [e for e in (await self._those(pairs)).values() if e.loads or not e.settled]
        for records in self._partitions:
            writes: list[Write] = [
                (
                    records.subjects.of("e", edge.parent, edge.child),
                    encode(_Edge(False, edge.any_end, True)),
                    None,
                )
                for edge in held
                if self._at(edge.parent) is records
            ]
            await records.js.write(records.subjects.stream, writes)
        await self.free({parent for parent, _ in pairs}, now)

    async def unlink(self, pairs: Sequence[tuple[str, str]], now: int) -> None:
        """Forget edges."""
        pairs = [pair for pair in pairs if is_token(pair[0]) and _is_possible("An edge", pair[1])]
        for records in self._partitions:
            writes: list[Write] = [
                (records.subjects.of("e", parent, child), b"", _GONE)
                for parent, child in pairs
                if self._at(parent) is records
            ]
            await records.js.write(records.subjects.stream, writes)
        await self.free({parent for parent, _ in pairs}, now)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        """Ended tasks with edges to tell."""
        found: list[tuple[str, State]] = []
        for records in self._partitions:
            # None may also mean that the server is going away: then they are found the next time.
            marks, _ = await records.page(records.subjects.of("x", "*"), 1, min(limit, 1_000))
            parents = [subject_of(m).rsplit(".", 1)[1] for m in marks if m.data]
            for parent in parents:
                state = (await self._live([parent]))[0]
                if state is not None and not is_over(state):
                    continue
                edges = await self.of(parent)
                if state is not None and any(not edge.settled for edge in edges.values()):
                    found.append((parent, state))
                else:
                    mark = (records.subjects.of("x", parent), b"", _GONE)
                    await records.js.write(records.subjects.stream, [mark])
        return found[:limit]

    async def forget(self, task_id: str, *, parent: bool, child: bool) -> None:
        """A task is gone, or waits no longer: drop what was kept for it."""
        records = self._at(task_id)
        stream = f"STREAM.PURGE.{records.subjects.stream}"
        if child:
            await records.js.api(stream, {"filter": records.subjects.of("f", task_id, "*")})
        if parent:
            await records.js.api(stream, {"filter": records.subjects.of("e", task_id, "*")})
            await records.js.api(stream, {"filter": records.subjects.of("x", task_id)})

    @staticmethod
    def encoded(edge: Edge) -> bytes:
        """The message of an edge."""
        return encode(_Edge(edge.loads, edge.any_end, edge.settled))
