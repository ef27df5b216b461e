"""Shows states, moves, records and histories under the names of a profile. Pure.

The task and its events stay native; only names and shapes change. Where a system draws an arrow
that Andon makes in one move, or makes in two what it draws as one, a move is shown as a sequence
of names: none, one or two.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from andon.lifecycle.discarded import NAMELESS, is_bare
from andon.lifecycle.faces import HISTORIES, RECORDS
from andon.lifecycle.faces.fields import Shown, cause_of, iso
from andon.lifecycle.leases import is_orphaned
from andon.lifecycle.profiles import Profile, When
from andon.model.errors import ConfigurationError
from andon.model.task import Task, TaskEvent
from andon.model.words import Event, Reason, State


class Facts(msgspec.Struct, frozen=True):
    """What a name may depend on, as it was at one moment."""

    has_run: bool = False  #: a run was claimed
    has_runs: bool = False  #: a run was opened
    rerun: bool = False
    has_dependencies: bool = False

    def hold(self, when: When) -> bool:
        """Whether the condition holds."""
        match when:
            case When.ALWAYS:
                return True
            case When.HAS_RUN:
                return self.has_run
            case When.HAS_RUNS:
                return self.has_runs
            case When.RERUN:
                return self.rerun
            case When.HAS_DEPENDENCIES:
                return self.has_dependencies


def state_name(profile: Profile, task: Task) -> str:
    """The name under which the profile shows where the task stands."""
    return _name(profile, task.state, _facts_now(task), cause_of(task))


def native_states(profile: Profile, name: str) -> frozenset[State]:
    """Every stored state that may be shown under this name.

    A filter selects these, then keeps the tasks whose `state_name` is the name asked for.
    Raises `ConfigurationError` when the profile has no such name.
    """
    stored = [state for state in State if state is not State.UNSUBMITTED]
    found = {state for state in stored if name in names_of(profile, state)}
    if not found:
        known = ", ".join(dict.fromkeys(n for state in stored for n in names_of(profile, state)))
        raise ConfigurationError(
            f"Profile {profile.name} shows no state as {name!r}. Use one of: {known}."
        )
    return frozenset(found)


def names_of(profile: Profile, state: State) -> tuple[str, ...]:
    """Every name that the state may be shown under, the most special first."""
    return tuple(dict.fromkeys(choice.name for choice in profile.states.get(state, ())))


def move_names(profile: Profile, event: TaskEvent, task: Task | None) -> list[Shown]:
    """What the profile shows of one move, in order; empty where it shows nothing.

    Without the task (it may be gone by the time its events are read), what came before the event
    is judged by the event alone: a run numbered above 0 counts as a task that has run.
    """
    return _shown(profile, event, _facts_before(event, task))


def history_as(
    profile: Profile, events: Iterable[TaskEvent], task: Task | None
) -> list[dict[str, Any]]:
    """The moves of one task, oldest first, in the shape in which the system lists them.

    Exact for a whole history; one that begins in the middle is judged as in `move_names`.
    """
    entries: list[Shown] = []
    facts: Facts | None = None
    for event in events:
        facts = _facts_before(event, task) if facts is None else facts
        entries += _shown(profile, event, facts)
        facts = _after(facts, event)
    return [HISTORIES[profile.name](entry) for entry in entries]


def as_seen(
    profile: Profile, task: Task, events: Sequence[TaskEvent] | None = None
) -> dict[str, Any]:
    """The record under the system's own field names (docs/rulings.md, R1), ready to be encoded as
    JSON.

    `events` is the task's history where the caller has all of it; the record's newest events
    stand in for it otherwise.
    """
    history = history_as(profile, task.status.events if events is None else events, task)
    return RECORDS[profile.name](task, state_name(profile, task), history)


_ORPHANED = {"native": "orphaned", "asynq": "is_orphaned"}
"""By profile, the field that marks an active task whose lease is over."""


_OF_AN_END = frozenset(
    [
        "id",
        "name",
        "state",
        "reason",
        "finished_at",
        "progress",
        "result",
        "result_base64",
        "last_error",
        "revision",
    ]
)
"""Native fields that are known of a task whose record went with its end."""


def document(
    profile: Profile,
    task: Task,
    events: Sequence[TaskEvent] | None = None,
    *,
    now: int | None = None,
) -> dict[str, Any]:
    """The record as JSON has it; with `events`, its history too, whatever the profile. With `now`,
    ms UTC by the store's clock, an active task says whether it is orphaned, where the profile has a
    word for that.

    A record that does not decode (docs/rulings.md, R28) has only what is known of it; so has, under
    Andon's own names, the end of a task whose record went with it (docs/rulings.md, R37).
    """
    if task.state is State.UNKNOWN and task.definition.name == NAMELESS:
        return {"id": task.id, "state": state_name(profile, task), "name": NAMELESS}
    fields = as_seen(profile, task, events)
    if is_bare(task) and profile.name == "native":
        return {name: value for name, value in fields.items() if name in _OF_AN_END}
    if events is not None:
        fields.setdefault("history", history_as(profile, events, task))
    if now is not None and task.state is State.ACTIVE and profile.name in _ORPHANED:
        fields[_ORPHANED[profile.name]] = is_orphaned(task, now)
    return fields


def event_document(event: TaskEvent) -> dict[str, Any]:
    """One move as JSON has it, in Andon's own words."""
    return {
        "task": event.task,
        "revision": event.revision,
        "at": iso(event.at),
        "event": event.event,
        "from": event.source,
        "to": event.target,
        "reason": event.reason,
        "run": event.run,
        "worker": event.worker,
        "error": event.error,
        **({"actor": event.actor} if event.actor else {}),
    }


