"""Counts submits, completions and ends from the store's event log and records."""

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from andon.contract.limits import MAX_BATCH, in_batches
from andon.engine.base import Engine
from andon.model.words import Event, State

_PAGE = 2_000


class Tally(msgspec.Struct, frozen=True):
    """The counts of some tasks, from the log. Times are ms UTC by the store's clock."""

    submitted: int  #: tasks with exactly one submit
    completed: int  #: tasks with exactly one completion
    first_claim: int | None
    last_end: int | None


async def tally(engine: Engine, cursor: str, ids: Collection[str]) -> Tally:
    """Read the log after `cursor` for these tasks."""
    mine = frozenset(ids)
    moves: dict[Event, Counter[str]] = {Event.SUBMIT: Counter(), Event.COMPLETE: Counter()}
    first_claim: int | None = None
    last_end: int | None = None
    while True:
        page = await engine.events(cursor, _PAGE)
        for event in page.events:
            if event.task not in mine:
                continue
            if event.event is Event.CLAIM and first_claim is None:
                first_claim = event.at
            counter = moves.get(event.event)
            if counter is not None:
                counter[event.task] += 1
                if event.event is Event.COMPLETE:
                    last_end = event.at
        if not page.events:
            break
        cursor = page.cursor
    once = {event: sum(n == 1 for n in counter.values()) for event, counter in moves.items()}
    return Tally(once[Event.SUBMIT], once[Event.COMPLETE], first_claim, last_end)


async def results(engine: Engine, ids: Sequence[str]) -> list[bytes]:
    """The results of those that completed, encoded as they are stored."""
    found: list[bytes] = []
    for batch in in_batches(ids, MAX_BATCH):
        there = [task for task in await engine.get(batch) if task is not None]
        found.extend(
            task.result
            for task in there
            if task.state is State.COMPLETED and task.result is not None
        )
    return found


async def ended(engine: Engine, queue: str) -> int:
    """Tasks of a queue that have completed so far."""
    for stats in await engine.stats():
        if stats.queue == queue:
            return stats.counts.get(State.COMPLETED, 0)
    return 0
