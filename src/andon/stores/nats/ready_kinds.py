"""Which kinds of task a queue has ready: the first task of each of its sub-queues is read."""

from collections.abc import Sequence

from andon.contract.queries import ReadyKind
from andon.stores.nats.claiming import Claims
from andon.stores.nats.context import StoreContext
from andon.stores.nats.index import Index


async def ready_kinds(
    context: StoreContext, claims: Claims, index: Index, queues: Sequence[str]
) -> list[ReadyKind]:
    """The kinds of these queues, or of all. Only the index knows which tasks a key holds back, so
    queues with such a limit are looked up there."""
    await context.fleet.refresh()
    configs = await context.fleet.configs()
    named = [queue for queue in (queues or configs) if queue in configs]
    by_key = [queue for queue in named if configs[queue].max_concurrent_per_key is not None]
    found: list[ReadyKind] = []
    if by_key:
        await index.sync()
        found += index.tables.ready.kinds(by_key)
    subqueue_names = [
        name for queue in named if queue not in by_key for name in context.fleet.subqueues(queue)
    ]
    oldest: dict[tuple[str, str], int] = {}
    for subqueues in claims.subqueues:
        for subqueue in await subqueues.oldest(subqueue_names):
            (stored,) = subqueue.records
            at = 0 if stored.task is None else stored.task.status.order
            kind = (subqueue.name.queue, subqueue.name.kind)
            oldest[kind] = min(at, oldest.get(kind, at))
    found += [ReadyKind(queue, kind, at or None) for (queue, kind), at in oldest.items()]
    return sorted(found, key=lambda ready: (ready.queue, ready.kind))