def _name(profile: Profile, state: State, facts: Facts, reason: Reason | None) -> str:
    for choice in profile.states.get(state, ()):
        if facts.hold(choice.when) and (not choice.reasons or reason in choice.reasons):
            return choice.name
    return state.value


def _shown(profile: Profile, event: TaskEvent, before: Facts) -> list[Shown]:
    source, target = event.source, event.target
    if target is None or source is target:
        return []
    after = _after(before, event)
    entered = _name(profile, target, after, event.reason)
    names = _sequence(profile, event)
    if source is None:
        names = (entered,) if profile.born in ("", entered) else (profile.born, entered)
    elif names is None:
        left = _name(profile, source, before, event.reason)
        names = () if left == entered else (entered,)
    last = len(names) - 1
    at_fault = last if source is None else 0
    opens = target is State.PENDING and event.run is not None and event.run > 0
    return [
        Shown(
            name=name,
            at=event.at,
            reason=event.reason,
            run=event.run,
            worker=event.worker if target is State.ACTIVE else "",
            error=event.error if place == at_fault else None,
            attempt=event.run + 1 if opens and event.run is not None and place == last else None,
        )
        for place, name in enumerate(names)
    ]


def _sequence(profile: Profile, event: TaskEvent) -> tuple[str, ...] | None:
    for row in profile.moves:
        if event.source in row.sources and event.target in row.targets:
            return None if event.event in row.but else row.names
    return None


def _after(before: Facts, event: TaskEvent) -> Facts:
    return Facts(
        before.has_run or event.target is State.ACTIVE,
        before.has_runs or event.target is State.PENDING,
        before.rerun or event.event is Event.RERUN or event.event is Event.RUN_NOW,
        before.has_dependencies or event.target is State.BLOCKED,
    )


def _facts_now(task: Task) -> Facts:
    status = task.status
    return Facts(
        status.started_at is not None,
        bool(status.runs),
        status.rerun_by_hand,
        bool(task.definition.dependencies),
    )


def _facts_before(event: TaskEvent, task: Task | None) -> Facts:
    source, number = event.source, event.run
    dependencies = source is State.BLOCKED if task is None else bool(task.definition.dependencies)
    if source is None or number is None:
        return Facts(has_dependencies=dependencies)
    # The event names the run it opens, else the newest there was. A pending run is not claimed.
    unclaimed = event.target is State.PENDING or source is State.PENDING
    newest = number - 1 if unclaimed else number
    if task is None:
        has_run = newest >= 0
    else:
        claimed = any(
            run.claimed_at is not None and run.number <= newest for run in task.status.runs
        )
        has_run = claimed or (newest >= 0 and task.status.runs_dropped > 0)
    opened = newest if event.target is State.PENDING else number
    return Facts(
        has_run or source is State.ACTIVE,
        opened >= 0,
        task is not None and task.status.rerun_by_hand,
        dependencies,
    )
