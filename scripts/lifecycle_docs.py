"""Write the generated parts of docs/lifecycle.md from the tables in the code.

    python scripts/lifecycle_docs.py            rewrite the page
    python scripts/lifecycle_docs.py --check    fail when the page is stale

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; all else is written by hand.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import generated

from andon.lifecycle.faces import SCHEDULES
from andon.lifecycle.moves import MOVES, Move, fields_set
from andon.lifecycle.policies import resolve
from andon.lifecycle.profiles import PROFILES, As, Profile, When
from andon.lifecycle.rendering import move_names
from andon.model.policy import DAY, Backoff, Policy
from andon.model.task import TaskEvent
from andon.model.words import TERMINAL, WAITING, Event, Reason, State

E, S = Event, State
PAGE = Path(__file__).parents[1] / "docs" / "lifecycle.md"
FOREIGN = [profile for profile in PROFILES.values() if profile.name != "native"]

GROUPS: list[tuple[str, frozenset[State]]] = [
    ("every state", frozenset(State) - {State.UNSUBMITTED, State.UNKNOWN}),
    ("every terminal state", TERMINAL),
    ("every waiting state", WAITING),
]
"""Sources named together where a move leaves all of them, the widest group first."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(word: str) -> str:
    return f"`{word}`"


def in_order(states: Iterable[State | None]) -> list[State | None]:
    order = list(State)
    return sorted(states, key=lambda state: -1 if state is None else order.index(state))


def group_of(sources: frozenset[State | None]) -> tuple[str, frozenset[State]] | None:
    return next((group for group in GROUPS if group[1] <= sources), None)


# The diagram


def sources_by_move() -> dict[tuple[Event, State | None], frozenset[State | None]]:
    found: dict[tuple[Event, State | None], set[State | None]] = {}
    for move in MOVES:
        if move.source is not move.target and (not move.cancel or move.event is E.INTERRUPTED):
            found.setdefault((move.event, move.target), set()).add(move.source)
    return {key: frozenset(sources) for key, sources in found.items()}


def diagram() -> str:
    arrows: dict[tuple[State | None, State | None], list[str]] = {}
    for (event, target), sources in sources_by_move().items():
        group = group_of(sources)
        for source in in_order(sources - (group[1] if group else frozenset())):
            events = arrows.setdefault((source, target), [])
            if event not in events:
                events.append(event)
    lines = ["```mermaid", "stateDiagram-v2"]
    for (source, target), events in arrows.items():
        lines.append(f"    {source or '[*]'} --> {target or '[*]'} : {', '.join(events)}")
    return "\n".join([*lines, "```"])


def group_moves() -> str:
    rows: dict[tuple[str, Event], list[str]] = {}
    for (event, target), sources in sources_by_move().items():
        group = group_of(sources)
        if group:
            rows.setdefault((group[0], event), []).append(
                code(target) if target else "nowhere: the record is gone"
            )
    lines = [
        f"- {sources}: `{event}`, to {' or '.join(targets)}."
        for (sources, event), targets in rows.items()
    ]
    asked = [code(move.event) for move in MOVES if move.cancel and move.event is not E.INTERRUPTED]
    lines.append(f"- `active`, once a cancel was requested: {', '.join(asked)}, to `cancelled`.")
    loops: dict[Event, list[State | None]] = {}
    for move in MOVES:
        if move.source is move.target:
            loops.setdefault(move.event, []).append(move.source)
    for event, states in loops.items():
        named = ", ".join(code(str(state)) for state in in_order(states))
        lines.append(f"- `{event}` changes the record and leaves the state: {named}.")
    return "\n".join(line[0:2] + line[2].upper() + line[3:] for line in lines)


# The reference


def reference() -> str:
    grouped: dict[tuple[object, ...], list[Move]] = {}
    for move in MOVES:
        target = "the same" if move.source is move.target else move.target
        # What follows a cancel request is one row: there, it makes no difference what happened.
        event = None if move.cancel else move.event
        key = (event, target, move.when, move.cancel, fields_set(move))
        grouped.setdefault(key, []).append(move)
    return table(
        ("event", "from", "to", "when", "fields it may set"),
        [reference_row(moves) for moves in grouped.values()],
    )


def reference_row(moves: list[Move]) -> list[str]:
    first = moves[0]
    target = code(first.target) if first.target else "gone"
    conditions = [first.when, "no cancel requested" if first.cancel is False else ""]
    return [
        ", ".join(dict.fromkeys(code(move.event) for move in moves)),
        names_of_sources(frozenset(move.source for move in moves)),
        "the same" if first.source is first.target else target,
        "; ".join(filter(None, conditions)),
        ", ".join(code(field) for field in sorted(fields_set(first))),
    ]


def names_of_sources(sources: frozenset[State | None]) -> str:
    group = group_of(sources)
    words = [group[0]] if group else []
    rest = sources - (group[1] if group else frozenset())
    words += [code(state) if state else "new" for state in in_order(rest)]
    return ", ".join(words)


# Profiles


def states_as_seen() -> str:
    rows = [
        [code(state), *(choices(profile.states.get(state, ())) for profile in FOREIGN)]
        for state in State
    ]
    return table(("state", *(profile.name for profile in FOREIGN)), rows)


