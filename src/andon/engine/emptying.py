"""Emptying and deleting queues: removes the tasks of a queue, and the queue itself.

A waiting task is cancelled and its record removed right after, by the ordinary moves, each with its
event; so callers that wait for one learn its end. A crash in between leaves some of them cancelled,
and the next call removes them.
"""

from collections.abc import Sequence

import msgspec

from andon.contract.queries import Query
from andon.engine.base import ActionResult, Engine
from andon.engine.bulk import Tally, act_on_found
from andon.engine.filtering import check_queue
from andon.engine.fleet import counts_in
from andon.lifecycle.commands import Delete
from andon.model.errors import QueueNotEmpty
from andon.model.fleet import QueueStats
from andon.model.words import OVER, UNFINISHED, WAITING, State, in_order

ENDED = in_order(OVER)


def emptied_of(*, force: bool) -> tuple[State, ...]:
    """The states of the tasks that a queue loses when it is purged."""
    return in_order(UNFINISHED if force else WAITING)


class Emptied(msgspec.Struct, frozen=True):
    """How emptying a queue ended."""

    removed: int
    refused: (
        int  #: that others still need, or that moved meanwhile; they are as they were, or ended
    )
    more: bool  #: it stopped at `most`: others may be left


async def purge_queue(
    engine: Engine, name: str, *, force: bool = False, most: int | None = None
) -> Emptied:
    """Cancel and remove the tasks that wait in a queue; with `force` also those that are running,
    and what tasks elsewhere still need. `most`: so many at the most in this call.

    Tasks submitted after it began stay, and so do the queue, its settings and what has ended.
    Raises `ConfigurationError` for a queue that is not known.
    """
    await check_queue(engine, name)
    query = Query(queue=name, states=emptied_of(force=force))
    return await _remove(engine, query, force=force, most=most)


async def delete_queue(
    engine: Engine, name: str, *, force: bool = False, most: int | None = None
) -> Emptied:
    """Delete a queue: the records of what has ended in it, then its settings. With `force` live
    tasks are cancelled and removed before. `most`: so many tasks at the most in this call.

    It is listed no more until a task enters it or it is configured. Raises `ConfigurationError` for
    a queue that is not known, and `QueueNotEmpty` while tasks are in it: live ones without `force`,
    those that a task elsewhere still needs, or those beyond `most`.
    """
    await check_queue(engine, name)
    if not force:
        live = live_in(await engine.stats(), name)
        if live:
            raise QueueNotEmpty(name, live, "Wait for them or purge the queue, or delete by force.")
    states = () if force else ENDED
    emptied = await _remove(engine, Query(queue=name, states=states), force=force, most=most)
    left = counts_in(await engine.stats(), name)
    if left:
        raise QueueNotEmpty(name, left, _why_left(emptied))
    await engine.delete_queue(name)
    return emptied


def _why_left(emptied: Emptied) -> str:
    if emptied.more:
        return f"{emptied.removed:,} were removed; delete it again for the others."
    if emptied.refused:
        return f"Tasks elsewhere need {emptied.refused:,} of them; wait, or delete by force."
    return "They came while it was emptied; delete it again."


def live_in(stats: Sequence[QueueStats], name: str) -> dict[str, int]:
    """How many tasks of a queue have not ended, by state."""
    ended = {state.value for state in ENDED}
    counts = counts_in(stats, name)
    return {state: number for state, number in counts.items() if state not in ended}


async def _remove(engine: Engine, query: Query, *, force: bool, most: int | None) -> Emptied:
    async def remove(ids: Sequence[str]) -> list[ActionResult]:
        if query.states == ENDED:
            return await engine.act(ids, Delete(), force=force)
        cancelled = await engine.cancel(ids, force=force)
        # A task that ended before it could be cancelled refuses the cancel, and is removed all the
        # same.
        ended = [one.id for one in cancelled if one.state in ENDED]
        deleted = await engine.act(ended, Delete(), force=force) if ended else []
        outcomes = {one.id: one for one in deleted}
        return [outcomes.get(one.id, one) for one in cancelled]

    tally: Tally = await act_on_found(engine, query, remove, most=most)
    return Emptied(tally.changed, tally.refused, most is not None and tally.found >= most)
