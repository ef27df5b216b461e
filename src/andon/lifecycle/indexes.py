"""Makes the index entry of a record, which a store's indexes must hold: a pure function.

A store is handed records and derives every index from `entry_of`, so there is no list of side
effects to get wrong (docs/design.md, 5.1).
"""

from hashlib import blake2b

import msgspec

from andon.lifecycle.apply import is_dead_letter
from andon.lifecycle.births import keeps_key
from andon.lifecycle.parents import spare, to_satisfy
from andon.lifecycle.routing import kind_of
from andon.lifecycle.timers import claimable_until, first_limit, next_timer
from andon.model.task import Definition, Task
from andon.model.words import DEAD_LETTER_STATES, State

_PENDING, _BLOCKED = State.PENDING, State.BLOCKED  # 0.1 us less each, see `admission`


_MOST_OF_TAG = 200
"""Characters of a tag that stand in the name of its list."""


class ReadyEntry(msgspec.Struct, frozen=True, gc=False):
    """The place of a pending task in its queue: higher `priority` first, then lower `order`."""

    priority: int
    order: int
    dead_at: int | None  #: not to be handed out at or after this time
    first_limit: int | None  #: ms after the claim at which the run's first timer may fire
    kind: str = ""  #: decides which workers may claim it (`lifecycle.routing`)


class IndexEntry(msgspec.Struct, frozen=True, gc=False):
    """All that is indexed of one record."""

    queue: str
    name: str
    state: State
    key: str | None
    group: str | None
    timer: int | None
    ready: ReadyEntry | None
    unique_key: str | None  #: held by this record now
    unique_until: int | None
    dead_letter: bool
    remaining: int  #: dependencies that must satisfy a blocked task, as it starts
    spare: int | None = None
    """How many may fail it then; None: it needs all, or is not blocked."""
    lists: tuple[str, ...] = ()
    """Lists by name that the record belongs to, see `lists_of`."""


def failures_of(state: State, name: str) -> str:
    """The list of tasks of a type that have ended so, one of `DEAD_LETTER_STATES`."""
    return f"{state.value} {name}"


def tagged(tag: str) -> str:
    """The list of tasks that have the tag. The first task of each flow has one, too."""
    if len(tag) <= _MOST_OF_TAG:
        return f"tag {tag}"
    # PostgreSQL indexes no text as long as a tag may be. That two tags share a list does no harm: a
    # query for a tag checks the record, too.
    digest = blake2b(tag.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"tag {tag[:_MOST_OF_TAG]} {digest}"


def lists_of(definition: Definition, state: State) -> tuple[str, ...]:
    """The lists by name that a record belongs to: for searches that no other index serves. A task
    without tags that does not fail is in none, and a store writes nothing for it."""
    failures = (failures_of(state, definition.name),) if state in DEAD_LETTER_STATES else ()
    return (*failures, *(tagged(tag) for tag in dict.fromkeys(definition.tags)))


def entry_of(task: Task) -> IndexEntry:
    """The index entry of a record."""
    definition, status = task.definition, task.status
    state = status.state
    ready, remaining, may_fail = None, 0, None
    if state is _PENDING:
        policy = task.policy
        timer = claimable_until(status, policy)
        ready = ReadyEntry(
            status.priority,
            status.order,
            timer,
            first_limit(status, policy),
            kind_of(definition, policy),
        )
    else:
        timer = next_timer(task)
        if state is _BLOCKED:
            remaining, may_fail = to_satisfy(definition), spare(definition)
    unique_key, unique_until = definition.unique_key, None
    if unique_key is not None:
        policy = task.policy
        states = policy.unique_states
        if state not in states and not keeps_key(status, states):
            unique_key = None
        elif policy.unique_period is not None:
            unique_until = status.created_at + round(policy.unique_period * 1000)
    failed = state in DEAD_LETTER_STATES
    return IndexEntry(
        definition.queue,
        definition.name,
        state,
        definition.key,
        definition.group,
        timer,
        ready,
        unique_key,
        unique_until,
        failed and is_dead_letter(task, status),
        remaining,
        may_fail,
        lists_of(definition, state) if failed or definition.tags else (),
    )
