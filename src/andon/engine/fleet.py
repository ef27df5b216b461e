"""Queues as they are shown: settings and counts side by side, and what their tasks wait for."""

from collections.abc import Iterable
from typing import Any

import msgspec

from andon.engine.base import Engine
from andon.engine.waiting import KindWait
from andon.lifecycle.routing import parse_kind
from andon.lifecycle.waiting import Wait
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


def queue_document(
    config: QueueConfig, stats: QueueStats, waits: Iterable[KindWait] = ()
) -> dict[str, Any]:
    """A queue as JSON has it: settings and numbers side by side, and its part of the waits."""
    return {
        **msgspec.structs.asdict(config),
        "counts": stats.counts,
        "parked": stats.parked,
        "dead_letters": stats.dead_letters,
        "oldest_pending_at": stats.oldest_pending_at,
        "waits": [_kind_waits(one) for one in waits if one.queue == config.name],
    }


def _kind_waits(wait: KindWait) -> dict[str, Any]:
    name, version, _ = parse_kind(wait.kind)
    return {
        "name": name,
        "version": version,
        "why": wait.why.value,
        "text": wait.text,
        "oldest_at": wait.oldest_at,
    }


def waits_for(wait: Wait | None) -> dict[str, Any]:
    """What a task waits for, as a field of its view; none if nothing keeps it."""
    return {} if wait is None else {"waits_for": {"why": wait.why.value, "text": wait.text}}
