"""Restoring: records as another store held them, with their moves, edges and counts."""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.lifecycle.indexes import entry_of
from andon.model.words import State
from andon.stores.base import Snapshot
from andon.stores.nats.bodies import Archive, encode
from andon.stores.nats.core import Core
from andon.stores.nats.edges import Edges, is_over
from andon.stores.nats.names import ARCHIVED, level_of
from andon.stores.nats.timing import schedules
from andon.stores.nats.unique import lapsed
from andon.stores.nats.wire import CONFLICT, Write


async def restore(core: Core, snapshots: Sequence[Snapshot]) -> list[bool]:
    """Store each; False where the id is taken."""
    return [await _restore(core, snapshot) for snapshot in snapshots]


async def _restore(core: Core, snapshot: Snapshot) -> bool:
    task = snapshot.task
    heads = core.heads[core.partition(task.id)]
    names, now = heads.names, core.clock.now()
    there = (await heads.read([task.id])).get(task.id)
    if there is not None and (there.task is not None or there.body.deleted > now - 600_000):
        return False
    await core.fleet.use([(task.definition.queue, level_of(task.status.priority, back=False))])
    entry = entry_of(task)
    if entry.unique_key is not None and not lapsed(entry, now):
        await core.reserve(entry.unique_key, task.id, task.status.revision)
    writes: list[Write] = []
    if entry.timer is not None:
        writes += schedules(names, [(task.id, task.status.revision, entry.timer)])
    for edge in snapshot.edges:
        writes.append((names.of("e", task.id, edge.child), Edges.encoded(edge), None))
    if is_over(task.state) and any(not edge.settled for edge in snapshot.edges):
        writes.append((names.of("x", task.id), b"1", None))
    if task.state is State.BLOCKED:
        writes += [(names.of("f", task.id, parent), b"1", None) for parent in snapshot.satisfied]
    history = [replace(event, task="") for event in snapshot.history]
    tail = len(task.status.events)
    older = history[: len(history) - tail] if tail else history
    for start in range(0, len(older), ARCHIVED):
        part = older[start : start + ARCHIVED]
        archive = Archive(task.id, task.status.created_at, tuple(part), ())
        name = names.archive(task.id, part[0].revision)
        writes.append((name, encode(archive), None))
    await heads.wire.write(names.stream, writes)
    body = heads.body(task, None, own=tail)
    body.linked = 1 if snapshot.edges else 0
    body.token = ""
    guard = 0 if there is None else there.guard
    (seq,) = await heads.wire.write(
        names.stream, [heads.write(body, heads.subject(task), guard=guard)]
    )
    return seq > CONFLICT
