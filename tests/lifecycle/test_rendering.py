"""Each system's names for states and moves, row for row of the rulings' tables."""

from collections.abc import Callable
from typing import Any

import pytest

from andon.lifecycle import commands as c
from andon.lifecycle.profiles import PROFILES, profile
from andon.lifecycle.rendering import history_as, move_names, native_states
from andon.model.errors import ConfigurationError
from andon.model.task import TaskError
from andon.model.words import Event, Reason, State

from .lives import MIDNIGHT, Life

HOUR = 3_600_000
ERROR = TaskError(message="no luck")
DELAYED = {"retry_delay": 10.0, "backoff": "constant", "retry_on": ("ERROR",)}
AT_ONCE = {"retry_delay": None, "backoff": "constant", "retry_on": ("ERROR",)}

Route = Callable[[Life], Life]

# How a task gets into each state; the key adds what the name may depend on.
ROUTES: dict[str, tuple[State, dict[str, Any], Route]] = {
    "blocked": (State.BLOCKED, {"dependencies": ("p",)}, lambda t: t),
    "scheduled": (State.SCHEDULED, {"run_at": MIDNIGHT + HOUR}, lambda t: t),
    "scheduled, has run": (State.SCHEDULED, {}, lambda t: t.claim().do(c.Snooze(delay=HOUR))),
    "scheduled, has a run": (
        State.SCHEDULED,
        {},
        lambda t: t.do(c.Reschedule(run_at=MIDNIGHT + HOUR)),
    ),
    "pending": (State.PENDING, {}, lambda t: t),
    "pending, has run": (State.PENDING, {}, lambda t: t.claim().do(c.Release())),
    "pending, dependencies": (
        State.PENDING,
        {"dependencies": ("p",)},
        lambda t: t.do(c.Unblock()),
    ),
    "pending, dependencies, has run": (
        State.PENDING,
        {"dependencies": ("p",)},
        lambda t: t.do(c.Unblock()).claim().do(c.Release()),
    ),
    "pending, rerun by hand": (State.PENDING, {}, lambda t: t.do(c.Cancel()).do(c.Rerun())),
    "active": (State.ACTIVE, {}, lambda t: t.claim()),
    "retry": (State.RETRY, {}, lambda t: t.claim().fail()),
    "completed": (State.COMPLETED, {}, lambda t: t.claim().do(c.Complete())),
    "failed": (State.FAILED, {}, lambda t: t.claim().do(c.Terminate(error=ERROR))),
    "failed, malformed-payload": (
        State.FAILED,
        {},
        lambda t: t.claim().do(c.Reject(error=ERROR)),
    ),
    "failed, resource-unavailable": (
        State.FAILED,
        {},
        lambda t: t.claim().do(c.Reject(error=ERROR, reason=Reason.RESOURCE_UNAVAILABLE)),
    ),
    "failed, internal-error": (
        State.FAILED,
        {},
        lambda t: t.claim().do(c.Reject(error=ERROR, reason=Reason.INTERNAL_ERROR)),
    ),
    "failed, intermittent-task at last": (
        State.FAILED,
        {"policy": {**AT_ONCE, "max_retries": 1}},
        lambda t: t.claim().fail().claim().do(c.Fail(error=ERROR, reason=Reason.INTERMITTENT_TASK)),
    ),
    "cancelled": (State.CANCELLED, {}, lambda t: t.do(c.Cancel())),
    "stalled": (State.STALLED, {}, lambda t: t.claim().do(c.Stop())),
    "dropped": (
        State.DROPPED,
        {"policy": {**DELAYED, "on_unknown": "drop"}},
        lambda t: t.claim().do(c.UnknownTask()),
    ),
    "expired": (State.EXPIRED, {}, lambda t: t.do(c.Expire())),
    "unreachable": (
        State.UNREACHABLE,
        {"dependencies": ("p",)},
        lambda t: t.do(c.Unreach(parent="p", parent_state="failed")),
    ),
}

# The table of names: native, then jobbers, asynq, cbintel, choria, taskcluster.
STATES = """
blocked                           unsubmitted scheduled PENDING    blocked     unscheduled
scheduled                         scheduled   scheduled PENDING    new         unscheduled
scheduled, has run                scheduled   scheduled QUEUED     retry       pending
scheduled, has a run              scheduled   scheduled PENDING    new         pending
pending                           submitted   pending   QUEUED     new         pending
pending, has run                  submitted   pending   QUEUED     retry       pending
pending, dependencies             submitted   pending   QUEUED     blocked     pending
pending, dependencies, has run    submitted   pending   QUEUED     retry       pending
pending, rerun by hand            submitted   pending   QUEUED     retry       pending
active                            started     active    PROCESSING active      running
retry                             scheduled   retry     QUEUED     retry       pending
completed                         completed   completed COMPLETED  completed   completed
failed                            failed      archived  FAILED     terminated  failed
failed, malformed-payload         failed      archived  FAILED     terminated  exception
failed, resource-unavailable      failed      archived  FAILED     terminated  exception
failed, internal-error            failed      archived  FAILED     terminated  exception
failed, intermittent-task at last failed      archived  FAILED     terminated  exception
cancelled                         cancelled   archived  CANCELLED  terminated  exception
stalled                           stalled     archived  FAILED     terminated  exception
dropped                           dropped     archived  FAILED     terminated  exception
expired                           failed      archived  FAILED     expired     exception
unreachable                       failed      archived  FAILED     unreachable unscheduled
"""
SYSTEMS = ("jobbers", "asynq", "cbintel", "choria", "taskcluster")


