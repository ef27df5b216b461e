"""The one timer of a task: when it fires in each state, and what it means then."""

from typing import Any

import pytest
from msgspec.structs import replace

from andon.lifecycle import commands as c
from andon.lifecycle.fan_out import run_header
from andon.lifecycle.indexes import entry_of
from andon.lifecycle.timers import (
    VERIFY_EACH_MS,
    VERIFY_FANNED_OUT_MS,
    VERIFY_FIRST_MS,
    VERIFY_MOST_MS,
    next_timer,
    on_timer,
    rearm,
    wants_verify,
)
from andon.model.policy import Policy, Retention
from andon.model.task import Task
from andon.model.words import TERMINAL, State

from .examples import LEASE, NOW, STORED, after, claimed, in_state, renewed, submitted

GIVEN: dict[str, Any] = {"queue_timeout": 4.0, "timeout": 5.0, "unique_period": 3.0}
POLICIES = [
    Policy(**{**GIVEN, **other})
    for other in (
        {"queue_timeout": 9.0},
        {"timeout": 9.0},
        {"lease": 9.0},
        {"max_heartbeat_interval": 1.0},
        {"unique_period": 9.0},
        {"unique_states": ("blocked",)},
    )
]
"""Each with another index entry than the policy that is given."""


def fires(task: Task, at: int) -> str | None:
    """The event that the timer means at a time."""
    command = on_timer(task, at)
    return None if command is None else command.event.value


@pytest.mark.parametrize(
    ("state", "policy", "fields", "at", "event"),
    [
        (State.PENDING, {}, {}, None, None),
        (State.PENDING, {}, {"deadline": NOW + 9}, 9, "expire"),
        (State.PENDING, {"queue_timeout": 0.005}, {}, 5, "expire"),
        (State.PENDING, {"queue_timeout": 0.005}, {"deadline": NOW + 3}, 3, "expire"),
        (State.SCHEDULED, {}, {"run_at": NOW + 7}, 7, "due"),
        (State.SCHEDULED, {}, {"run_at": NOW + 7, "deadline": NOW + 6}, 6, "expire"),
        (State.RETRY, {}, {}, 5_000, "due"),
        (State.RETRY, {}, {"deadline": NOW + 4_000}, 4_000, "expire"),
        (State.BLOCKED, {}, {}, VERIFY_FIRST_MS, None),
        (State.BLOCKED, {}, {"deadline": NOW + 9}, 9, "expire"),
        (State.ACTIVE, {}, {}, LEASE, "lose"),
        (State.ACTIVE, {"max_heartbeat_interval": 2.0}, {}, 2_000, "silence"),
        (State.ACTIVE, {"timeout": 1.0, "lease": 2.0}, {}, 3_000, "fail"),
        (State.ACTIVE, {"default_timeout": 1.0, "lease": 2.0}, {}, 3_000, "fail"),
        (State.ACTIVE, {}, {"deadline": NOW + 9}, 9, "expire"),
        (State.ACTIVE, {"deadline_covers": "start"}, {"deadline": NOW + 9}, LEASE, "lose"),
        (State.COMPLETED, {"retention": Retention(completed=2.0)}, {}, 2_000, "delete"),
        (State.COMPLETED, {"retention": Retention(completed=None)}, {}, None, None),
        (State.COMPLETED, {}, {"expires_at": NOW + 8}, 8, "delete"),
        (State.CANCELLED, {"expires": 3.0}, {}, 3_000, "delete"),
        (State.FAILED, {"dead_letter_retention": None}, {}, None, None),
        (State.UNKNOWN, {}, {}, None, None),
    ],
)
def test_the_timer_of_each_state(
    state: State, policy: dict[str, Any], fields: dict[str, Any], at: int | None, event: str | None
) -> None:
    task = in_state(state, policy=policy, **fields)
    timer = next_timer(task)
    assert (None if timer is None else timer - NOW) == at
    if at is not None:
        assert fires(task, NOW + at) == event
        assert fires(task, NOW + at - 1) is None


@pytest.mark.parametrize("state", STORED)
def test_a_timer_that_is_due_means_something_or_is_set_to_later(state: State) -> None:
    policy = {"queue_timeout": 60.0, "timeout": 60.0, "max_heartbeat_interval": 60.0}
    task = in_state(state, policy=policy)
    at = next_timer(task)
    if at is not None and on_timer(task, at) is None:
        again = rearm(task, at)
        assert again is not None
        assert again > at


def test_a_renewal_moves_the_timer_and_the_old_one_means_nothing() -> None:
    task = renewed(claimed(submitted()), lease_until=NOW + 2 * LEASE)
    assert fires(task, NOW + LEASE) is None
    assert next_timer(task) == NOW + 2 * LEASE
    assert fires(task, NOW + 2 * LEASE) == "lose"


