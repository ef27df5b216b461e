"""Commits the ends of runs that are alike, the most frequent batch by far: common values are sent
once, the others per change (sql/functions/commit_ends.sql).

They are counted as the same, and `_goes_so` says what else this path requires of them.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from andon.contract.requests import Change
from andon.lifecycle.batches import Moves
from andon.lifecycle.effects import Effects
from andon.stores.kit.codec import encode, encode_event
from andon.stores.kit.topics import topics_of
from andon.stores.postgres.arrays import numbers
from andon.stores.postgres.names import Names


def are_alike(batches: Sequence[Moves[Change]]) -> bool:
    """Whether the changes end runs for good, and are counted as the same but for their queues."""
    first = batches[0].effects
    for batch in batches:
        effects = batch.effects
        if not (
            _ends_for_good(effects)
            and (effects is first or _is_counted_as(first, effects))
            and all(map(_goes_so, batch.moves))
        ):
            return False
    return True


def _ends_for_good(effects: Effects) -> bool:
    """Whether a worker has ended its run, and the task with it."""
    return effects.ends_run and effects.ends and not effects.interrupts


def _is_counted_as(one: Effects, other: Effects) -> bool:
    return (
        one.state is other.state
        and one.tally is other.tally
        and one.dead_letter_in == other.dead_letter_in
    )


def _goes_so(change: Change) -> bool:
    """Whether it is an end that `commit_ends` can write: one of a record known by its key, of which
    only the revision is checked, and which has a result but neither a run nor a request to cancel
    from now on."""
    before, after = change.before, change.after
    return (
        after is not None
        and change.sets_result
        and before.ref > 0
        and after.revision == before.status.revision + 1
        and change.seen_lease is None
        and after.cancel_requested_at is None
        and not (after.run or after.worker)
    )


async def arguments(
    batches: Sequence[Moves[Change]], changes: Sequence[Change], names: Names
) -> tuple[list[Any], set[str]]:
    """Arguments of the statement after its first two, and the topics of its hints but for the
    tasks' own. The changes, those of the batches, come in the order in which their rows are to be
    locked."""
    first = batches[0].effects
    assert first.state is not None
    queues = {batch.effects.queue for batch in batches}
    await names.know(queues)
    at = [change.event.at for change in changes]
    timers: list[int | None] = []
    for batch in batches:
        timers += [batch.effects.timer] * len(batch.moves)
    soonest = min(batches, key=_timer).effects  # they differ only in that, for the notifications
    return [
        [names.ids[queue] for queue in queues],
        first.state.value,
        first.tally,
        first.dead_letter_in,
        numbers([change.before.ref for change in changes]),
        numbers([change.before.status.revision for change in changes]),
        numbers(timers),
        numbers(at),
        [encode(change.after) for change in changes],
        [encode_event(change.event, change.before.definition.id) for change in changes],
        *_results([change.result for change in changes]),
        _lists(batches),
    ], set(topics_of(soonest, max(at)))


def _timer(batch: Moves[Change]) -> float:
    timer = batch.effects.timer
    return inf if timer is None else timer


def _lists(batches: Sequence[Moves[Change]]) -> list[str]:
    """The list by name that each enters, that of its failures, if they enter any: of ends in one
    state all do or none does."""
    if not batches[0].effects.lists_in:
        return []
    return [name for batch in batches for (name,) in (batch.effects.lists_in,) for _ in batch.moves]


def _results(results: list[bytes | None]) -> tuple[list[bytes | None], bytes | None]:
    """Results one by one, and the one that all have: most handlers return nothing."""
    first = results[0]
    return ([], first) if results.count(first) == len(results) else (results, None)
