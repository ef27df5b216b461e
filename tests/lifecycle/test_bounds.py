"""Numbers that no record can have are refused where they come in, by name."""

import math
from typing import Any

import pytest

from andon.lifecycle.bounds import LARGEST_COUNT, check_command, check_queue
from andon.lifecycle.commands import (
    Command,
    Complete,
    Fail,
    Reprioritise,
    Rerun,
    Reschedule,
    Snooze,
)
from andon.lifecycle.policies import resolve
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.fleet import QueueConfig
from andon.model.policy import Policy
from andon.model.task import TaskError

ERROR = TaskError(message="x")
NO_NUMBERS = [math.nan, math.inf, -math.inf, -1, -0.001, 1e30, 10**400]


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (Snooze(delay=10**20), "delay"),
        (Snooze(delay=-(10**20)), "delay"),
        (Fail(error=ERROR, delay=2**63), "delay"),
        (Reschedule(run_at=2**63), "run_at"),
        (Reschedule(run_at=-1), "run_at"),
        (Rerun(run_at=253_402_300_800_000), "run_at"),
        (Rerun(deadline=10**30), "deadline"),
        (Reprioritise(priority=6), "priority"),
        (Reprioritise(priority=2**70), "priority"),
    ],
)
def test_a_command_with_what_no_record_can_have_is_refused(command: Command, field: str) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        check_command(command)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "command",
    [
        Snooze(delay=0),
        Snooze(delay=100 * 365 * 86_400_000),
        Fail(error=ERROR),
        Fail(error=ERROR, delay=1),
        Reschedule(run_at=253_402_300_799_999),
        Rerun(),
        Complete(result=b"1"),
    ],
)
def test_what_a_record_can_have_is_taken(command: Command) -> None:
    check_command(command)


@pytest.mark.parametrize("setting", ["weight", "max_size", "max_concurrent", "rate_burst"])
@pytest.mark.parametrize("value", [-1, LARGEST_COUNT + 1, 10**30])
def test_a_limit_that_no_queue_can_have_is_refused(setting: str, value: int) -> None:
    settings: dict[str, Any] = {setting: value}
    with pytest.raises(ConfigurationError, match=setting):
        check_queue(QueueConfig(name="q", **settings))


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf, 1e10])
def test_a_rate_that_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="rate_limit"):
        check_queue(QueueConfig(name="q", rate_limit=rate))


def numbers() -> list[str]:
    """Every option of a policy that is a number, or has some."""
    defaults = {name: getattr(Policy(), name) for name in Policy.__struct_fields__}
    plain = [n for n, v in defaults.items() if v is None or isinstance(v, int | float)]
    return [n for n in plain if not isinstance(defaults[n], bool)]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=str)
@pytest.mark.parametrize("option", numbers())
def test_no_policy_has_a_number_that_is_none(option: str, value: float) -> None:
    with pytest.raises(InvalidSubmission) as refused:
        resolve({option: value})
    assert refused.value.field == option


@pytest.mark.parametrize("value", NO_NUMBERS, ids=str)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_step_and_no_retention_is_such_a_number(value: float, place: int) -> None:
    steps = [1.0, 2.0, 3.0]
    steps[place] = value
    with pytest.raises(InvalidSubmission) as refused:
        resolve({"backoff": "steps", "steps": tuple(steps)})
    assert refused.value.field == "steps"
    for kept in (value, {"completed": value}, {"failed": 1.0, "expired": value}):
        with pytest.raises(InvalidSubmission) as refused:
            resolve({"retention": kept})
        assert refused.value.field == "retention"
