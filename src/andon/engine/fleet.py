"""Queues as they are shown: settings and counts side by side, and what their tasks wait for."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from andon.engine.base import Engine
from andon.engine.waiting import KindWait
from andon.lifecycle.routing import parse_kind
from andon.lifecycle.waiting import Wait
from andon.model.fleet import QueueConfig, QueueStats


async def known_queues(engine: Engine) -> list[tuple[QueueConfig, QueueStats]]:
    """Every queue with its counts, by name; without the deleted ones that have no tasks."""
    counted, configured = await asyncio.gather(engine.stats(), engine.queues())
    stats = {queue.queue: queue for queue in counted}
    configs = {config.name: config for config in configured}
    rows = [
        (
            configs.get(name) or QueueConfig(name=name),
            stats.get(name) or QueueStats(queue=name, counts={}),
        )
        for name in sorted(stats.keys() | configs.keys())
    ]
    return [(config, counts) for config, counts in rows if not is_gone(config, counts)]


def is_gone(config: QueueConfig, stats: QueueStats) -> bool:
    """Whether the queue was deleted, and nothing has entered it since."""
    return config.deleted and not any(stats.counts.values())


def counts_in(stats: Sequence[QueueStats], name: str) -> dict[str, int]:
    """How many tasks a queue has, by state."""
    return {
        state: number
        for one in stats
        if one.queue == name
        for state, number in one.counts.items()
        if number
    }


def queue_document(
    config: QueueConfig, stats: QueueStats, waits: Iterable[KindWait] = ()
) -> dict[str, Any]:
    """A queue as JSON has it: settings and numbers side by side, and its part of the waits."""
    return {
        **settings_of(config),
        "counts": stats.counts,
        "parked": stats.parked,
        "dead_letters": stats.dead_letters,
        "oldest_pending_at": stats.oldest_pending_at,
        "waits": [_kind_waits(one) for one in waits if one.queue == config.name],
    }


def settings_of(config: QueueConfig) -> dict[str, Any]:
    """The settings as JSON has them."""
    settings = msgspec.structs.asdict(config)
    del settings["deleted"]  # it is shown as long as it has tasks, and then it is a queue
    return settings


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