def rows() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for line in STATES.strip().splitlines():
        route, names = line[:34].strip(), line[34:].split()
        found += [(route, system, name) for system, name in zip(SYSTEMS, names, strict=True)]
    return found


def lived(system: str, route: str) -> Life:
    state, fields, steps = ROUTES[route]
    life = steps(Life(profile(system), **{"policy": DELAYED, **fields}))
    assert life.task.state is state
    return life


@pytest.mark.parametrize(("route", "system", "name"), rows())
def test_a_state_is_shown_under_the_name_of_the_system(route: str, system: str, name: str) -> None:
    assert lived(system, route).name == name


@pytest.mark.parametrize("route", ROUTES)
def test_natively_a_state_is_shown_under_its_own_name(route: str) -> None:
    assert lived("native", route).name == ROUTES[route][0]


@pytest.mark.parametrize(("route", "system", "name"), rows())
def test_a_filter_in_foreign_names_selects_the_state(route: str, system: str, name: str) -> None:
    assert ROUTES[route][0] in native_states(profile(system), name)


def test_a_filter_selects_every_state_that_can_be_shown_so() -> None:
    assert native_states(profile("cbintel"), "QUEUED") == {
        State.PENDING,
        State.SCHEDULED,
        State.RETRY,
    }
    assert native_states(profile("choria"), "retry") == {
        State.PENDING,
        State.SCHEDULED,
        State.RETRY,
    }
    assert native_states(profile("jobbers"), "unsubmitted") == {State.BLOCKED}


def test_a_filter_by_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'RUNNING'.*PENDING, QUEUED, PROCESSING"):
        native_states(profile("cbintel"), "RUNNING")


# The table of moves as shown: jobbers, asynq, cbintel, choria, taskcluster.
MOVES: list[tuple[str, Route, dict[str, Any], tuple[str, str, str, str, str]]] = [
    (
        "submit to pending",
        lambda t: t,
        {},
        ("unsubmitted submitted", "pending", "PENDING QUEUED", "new", "unscheduled pending"),
    ),
    (
        "submit to scheduled",
        lambda t: t,
        {"run_at": MIDNIGHT + HOUR},
        ("unsubmitted scheduled", "scheduled", "PENDING", "new", "unscheduled"),
    ),
    (
        "submit to blocked",
        lambda t: t,
        {"dependencies": ("p",)},
        ("unsubmitted", "scheduled", "PENDING", "blocked", "unscheduled"),
    ),
    (
        "submit to failed",
        lambda t: t,
        {"invalid": "no such field"},
        (
            "unsubmitted failed",
            "archived",
            "PENDING FAILED",
            "terminated",
            "unscheduled failed",
        ),
    ),
    (
        "unblock to pending",
        lambda t: t.do(c.Unblock()),
        {"dependencies": ("p",)},
        ("submitted", "pending", "QUEUED", "", "pending"),
    ),
    (
        "claim after unblock",
        lambda t: t.do(c.Unblock()).claim(),
        {"dependencies": ("p",)},
        ("started", "active", "PROCESSING", "active", "running"),
    ),
    (
        "first due",
        lambda t: t.do(c.Due()),
        {"run_at": MIDNIGHT + 500},
        ("submitted", "pending", "QUEUED", "", "pending"),
    ),
    (
        "retry at once",
        lambda t: t.claim().fail(),
        {"policy": AT_ONCE},
        ("unsubmitted submitted", "pending", "FAILED QUEUED", "retry", "pending"),
    ),
    (
        "release",
        lambda t: t.claim().do(c.Release()),
        {},
        ("unsubmitted submitted", "pending", "QUEUED", "retry", "pending"),
    ),
    (
        "lost, retried at once",
        lambda t: t.claim().do(c.Lose()),
        {"policy": AT_ONCE},
        ("unsubmitted submitted", "pending", "FAILED QUEUED", "retry", "pending"),
    ),
    (
        "active to retry",
        lambda t: t.claim().fail(),
        {},
        ("scheduled", "retry", "FAILED", "retry", "pending"),
    ),
    (
        "lost, retried later",
        lambda t: t.claim().do(c.Lose()),
        {},
        ("scheduled", "retry", "FAILED", "retry", "pending"),
    ),
    (
        "due, retry to pending",
        lambda t: t.claim().fail().do(c.Due(), now=t.now + HOUR),
        {},
        ("submitted", "pending", "QUEUED", "", ""),
    ),
    (
        "run-now from retry",
        lambda t: t.claim().fail().do(c.RunNow()),
        {},
        ("submitted", "pending", "QUEUED", "", ""),
    ),
    (
        "snooze",
        lambda t: t.claim().do(c.Snooze(delay=HOUR)),
        {},
        ("scheduled", "scheduled", "QUEUED", "retry", "pending"),
    ),
    (
        "due after snooze",
        lambda t: t.claim().do(c.Snooze(delay=10)).do(c.Due()),
        {},
        ("submitted", "pending", "", "", ""),
    ),
    (
        "rerun to pending",
        lambda t: t.claim().do(c.Complete()).do(c.Rerun()),
        {},
        ("submitted", "pending", "QUEUED", "retry", "pending"),
    ),
    (
        "complete",
        lambda t: t.claim().do(c.Complete()),
        {},
        ("completed", "completed", "COMPLETED", "completed", "completed"),
    ),
    (
        "cancel request",
        lambda t: t.claim().do(c.RequestCancel()),
        {},
        ("", "", "", "", ""),
    ),
    (
        "new priority",
        lambda t: t.do(c.Reprioritise(priority=2)),
        {},
        ("", "", "", "", ""),
    ),
    (
        "cancelled after the request",
        lambda t: t.claim().do(c.RequestCancel()).do(c.Interrupted()),
        {},
        ("cancelled", "archived", "CANCELLED", "terminated", "exception"),
    ),
]


