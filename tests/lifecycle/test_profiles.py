"""The profiles hold the defaults of the five systems, value for value."""

from typing import Any

import pytest

from andon.lifecycle.delays import retry_delay
from andon.lifecycle.faces import SCHEDULES
from andon.lifecycle.policies import resolve
from andon.lifecycle.profiles import PROFILES, profile
from andon.lifecycle.schedules import OVERLAPS
from andon.model.errors import ConfigurationError
from andon.model.policy import DAY, Backoff, Policy
from andon.model.words import TERMINAL, Event, State

NAMES = ("native", "jobbers", "asynq", "cbintel", "choria", "taskcluster")

LIVE = ("blocked", "scheduled", "pending", "active", "retry")
ARCHIVED = ("failed", "cancelled", "stalled", "dropped", "expired", "unreachable")

# One row per field, one column per profile, in the order of NAMES.
DEFAULTS: list[tuple[str, tuple[Any, ...]]] = [
    ("max_retries", (3, 3, 25, 3, 9, 5)),
    ("retry_delay", (5.0, None, 5.0, 30.0, 5.0, None)),
    (
        "backoff",
        (
            Backoff.EXPONENTIAL_JITTER,
            Backoff.EXPONENTIAL,
            Backoff.POLYNOMIAL,
            Backoff.EXPONENTIAL,
            Backoff.STEPS,
            Backoff.EXPONENTIAL_JITTER,
        ),
    ),
    ("max_retry_delay", (3600, 3600, 3650 * DAY, 3600, 3600, 3600)),
    ("retry_unlisted", (True, False, True, True, True, False)),
    ("retry_on", ((), (), (), ("TIMEOUT", "NETWORK_ERROR"), (), ())),
    ("no_retry_on", ((), (), (), ("VALIDATION_ERROR",), (), ("TIMEOUT",))),
    ("retry_internal_errors", (True, True, True, True, True, False)),
    ("timeout", (None, None, None, 3600, 3600, None)),
    ("default_timeout", (None, None, 1800, None, None, None)),
    ("queue_timeout", (None, None, None, 7200, None, None)),
    ("deadline_covers", ("task", "task", "task", "task", "start", "task")),
    ("deadline_required", (False, False, False, False, False, True)),
    ("deadline_max", (None, None, None, None, None, 5 * DAY)),
    ("expires_after_deadline", (None, None, None, None, None, 365 * DAY)),
    ("on_lost", ("retry",) * 6),
    ("unique_states", (LIVE, LIVE, (*LIVE, *ARCHIVED), LIVE, LIVE, LIVE)),
    ("on_silence", ("stall",) * 6),
    ("on_shutdown", ("resubmit", "stop", "resubmit", "resubmit", "resubmit", "retry")),
    ("shutdown_grace", (30, 0, 8, 30, 30, 30)),
    ("on_unknown", ("wait", "drop", "retry", "fail", "retry", "wait")),
    ("on_dependency_failure", ("unreachable",) * 5 + ("wait",)),
    ("on_missing_parent", ("refuse",) * 4 + ("unreachable", "refuse")),
    ("on_invalid", ("refuse", "refuse", "refuse", "record", "refuse", "refuse")),
    ("max_concurrent", (None, 1, None, None, None, None)),
    ("lease", (30, 30, 30, 30, 30, 1200)),
    ("dead_letter", ("save", "none", "save", "none", "none", "none")),
]

KEPT: list[tuple[State, tuple[float | None, ...]]] = [
    (State.COMPLETED, (DAY, 7 * DAY, 0, 7 * DAY, None, None)),
    (State.FAILED, (90 * DAY, 0, 90 * DAY, 7 * DAY, None, None)),
    (State.EXPIRED, (90 * DAY, 7 * DAY, 90 * DAY, 7 * DAY, None, None)),
    (State.UNREACHABLE, (90 * DAY, 7 * DAY, 90 * DAY, 7 * DAY, None, None)),
]


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        (name, field, value)
        for field, values in DEFAULTS
        for name, value in zip(NAMES, values, strict=True)
    ],
)
def test_a_profile_sets_the_default(name: str, field: str, value: object) -> None:
    assert getattr(resolve(profile(name).defaults), field) == value


