"""Committing the ends of runs that are alike, the most frequent batch by far: common values are
sent once, the others per change (sql/functions/commit_ends.sql).

The counts they change are the same (`lifecycle.batches.EndedRuns`); `_goes_so` checks the other
conditions.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from andon.contract.requests import Change
from andon.lifecycle.batches import EndedRuns, Moves, ended_runs
from andon.lifecycle.effects import Effects
from andon.stores.kit.codec import encode, encode_event
from andon.stores.kit.topics import topics_of
from andon.stores.postgres.arrays import numbers
from andon.stores.postgres.names import Names


def alike(batches: Sequence[Moves[Change]]) -> list[EndedRuns]:
    """The runs that the changes end for good, by queue, if all are counted as the same; else
    nothing."""
    for batch in batches:
        if not (_ends_for_good(batch.effects) and all(map(_goes_so, batch.moves))):
            return []
    runs = ended_runs(batch.effects for batch in batches for _ in batch.moves)
    is_one = len({(run.state, run.dead_letter, run.tally) for run in runs}) == 1
    return runs if is_one else []


def _ends_for_good(effects: Effects) -> bool:
    """Whether a worker has ended its run, and the task with it."""
    return effects.ends_run and effects.ends and not effects.interrupts


def _goes_so(change: Change) -> bool:
    """Whether it is an end that `commit_ends` can write: one of a record known by its key, whose
    revision alone is looked at, and which has a result but neither a run nor a request to cancel
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
    runs: Sequence[EndedRuns],
    changes: Sequence[Change],
    effects: Sequence[Effects],
    names: Names,
) -> tuple[list[Any], set[str]]:
    """Arguments of the statement after its first two, and the topics of its hints but for the
    tasks' own. The changes come in the order in which their rows are to be locked."""
    ended = [change.after for change in changes if change.after is not None]
    await names.know([run.queue for run in runs])
    at = [change.event.at for change in changes]
    timers = [one.timer for one in effects]
    first = min(effects, key=_timer)  # their topics differ only by their timers
    return [
        [names.ids[run.queue] for run in runs],
        runs[0].state.value,
        runs[0].tally,
        runs[0].dead_letter,
        numbers([change.before.ref for change in changes]),
        numbers([change.before.status.revision for change in changes]),
        numbers(timers),
        numbers(at),
        [encode(status) for status in ended],
        [encode_event(change.event, change.before.definition.id) for change in changes],
        *_results([change.result for change in changes]),
        _lists(effects),
    ], set(topics_of(first, max(at)))


def _timer(effects: Effects) -> float:
    return inf if effects.timer is None else effects.timer


def _lists(effects: Sequence[Effects]) -> list[str]:
    """The list by name that each enters, that of its failures, if they enter any: of ends in one
    state all do or none does."""
    if not effects[0].lists_in:
        return []
    return [name for one in effects for (name,) in (one.lists_in,)]


def _results(results: list[bytes | None]) -> tuple[list[bytes | None], bytes | None]:
    """Results one by one, and the one that all have: most handlers return nothing."""
    first = results[0]
    return ([], first) if results.count(first) == len(results) else (results, None)