def choices(names: tuple[As, ...]) -> str:
    if not names:
        return "none"
    told: dict[str, list[str]] = {}
    for name, when, reasons in names:
        conditions = [] if when is When.ALWAYS else [when.value]
        if reasons:
            ordered = [code(reason) for reason in Reason if reason in reasons]
            conditions.append("for " + ", ".join(ordered))
        told.setdefault(name, []).append(" ".join(conditions))
    if len(told) == 1:
        return next(iter(told))
    return "; ".join(
        f"{name} {' or '.join(conditions) or 'otherwise'}".replace("  ", " ")
        for name, conditions in told.items()
    )


def schedules_as_seen() -> str:
    rows = [
        [
            profile.name,
            recurs.called,
            ", ".join(SCHEDULES[profile.name](SAMPLE_SCHEDULE)),
            f"`catch_up={recurs.catch_up}`",
            ", ".join(
                f"`{rule}`" + (f" ({word})" if word != "none" else "")
                for rule, word in recurs.overlaps.items()
            ),
            recurs.differs,
        ]
        for profile in FOREIGN
        if (recurs := profile.recurs) is not None
    ]
    head = ("profile", "called", "fields", "after an outage", "overlap", "what is otherwise here")
    return table(head, rows)


SAMPLE_SCHEDULE = {
    "name": "nightly",
    "cron": ["0 2 * * *"],
    "every": None,
    "tz": "UTC",
    "paused_at": None,
    "overlap": "skip",
    "next_at": None,
    "last_id": None,
    "created_at": None,
    "task": {
        "name": "report",
        "queue": "default",
        "args": None,
        "deadline_in": None,
        "policy": {"max_retries": 3},
    },
}


SAMPLES: list[tuple[str, TaskEvent]] = [
    ("submit, to pending", TaskEvent(1, 0, E.SUBMIT, None, S.PENDING, run=0)),
    ("submit, to scheduled", TaskEvent(1, 0, E.SUBMIT, None, S.SCHEDULED)),
    ("submit, to blocked", TaskEvent(1, 0, E.SUBMIT, None, S.BLOCKED)),
    ("submit, to failed", TaskEvent(1, 0, E.SUBMIT, None, S.FAILED, Reason.VALIDATION_ERROR)),
    ("unblock, to pending", TaskEvent(2, 0, E.UNBLOCK, S.BLOCKED, S.PENDING, run=0)),
    ("due, of a first start", TaskEvent(2, 0, E.DUE, S.SCHEDULED, S.PENDING, run=0)),
    ("claim", TaskEvent(2, 0, E.CLAIM, S.PENDING, S.ACTIVE, run=0)),
    ("a run is retried at once", TaskEvent(3, 0, E.FAIL, S.ACTIVE, S.PENDING, run=1)),
    ("release", TaskEvent(3, 0, E.RELEASE, S.ACTIVE, S.PENDING, run=1)),
    ("a run is retried later", TaskEvent(3, 0, E.FAIL, S.ACTIVE, S.RETRY, run=0)),
    ("due, of a retry", TaskEvent(4, 0, E.DUE, S.RETRY, S.PENDING, run=1)),
    ("snooze", TaskEvent(3, 0, E.SNOOZE, S.ACTIVE, S.SCHEDULED, run=0)),
    ("rerun, to pending", TaskEvent(4, 0, E.RERUN, S.COMPLETED, S.PENDING, run=1)),
]


def moves_as_seen() -> str:
    rows = [[label, *(sequence(profile, event) for profile in FOREIGN)] for label, event in SAMPLES]
    return table(("move", *(profile.name for profile in FOREIGN)), rows)


def sequence(profile: Profile, event: TaskEvent) -> str:
    return ", ".join(shown.name for shown in move_names(profile, event, None)) or "nothing"


def defaults() -> str:
    policies = [resolve(profile.defaults) for profile in PROFILES.values()]
    rows: list[list[str]] = []
    for field in Policy.__struct_fields__:
        if field == "retention":
            for state in ("completed", "failed"):
                kept = [duration(policy.retention.of(state), "for ever") for policy in policies]
                rows.append([f"`retention`, {state}", *kept])
            continue
        values = [value_of(field, policy) for policy in policies]
        if len(set(values)) > 1:
            rows.append([code(field), *values])
    return table(("option", *PROFILES), rows)


DURATIONS = {
    "retry_delay": "at once",
    "max_retry_delay": "",
    "timeout": "none",
    "default_timeout": "none",
    "queue_timeout": "none",
    "shutdown_grace": "",
    "lease": "",
    "deadline_max": "none",
    "expires_after_deadline": "none",
    "dead_letter_retention": "for ever",
}
"""Options in seconds, and what None means for them."""


def value_of(field: str, policy: Policy) -> str:
    value: object = getattr(policy, field)
    if field == "retry_delay" and policy.backoff in (Backoff.POLYNOMIAL, Backoff.STEPS):
        return "by the formula"
    if field in DURATIONS:
        assert value is None or isinstance(value, int | float)
        return duration(value, DURATIONS[field])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "none" if value is None else str(value)


def duration(seconds: float | None, none: str) -> str:
    if seconds is None:
        return none
    for size, unit in ((DAY, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


PARTS: dict[str, Callable[[], str]] = {
    "diagram": diagram,
    "group-moves": group_moves,
    "moves": reference,
    "states-as-seen": states_as_seen,
    "moves-as-seen": moves_as_seen,
    "defaults": defaults,
    "schedules-as-seen": schedules_as_seen,
}


if __name__ == "__main__":
    sys.exit(generated.main(PAGE, PARTS, about=__doc__ or ""))