def test_silence_counts_from_the_last_heartbeat() -> None:
    task = claimed(submitted(policy={"max_heartbeat_interval": 2.0}))
    heard = renewed(task, heartbeat_at=NOW + 1_500)
    assert fires(heard, NOW + 2_000) is None
    assert fires(heard, NOW + 3_500) == "silence"


def test_a_run_that_was_asked_to_stop_is_not_expired_but_lost_in_the_end() -> None:
    task = after(claimed(submitted(deadline=NOW + 9)), c.RequestCancel())
    assert fires(task, NOW + 9) is None
    assert fires(task, NOW + LEASE) == "lose"


def test_the_default_timeout_is_for_tasks_without_a_deadline() -> None:
    policy = {"default_timeout": 1.0, "lease": 1.0}
    task = claimed(submitted(policy=policy, deadline=NOW + 50_000))
    assert next_timer(task) == NOW + LEASE


def test_the_queue_timeout_counts_from_each_entry() -> None:
    task = submitted(policy={"queue_timeout": 5.0})
    again = after(claimed(task), c.Release(), now=NOW + 4_000)
    assert next_timer(again) == NOW + 9_000


def test_a_blocked_task_asks_again_less_and_less_often() -> None:
    task = in_state(State.BLOCKED)
    now, waits = NOW + VERIFY_FIRST_MS, list[int]()
    for _ in range(20):
        assert wants_verify(task, now)
        at = rearm(task, now)
        assert at is not None
        waits.append(at - now)
        now = at
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (VERIFY_FIRST_MS, VERIFY_MOST_MS)


def test_a_blocked_task_with_many_dependencies_asks_later() -> None:
    task = in_state(State.BLOCKED, dependencies=tuple(f"d{n}" for n in range(9_000)))
    asks = NOW + 9_000 * VERIFY_EACH_MS
    assert next_timer(task) == asks
    assert rearm(task, asks) == asks + 9_000 * VERIFY_EACH_MS


def test_a_task_that_a_run_fanned_out_asks_later() -> None:
    task = in_state(State.BLOCKED, headers=run_header("scan", "its-run"))
    asks = NOW + VERIFY_FANNED_OUT_MS
    assert next_timer(task) == asks
    assert rearm(task, asks) == asks + VERIFY_FANNED_OUT_MS


def test_a_blocked_task_still_expires_while_it_asks() -> None:
    task = in_state(State.BLOCKED, deadline=NOW + 3_000)
    assert rearm(task, NOW + 2_000) == NOW + 3_000
    assert not wants_verify(task, NOW + 3_000)


@pytest.mark.parametrize("state", [s for s in STORED if s is not State.RECURRING])
def test_the_index_holds_what_the_record_says(state: State) -> None:
    task = in_state(state, unique_key="u", key="k", group="g")
    entry = entry_of(task)
    assert (entry.state, entry.timer, entry.key, entry.group) == (
        state,
        next_timer(task),
        "k",
        "g",
    )
    assert (entry.ready is not None) is (state is State.PENDING)
    assert (entry.unique_key == "u") is (state not in TERMINAL and state is not State.UNKNOWN)
    assert (entry.remaining > 0) is (state is State.BLOCKED)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        *(("definition", {field: "other"}) for field in ("queue", "name", "key", "group")),
        ("definition", {"unique_key": "other"}),
        *(("definition", {"policy": policy}) for policy in POLICIES),
        *(("status", {"policy": policy}) for policy in POLICIES),
        *(
            ("status", {field: NOW + 1})
            for field in ("created_at", "submitted_at", "order", "deadline", "run_at")
        ),
        ("status", {"priority": 1}),
        ("status", {"state": State.SCHEDULED, "run_at": NOW + 1}),
    ],
)
def test_the_index_holds_what_this_record_says_whatever_the_one_before_said(
    part: str, changes: dict[str, Any]
) -> None:
    one = submitted(unique_key="u", policy=GIVEN)
    changed = replace(one, **{part: replace(getattr(one, part), **changes)})
    entry_of(submitted(priority=2, key="apart"))
    expected = entry_of(changed)
    before = entry_of(one)
    assert entry_of(changed) == expected
    assert entry_of(one) == before
    assert (expected == before) is ("run_at" in changes and "state" not in changes)


def test_the_ready_entry_tells_when_a_task_is_dead_and_when_its_run_is_first_limited() -> None:
    policy = {"timeout": 5.0, "lease": 2.0, "max_heartbeat_interval": 9.0, "queue_timeout": 4.0}
    ready = entry_of(submitted(policy=policy, priority=3)).ready
    assert ready is not None
    assert (ready.priority, ready.order, ready.dead_at, ready.first_limit) == (
        3,
        NOW,
        NOW + 4_000,
        7_000,
    )