@pytest.mark.parametrize(
    ("name", "state", "seconds"),
    [
        (name, state, seconds)
        for state, row in KEPT
        for name, seconds in zip(NAMES, row, strict=True)
    ],
)
def test_a_profile_says_how_long_an_end_is_kept(
    name: str, state: State, seconds: float | None
) -> None:
    assert resolve(profile(name).defaults).retention.of(state) == seconds


def test_the_native_profile_is_the_policy_as_it_is_declared() -> None:
    assert resolve(profile("native").defaults) == Policy()


def test_dead_letters_of_asynq_are_bounded_by_age_and_count() -> None:
    asynq = profile("asynq")
    assert asynq.dead_letter_limit == 10_000
    assert resolve(asynq.defaults).dead_letter_retention == 90 * DAY


def test_only_asynq_bounds_the_number_of_dead_letters() -> None:
    assert [p.name for p in PROFILES.values() if p.dead_letter_limit is not None] == ["asynq"]


def test_the_published_delays_of_cbintel_come_out() -> None:
    policy = resolve(profile("cbintel").defaults)
    delays = [retry_delay(policy, n, lambda: 0.5) for n in (1, 2, 3, 20)]
    assert delays == [30_000, 60_000, 120_000, 3_600_000]


def test_jobbers_retries_at_once_until_a_delay_is_set_and_then_exponentially() -> None:
    defaults = profile("jobbers").defaults
    assert retry_delay(resolve(defaults), 1, lambda: 0.5) is None
    delayed = resolve(defaults, {"retry_delay": 10})
    assert [retry_delay(delayed, n, lambda: 0.5) for n in (1, 2, 3)] == [10_000, 20_000, 40_000]


def test_the_last_delay_of_asynq_is_days_and_is_not_clamped() -> None:
    policy = resolve(profile("asynq").defaults)
    assert retry_delay(policy, 25, lambda: 0.0) == (24**4 + 15) * 1000


def test_taskcluster_retries_at_once() -> None:
    assert retry_delay(resolve(profile("taskcluster").defaults), 1, lambda: 0.5) is None


def test_an_unknown_profile_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"'celery'.*native, jobbers, asynq, cbintel"):
        profile("celery")


@pytest.mark.parametrize("name", NAMES)
def test_every_stored_state_has_a_name_that_holds_without_conditions(name: str) -> None:
    for state in State:
        if state is not State.UNSUBMITTED:
            assert profile(name).states[state][-1].when == "always", state
            assert not profile(name).states[state][-1].reasons, state


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_gives_an_end_no_name_that_a_live_task_has(name: str) -> None:
    """Who polls for an end in foreign words must not take one for the other."""
    # Taskcluster: an unreachable task never had a run, so it is unscheduled for good.
    ends = TERMINAL - ({State.UNREACHABLE} if name == "taskcluster" else set())
    states = profile(name).states
    live = {c.name for state in State if state not in TERMINAL for c in states.get(state, ())}
    live -= {c.name for c in states[State.UNKNOWN]}
    assert not live & {c.name for state in ends for c in states[state]}


@pytest.mark.parametrize("name", NAMES)
def test_the_sequences_of_a_profile_use_names_and_events_that_exist(name: str) -> None:
    found = profile(name)
    names = {choice.name for choices in found.states.values() for choice in choices}
    for row in found.moves:
        assert set(row.names) <= names
        assert row.but <= set(Event)
    assert found.born in {"", *names}


def test_the_profiles_that_have_schedules_show_them_and_name_rules_that_there_are() -> None:
    recurring = {name: one.recurs for name, one in PROFILES.items() if one.recurs is not None}
    assert recurring.keys() == SCHEDULES.keys() == {"jobbers", "asynq", "choria"}
    for recurs in recurring.values():
        assert recurs.catch_up in ("none", "latest", "all")
        assert recurs.overlaps.keys() <= set(OVERLAPS)