@pytest.mark.parametrize(
    ("route", "fields", "system", "names"),
    [
        pytest.param(route, fields, system, names.split(), id=f"{label}-{system}")
        for label, route, fields, shown in MOVES
        for system, names in zip(SYSTEMS, shown, strict=True)
    ],
)
def test_a_move_is_shown_as_a_sequence_of_names(
    route: Route, fields: dict[str, Any], system: str, names: list[str]
) -> None:
    life = route(Life(profile(system), **{"policy": DELAYED, **fields}))
    assert life.names == names


def test_taskcluster_shows_no_exception_for_a_run_that_is_retried() -> None:
    life = Life(profile("taskcluster")).claim().do(c.Lose()).claim().do(c.Complete())
    assert life.story == ["unscheduled", "pending", "running", "pending", "running", "completed"]


def test_choria_shows_an_unblocked_task_as_blocked_until_it_is_claimed() -> None:
    life = Life(profile("choria"), dependencies=("p",)).do(c.Unblock()).claim().do(c.Complete())
    assert life.story == ["blocked", "active", "completed"]


def test_a_history_judges_each_move_by_what_had_happened_then() -> None:
    """The record has run and was rerun by now; its first moves are told as they were."""
    life = Life(profile("choria")).claim().do(c.Complete()).do(c.Rerun()).claim()
    assert life.story == ["new", "active", "completed", "retry", "active"]


@pytest.mark.parametrize("system", PROFILES)
def test_a_single_move_reads_the_same_as_in_the_whole_history(system: str) -> None:
    life = Life(profile(system), policy=DELAYED, run_at=MIDNIGHT + 500)
    alone = [shown.name for shown in life.newest]
    steps: list[Route] = [
        lambda t: t.do(c.Due()),
        lambda t: t.do(c.Reschedule(run_at=t.now + HOUR)),
        lambda t: t.do(c.RunNow()),
        lambda t: t.claim(),
        lambda t: t.do(c.Snooze(delay=0)),
        lambda t: t.do(c.Due()),
        lambda t: t.claim(),
        lambda t: t.fail(),
        lambda t: t.do(c.Due(), now=t.now + HOUR),
        lambda t: t.claim(),
        lambda t: t.do(c.Complete()),
        lambda t: t.do(c.Rerun(run_at=t.now + HOUR)),
    ]
    for step in steps:
        alone += step(life).names
    assert alone == life.story


@pytest.mark.parametrize("system", PROFILES)
def test_a_deletion_is_shown_as_nothing(system: str) -> None:
    life = Life(profile(system)).claim().do(c.Complete())
    with pytest.raises(AssertionError, match="deleted"):
        life.do(c.Delete())
    assert life.events[-1].event is Event.DELETE
    assert life.names == []


def test_a_move_can_be_read_when_the_task_is_gone() -> None:
    life = Life(profile("cbintel")).claim().fail("reset", "NETWORK_ERROR").do(c.Due())
    shown = move_names(profile("cbintel"), life.events[-1], None)
    assert [(s.name, s.attempt) for s in shown] == [("QUEUED", 2)]
    retried = Life(profile("choria")).claim().do(c.Release()).events[-1]
    assert [s.name for s in move_names(profile("choria"), retried, None)] == ["retry"]


def test_a_history_can_be_read_when_the_task_is_gone() -> None:
    life = Life(profile("choria"), dependencies=("p",)).do(c.Unblock()).claim()
    story = [entry["State"] for entry in history_as(profile("choria"), life.events, None)]
    assert story == ["blocked", "active"]
