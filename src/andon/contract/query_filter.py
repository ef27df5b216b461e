"""Checks records against a query, and tells stores which index and order serve it."""

from andon.contract.queries import Query
from andon.lifecycle.apply import is_dead_letter
from andon.lifecycle.indexes import failures_of, tagged
from andon.model.errors import ConfigurationError
from andon.model.task import Task
from andon.model.words import DEAD_LETTER_STATES, WAITS_FOR_TIME, State

DUE = "d"
"""How a cursor among due times begins, so that it is not taken for one among times of creation."""


def check_order(query: Query) -> None:
    """Raise `ConfigurationError` for an unknown order."""
    if not query.due_first:
        return
    if query.newest_first:
        raise ConfigurationError("Tasks are listed either by due time or the newest first.")
    for state in query.states:
        if state not in WAITS_FOR_TIME:
            raise ConfigurationError(
                f"Only tasks that are scheduled or wait in retry have a due time; {state} ones "
                "cannot be listed by it."
            )


def has_due_order(query: Query) -> bool:
    """Whether a list of it is best read by due time: all its tasks wait for a time, and it names
    nothing that has a list of its own."""
    return (
        bool(query.states)
        and all(state in WAITS_FOR_TIME for state in query.states)
        and query.key is None
        and query.group is None
        and query.tag is None
        and query.worker is None
        and query.id_prefix is None
        and not query.dead_letters
    )


def lists_asked(query: Query) -> tuple[str, ...]:
    """The lists by name (`lifecycle.indexes.lists_of`) that hold all that a query asks for; empty
    if there are none, or if it names something that has an index of its own."""
    if query.due_first or query.worker is not None or query.id_prefix is not None:
        return ()
    if query.key is not None or query.group is not None:
        return ()
    if query.tag is not None:
        return (tagged(query.tag),)
    states = query.states or (tuple(DEAD_LETTER_STATES) if query.dead_letters else ())
    if query.name is None or not states or not DEAD_LETTER_STATES.issuperset(states):
        return ()
    return tuple(failures_of(state, query.name) for state in dict.fromkeys(states))


def states_asked(query: Query) -> tuple[State, ...]:
    """The states of all that a query asks for, as far as it says; empty if that is every state."""
    if query.worker is not None:
        return (State.ACTIVE,)
    if not query.dead_letters:
        return query.states
    return tuple(s for s in query.states or State if s in DEAD_LETTER_STATES)


def due_states(query: Query) -> tuple[State, ...]:
    """The states that a query by due time walks."""
    return tuple(s for s in WAITS_FOR_TIME if not query.states or s in query.states)


def matches(query: Query, task: Task) -> bool:
    """Whether the record satisfies every filter of the query."""
    definition, status = task.definition, task.status
    return (
        (not query.states or status.state in query.states)
        and (query.queue is None or definition.queue == query.queue)
        and (query.id_prefix is None or definition.id.startswith(query.id_prefix))
        and (query.name is None or definition.name == query.name)
        and (query.worker is None or status.worker == query.worker)
        and (query.tag is None or query.tag in definition.tags)
        and (query.key is None or definition.key == query.key)
        and (query.group is None or definition.group == query.group)
        and (not query.dead_letters or is_dead_letter(task, status))
    )
