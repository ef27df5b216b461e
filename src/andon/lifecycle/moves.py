"""The table of moves: every (event, from, to) that exists, as data.

The guard at run time, the transition reference and diagram in the docs, and the model used by the
property tests all read this table; nothing else decides whether a move exists. Which of several
targets a move takes is decided in `andon.lifecycle.decide`, and checked against the table again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from andon.model.words import TERMINAL, WAITING, Event, State, in_order

S = State
E = Event


class Move(NamedTuple):
    """One row: `event` takes a task from `source` to `target`, `when` the condition holds.

    `cancel` is about `active` only: True for a run that was asked to cancel, False for one that
    was not, None where it makes no difference. `source` None is "not submitted yet", `target`
    None is "gone".
    """

    event: Event
    source: State | None
    target: State | None
    when: str = ""
    cancel: bool | None = None


def _rows(
    event: Event,
    sources: Iterable[State | None],
    *targets: State | tuple[State, str] | None,
    cancel: bool | None = None,
) -> list[Move]:
    rows: list[Move] = []
    for source in sources:
        for target in targets:
            to, when = target if isinstance(target, tuple) else (target, "")
            rows.append(Move(event, source, to, when, cancel))
    return rows


BEARERS = (S.RECURRING, S.COMPLETED, S.CANCELLED)
"""States in which a record can owe tasks: those to which moves lead that bear."""

_BUDGET_AND_DELAY = "budget left, delay set"
_BUDGET_NO_DELAY = "budget left, no delay"
_ANY = [s for s in State if s not in (S.UNSUBMITTED, S.UNKNOWN)]

MOVES: tuple[Move, ...] = (
    *_rows(
        E.SUBMIT,
        [None],
        (S.RECURRING, "it is a schedule"),
        (S.BLOCKED, "has dependencies"),
        (S.SCHEDULED, "start time ahead"),
        (S.PENDING, "otherwise"),
        (S.FAILED, "invalid, on_invalid=record"),
    ),
    *_rows(E.UNBLOCK, [S.BLOCKED], (S.PENDING, "otherwise"), (S.SCHEDULED, "start time ahead")),
    *_rows(E.SCHEDULE, [S.BLOCKED], (S.PENDING, "otherwise"), (S.SCHEDULED, "start time ahead")),
    *_rows(E.UNREACH, [S.BLOCKED], S.UNREACHABLE),
    *_rows(E.DUE, [S.SCHEDULED, S.RETRY], S.PENDING),
    *_rows(E.CLAIM, [S.PENDING], S.ACTIVE),
    *_rows(E.REQUEST_CANCEL, [S.ACTIVE], S.ACTIVE, cancel=False),
    *_rows(E.COMPLETE, [S.ACTIVE], S.COMPLETED),
    *_rows(
        E.FAIL,
        [S.ACTIVE],
        (S.PENDING, f"{_BUDGET_NO_DELAY}, retryable"),
        (S.RETRY, f"{_BUDGET_AND_DELAY}, retryable"),
        (S.FAILED, "otherwise"),
        cancel=False,
    ),
    *_rows(E.TERMINATE, [S.ACTIVE], S.FAILED, cancel=False),
    *_rows(E.REJECT, [S.ACTIVE], S.FAILED, cancel=False),
    *_rows(
        E.UNKNOWN_TASK,
        [S.ACTIVE],
        (S.SCHEDULED, "on_unknown=wait"),
        (S.RETRY, "on_unknown=retry, budget left"),
        (S.DROPPED, "on_unknown=drop, or the budget is spent"),
        (S.FAILED, "on_unknown=fail"),
        cancel=False,
    ),
    *_rows(E.SNOOZE, [S.ACTIVE], S.SCHEDULED, cancel=False),
    *_rows(E.RELEASE, [S.ACTIVE], S.PENDING, cancel=False),
    *_rows(E.STOP, [S.ACTIVE], S.STALLED, cancel=False),
    *_rows(
        E.SHUTDOWN_RETRY,
        [S.ACTIVE],
        (S.PENDING, _BUDGET_NO_DELAY),
        (S.RETRY, _BUDGET_AND_DELAY),
        (S.STALLED, "otherwise"),
        cancel=False,
    ),
    *_rows(
        E.LOSE,
        [S.ACTIVE],
        (S.PENDING, f"on_lost=retry, {_BUDGET_NO_DELAY}"),
        (S.RETRY, f"on_lost=retry, {_BUDGET_AND_DELAY}"),
        (S.STALLED, "otherwise"),
        cancel=False,
    ),
    *_rows(
        E.SILENCE,
        [S.ACTIVE],
        (S.STALLED, "otherwise"),
        (S.PENDING, f"on_silence=retry, {_BUDGET_NO_DELAY}"),
        (S.RETRY, f"on_silence=retry, {_BUDGET_AND_DELAY}"),
        cancel=False,
    ),
    *(
        Move(event, S.ACTIVE, S.CANCELLED, "cancel was requested", cancel=True)
        for event in (
            E.INTERRUPTED,
            E.FAIL,
            E.TERMINATE,
            E.REJECT,
            E.UNKNOWN_TASK,
            E.SNOOZE,
            E.RELEASE,
            E.STOP,
            E.SHUTDOWN_RETRY,
            E.LOSE,
            E.SILENCE,
        )
    ),
    *_rows(
        E.RECUR,
        [S.RECURRING],
        (S.RECURRING, "another time follows"),
        (S.COMPLETED, "no time follows"),
    ),
    *(
        Move(event, S.RECURRING, S.RECURRING, when)
        for event, when in (
            (E.PAUSE, ""),
            (E.RESUME, ""),
            (E.REVISE, ""),
            (E.RUN_NOW, "bears one task, and waits on"),
        )
    ),
    *_rows(E.CANCEL, [*in_order(WAITING), S.RECURRING], S.CANCELLED),
    *_rows(E.CANCEL, [S.ACTIVE], (S.CANCELLED, "forced")),
    *_rows(E.EXPIRE, in_order(WAITING), S.EXPIRED),
    *_rows(E.EXPIRE, [S.ACTIVE], (S.EXPIRED, "deadline_covers=task"), cancel=False),
    *_rows(E.EVICT, [S.PENDING], (S.CANCELLED, "queue full, discard-old")),
    *_rows(E.RUN_NOW, [S.BLOCKED, S.SCHEDULED, S.RETRY], S.PENDING),
    *_rows(E.RESCHEDULE, [S.SCHEDULED, S.RETRY, S.PENDING], S.SCHEDULED),
    *_rows(E.RESCHEDULE, [S.BLOCKED], (S.BLOCKED, "with a new start time")),
    *(Move(E.REPRIORITISE, state, state) for state in in_order(WAITING)),
    Move(E.REPRIORITISE, S.ACTIVE, S.ACTIVE, "for the next run"),
    *_rows(E.ARCHIVE, in_order(WAITING), S.FAILED),
    *_rows(E.EDIT, [S.BLOCKED, S.SCHEDULED, S.PENDING], (S.CANCELLED, "no run has begun")),
    *_rows(E.EXTEND, [S.BLOCKED], (S.BLOCKED, "a run that it waits for adds tasks")),
    # One row for each state in which a record can owe tasks.
    *(Move(E.DELIVER, state, state, "what it owes is stored") for state in BEARERS),
    *_rows(
        E.RERUN,
        in_order(TERMINAL),
        (S.PENDING, "otherwise"),
        (S.SCHEDULED, "start time ahead"),
        (S.BLOCKED, "with its dependencies"),
    ),
    *_rows(
        E.RERUN,
        [S.BLOCKED],
        (S.PENDING, "blocked tasks are asked for"),
        (S.SCHEDULED, "blocked tasks are asked for, start time ahead"),
    ),
    *_rows(E.RERUN, [S.COMPLETED, S.CANCELLED], (S.RECURRING, "it is a schedule")),
    *_rows(E.DELETE, [*in_order(TERMINAL), S.UNKNOWN], None),
    *_rows(E.SET_ASIDE, _ANY, (S.UNKNOWN, "the record does not decode")),
)


def _targets() -> dict[tuple[Event, State | None, bool], frozenset[State | None]]:
    found: dict[tuple[Event, State | None, bool], set[State | None]] = {}
    for move in MOVES:
        flags = (False, True) if move.source is S.ACTIVE else (False,)
        for flag in flags:
            if move.cancel is None or move.cancel is flag:
                found.setdefault((move.event, move.source, flag), set()).add(move.target)
    return {key: frozenset(targets) for key, targets in found.items()}


TARGETS = _targets()
"""(event, source, cancel requested) to the targets it may have; a missing key is a refused move."""


def sources(*events: Event) -> frozenset[State]:
    """The states that one of the events leads out of, or changes the record in."""
    return frozenset(m.source for m in MOVES if m.event in events and m.source is not None)


ONLY_CANCELLED = frozenset({S.CANCELLED})

# Which fields of `Status` a move may set. `revision`, `events` and `reason` change with each.

FIELDS_ON_ENTRY: dict[State | None, frozenset[str]] = {
    S.BLOCKED: frozenset(),
    S.SCHEDULED: frozenset({"run_at"}),
    S.PENDING: frozenset({"submitted_at", "order", "runs", "runs_dropped", "run_at"}),
    S.ACTIVE: frozenset(
        {"started_at", "retried_at", "heartbeat_at", "runs", "run", "worker", "fence"}
    ),
    S.RETRY: frozenset({"run_at"}),
    S.RECURRING: frozenset({"schedule"}),
    **{state: frozenset({"finished_at"}) for state in TERMINAL},
    S.UNKNOWN: frozenset(),
    None: frozenset(),
}
"""Set when a move enters the state."""

ENDS_AS_RUN = frozenset({S.BLOCKED, S.SCHEDULED, S.RETRY})
"""States in which a task has no run in hand nor one that may be claimed: where its policy says so,
an end that is entered from there gets a run of its own (docs/rulings.md, R42). Not `unreachable`,
which is no end to the one system that counts so."""

FIELDS_ON_LEAVING: dict[State | None, frozenset[str]] = {
    S.PENDING: frozenset({"runs"}),
    S.ACTIVE: frozenset(
        {
            "runs",
            "run",
            "worker",
            "heartbeat_at",
            "progress",
            "progress_message",
            "tries",
            "last_error",
        }
    ),
    **{
        state: frozenset(
            {
                "finished_at",
                "progress",
                "progress_message",
                "tries",
                "rerun_by_hand",
                "deadline",
                "expires_at",
                "cancel_requested_at",
                "run_at",
            }
        )
        for state in TERMINAL
    },
}
"""Set when a move leaves the state. Leaving a terminal state is a rerun."""

FIELDS_ON_EVENT: dict[Event, frozenset[str]] = {
    E.SUBMIT: frozenset(
        {"created_at", "priority", "order", "run_at", "deadline", "expires_at", "last_error"}
    ),
    E.REQUEST_CANCEL: frozenset({"cancel_requested_at"}),
    E.RESCHEDULE: frozenset({"run_at"}),
    E.REPRIORITISE: frozenset({"priority"}),
    E.EDIT: frozenset({"successor", "owed"}),
    E.CANCEL: frozenset({"successor", "owes"}),
    E.COMPLETE: frozenset({"owes"}),
    E.RECUR: frozenset({"schedule", "owes"}),
    **{event: frozenset({"schedule"}) for event in (E.PAUSE, E.RESUME, E.REVISE)},
    E.EXTEND: frozenset({"added"}),
    E.DELIVER: frozenset({"owed", "owes"}),
    E.RERUN: frozenset({"rerun_by_hand", "deadline", "expires_at", "run_at"}),
    E.UNREACH: frozenset({"last_error"}),
    E.RUN_NOW: frozenset({"run_at", "rerun_by_hand", "schedule", "owes"}),
    E.CLAIM: frozenset({"policy"}),
}
"""Set by the event, whatever the states."""


def fields_set(move: Move) -> frozenset[str]:
    """The fields of `Status` that a move may set, beyond revision, reason and events."""
    if move.target is None or move.target is S.UNKNOWN:
        return frozenset()
    entered = FIELDS_ON_ENTRY[move.target] if move.source is not move.target else frozenset[str]()
    left = (
        FIELDS_ON_LEAVING.get(move.source, frozenset())
        if move.source is not move.target
        else frozenset[str]()
    )
    if move.source in ENDS_AS_RUN and move.target in TERMINAL - {S.UNREACHABLE}:
        entered |= {"runs", "runs_dropped"}
    return entered | left | FIELDS_ON_EVENT.get(move.event, frozenset())
