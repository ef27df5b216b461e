"""Queues as they are shown: settings and counts side by side."""

from typing import Any

import msgspec

from andon.engine.base import Engine
from andon.model.fleet import QueueConfig, QueueStats


async def known_queues(engine: Engine) -> list[tuple[QueueConfig, QueueStats]]:
    """Every queue with its counts, by name."""
    stats = {queue.queue: queue for queue in await engine.stats()}
    configs = {config.name: config for config in await engine.queues()}
    return [
        (
            configs.get(name) or QueueConfig(name=name),
            stats.get(name) or QueueStats(queue=name, counts={}),
        )
        for name in sorted(stats.keys() | configs.keys())
    ]


def queue_document(config: QueueConfig, stats: QueueStats) -> dict[str, Any]:
    """A queue as JSON has it: settings and numbers side by side."""
    return {
        **msgspec.structs.asdict(config),
        "counts": stats.counts,
        "parked": stats.parked,
        "dead_letters": stats.dead_letters,
        "oldest_pending_at": stats.oldest_pending_at,
    }
