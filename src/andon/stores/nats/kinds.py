"""Which kinds of task a queue has ready: the first message of each of its lines is looked at."""

from collections.abc import Sequence

from andon.contract.queries import ReadyKind
from andon.stores.nats.claiming import Claims
from andon.stores.nats.core import Core
from andon.stores.nats.index import Index
from andon.stores.nats.lines import Line


async def ready_kinds(
    core: Core, claims: Claims, index: Index, queues: Sequence[str]
) -> list[ReadyKind]:
    """The kinds of these queues, or of all. What a key holds back is known to the index alone, so
    queues with such a limit are looked up there."""
    await core.fleet.refresh()
    configs = await core.fleet.configs()
    named = [queue for queue in (queues or configs) if queue in configs]
    by_key = [queue for queue in named if configs[queue].max_concurrent_per_key is not None]
    found: list[ReadyKind] = []
    if by_key:
        await index.sync()
        found += index.records.ready.kinds(by_key)
    names = [name for queue in named if queue not in by_key for name in core.fleet.lines(queue)]
    oldest: dict[tuple[str, str], int] = {}
    for partition, lines in enumerate(claims.lines):
        # Lines of their own: what claims believe of theirs is left as it is.
        subjects = core.heads[partition].names
        looked = [Line(name, subjects.line(name)) for name in names]
        await lines.look(looked)
        for line in looked:
            for head in line.heads:
                at = 0 if head.task is None else head.task.status.order
                kind = (line.name.queue, line.name.kind)
                oldest[kind] = min(at, oldest.get(kind, at))
    found += [ReadyKind(queue, kind, at or None) for (queue, kind), at in oldest.items()]
    return sorted(found, key=lambda ready: (ready.queue, ready.kind))
