"""Committing the ends of runs that are alike, the most frequent batch by far: what is sent once,
and what of each (sql/functions/commit_ends.sql).

Whether they are alike is seen by the changes themselves. Of what is indexed of a record, only the
timer is derived: the rest is the same for all of them, or not there.
"""

from collections.abc import Sequence
from typing import Any

from andon.contract.requests import Change
from andon.contract.topics import EVENTS_TOPIC, TIMER_TOPIC
from andon.lifecycle.apply import is_dead_letter
from andon.lifecycle.constants import NEAR_TIMER_MS
from andon.lifecycle.daily import tally_of
from andon.lifecycle.timers import next_timer
from andon.model.task import Task
from andon.model.words import TERMINAL, State
from andon.stores.kit.codec import encode, encode_event
from andon.stores.postgres.arrays import numbers
from andon.stores.postgres.names import Names

_ACTIVE = State.ACTIVE


def are_alike(changes: Sequence[Change]) -> bool:
    """Whether each ends a run, touches nothing but its record, and leaves the same state."""
    first = changes[0].after
    if first is None or first.state not in TERMINAL:
        return False
    state, dead = first.state, is_dead_letter(changes[0].before, first)
    tally = tally_of(changes[0].event)
    for change in changes:
        before, after = change.before, change.after
        old, definition = before.status, before.definition
        if not (
            after is not None
            and after.state is state
            and old.state is _ACTIVE
            and change.sets_result
            and before.ref > 0
            and after.revision == old.revision + 1
            and change.discard is None
            and change.seen_lease is None
            and after.cancel_requested_at is None
            and not (after.run or after.worker)
            and definition.key is None
            and definition.unique_key is None
            and is_dead_letter(before, after) == dead
            and tally_of(change.event) is tally
        ):
            return False
    return True


async def arguments(changes: Sequence[Change], names: Names) -> tuple[list[Any], set[str]]:
    """Arguments of the statement after its first two, and the topics of its hints but for the
    tasks' own. The changes come in the order in which their rows are to be locked."""
    ended = [change.after for change in changes if change.after is not None]
    queues = {change.before.definition.queue for change in changes}
    await names.know(queues)
    timers = [_timer(change) for change in changes]
    at = [change.event.at for change in changes]
    topics = {EVENTS_TOPIC}
    soon = max(at) + NEAR_TIMER_MS
    if any(timer is not None and timer < soon for timer in timers):
        topics.add(TIMER_TOPIC)
    return [
        [names.ids[queue] for queue in queues],
        ended[0].state.value,
        tally_of(changes[0].event),
        is_dead_letter(changes[0].before, ended[0]),
        numbers([change.before.ref for change in changes]),
        numbers([change.before.status.revision for change in changes]),
        numbers(timers),
        numbers(at),
        [encode(status) for status in ended],
        [encode_event(change.event, change.before.definition.id) for change in changes],
        *_results([change.result for change in changes]),
    ], topics


def _results(results: list[bytes | None]) -> tuple[list[bytes | None], bytes | None]:
    """Results one by one, and the one that all have: most handlers return nothing."""
    first = results[0]
    return ([], first) if results.count(first) == len(results) else (results, None)


def _timer(change: Change) -> int | None:
    assert change.after is not None
    return next_timer(Task(definition=change.before.definition, status=change.after))
