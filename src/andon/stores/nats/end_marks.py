"""Marks of ends whose dependents are to be notified: written before the ends, removed when all
dependents know.

A process that dies in between leaves the mark, and whoever keeps time finds by it what is left to
do. Ends that are written together share one mark, which names them: a message for each would be a
fifth of all that a fan-out writes. (An older release writes one for each and reads only such; a
blocked task asks after its dependencies itself, so it does not depend on who finds the mark.)
"""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from andon.contract.isolation import left_out, why_of
from andon.model.words import OVER, State
from andon.stores.kit.codec import encode
from andon.stores.nats.counts import tombstone
from andon.stores.nats.edge_codec import edge_of
from andon.stores.nats.jetstream import GUARD, Write, seq_of, stamp_of, subject_of
from andon.stores.nats.known_edges import KnownEdge
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache
from andon.stores.nats.server_time import ms_of
from andon.stores.nats.subjects import Subjects

_PAGE = 50
"""How many marks are read at once: each may name hundreds of tasks."""

Unsettled = Callable[[Iterable[KnownEdge]], Awaitable[list[KnownEdge]]]
"""Says which of some edges are not settled: `Edges.unsettled`."""

Mark = tuple[Reply, tuple[str, ...]]
"""Its message, and the tasks that it names."""

OBSOLETE_MS = 60_000
"""After how long a mark names no task any more that has not ended: the write of its end was refused
or never made, and the next end is marked anew. Otherwise a task that waits for days would stand
before the marks of others, of which a call reads a bounded number."""

_FIRST = 100
"""Of a parent of thousands, how many edges are read first to find one that is not settled."""

_decode = msgspec.msgpack.Decoder(tuple[str, ...]).decode


def end_marks(subjects: Subjects, parents: Sequence[str]) -> list[Write]:
    """The writes that mark the ends of tasks of one partition, to be made before the ends."""
    if len(parents) == 1:
        return [(subjects.of("x", parents[0]), b"1", None)]
    # A name of its own: a mark that names others must not be written over.
    return [(subjects.of("x", "g", secrets.token_hex(8)), encode(parents), None)] if parents else []


async def take_unsettled(
    partitions: Sequence[RecordCache], unsettled_of: Unsettled, limit: int, now: int
) -> list[tuple[str, State]]:
    """Ended tasks with dependents to notify. Marks that nobody needs any more are removed."""
    found: list[tuple[str, State]] = []
    for records in partitions:
        marked = await _first(records, limit)
        stored = await records.read(parent for _, parents in marked for parent in parents)
        states = {p: task.state for p in stored if (task := stored[p].task) is not None}
        over = {p for p, state in states.items() if state in OVER}
        unsettled = await _parents(records, unsettled_of, sorted(over))
        found += [(parent, state) for parent, state in states.items() if parent in unsettled]
        writes: list[Write] = []
        for mark, parents in marked:
            is_young = now - ms_of(stamp_of(mark)) < OBSOLETE_MS
            ending = states.keys() - over if is_young else set[str]()
            left = [p for p in parents if p in unsettled or p in ending]
            if len(left) < len(parents):
                writes.append(_over(mark, left) if left else tombstone(mark))
        await records.js.write(records.subjects.stream, writes)
    return found[:limit]


async def _first(records: RecordCache, wanted: int) -> list[Mark]:
    """The oldest marks, until they name so many tasks."""
    found: list[Mark] = []
    seq = 1
    while wanted > 0:
        # None may also mean that the server is shutting down: then the next call finds them.
        page, _ = await records.page(records.subjects.of("x", ">"), seq, _PAGE)
        if not page:
            break
        for mark in await _legible(records, page):
            if wanted > 0:
                found.append(mark)
                wanted -= len(mark[1])
        seq = seq_of(page[-1]) + 1
    return found


async def _legible(records: RecordCache, page: Iterable[Reply]) -> list[Mark]:
    """The marks of a page. Messages that Andon did not write there are deleted, or they would be
    read again and again."""
    found: list[Mark] = []
    for msg in page:
        if not msg.data:
            continue
        *_, before, last = subject_of(msg).split(".")
        if before == "x":
            found.append((msg, (last,)))
            continue
        try:
            found.append((msg, _decode(msg.data)))
        except msgspec.DecodeError as error:
            left_out("A mark of ends", subject_of(msg), why_of(error))
            await records.delete(seq_of(msg))
    return found


def _over(mark: Reply, left: Sequence[str]) -> Write:
    """The write that has a mark name these only, unless it was written over meanwhile."""
    return subject_of(mark), encode(left), {GUARD: str(seq_of(mark))}


async def _parents(
    records: RecordCache, unsettled_of: Unsettled, parents: Sequence[str]
) -> set[str]:
    """Those of the tasks of one partition that have edges that are not settled. Not all edges of a
    parent of thousands are read: settling one writes it anew, so those that are not settled stand
    before the rest."""
    if not parents:
        return set()
    subjects = [records.subjects.of("e", parent, "*") for parent in parents]
    looked = await records.snapshot(subjects)
    if looked is not None:
        return await _not_told(unsettled_of, looked[0])
    if len(parents) > 1:
        middle = len(parents) // 2
        first = await _parents(records, unsettled_of, parents[:middle])
        return first | await _parents(records, unsettled_of, parents[middle:])
    page, _ = await records.page(subjects[0], 1, _FIRST)
    return await _not_told(unsettled_of, page) or await _not_told(
        unsettled_of, await records.read_all(subjects)
    )


async def _not_told(unsettled_of: Unsettled, messages: Iterable[Reply]) -> set[str]:
    """The parents of those of the edges that are not settled."""
    left = await unsettled_of(edge_of(msg) for msg in messages if msg.data)
    return {known.edge.parent for known in left}
