"""Why a failed task was not tried again, in a sentence."""

from collections.abc import Mapping
from typing import Any

import pytest

from andon.lifecycle import commands as c
from andon.lifecycle.explaining import not_retried
from andon.lifecycle.profiles import profile
from andon.model.task import TaskError
from andon.model.words import Reason
from lifecycle.lives import Life

ERROR = TaskError(message="bad", code="ValueError", type="ValueError")


def ended(command: c.Command, policy: Mapping[str, Any] | None = None) -> str:
    life = Life(profile("native"), policy=policy).claim().do(command)
    return not_retried(life.task)


@pytest.mark.parametrize(
    ("policy", "retryable", "sentence"),
    [
        ({"max_retries": 0}, None, "max_retries is 0."),
        ({"no_retry_on": ("ValueError",)}, None, "ValueError is in no_retry_on."),
        (
            {"retry_on": ("NETWORK_ERROR", "OSError")},
            None,
            "ValueError is not in retry_on (NETWORK_ERROR, OSError).",
        ),
        (
            {"retry_unlisted": False},
            None,
            "Only errors that are expected are retried, and ValueError is in no retry_on.",
        ),
        (
            {},
            False,
            "ValueError is not in the retry_on of the task's code, or is in its no_retry_on.",
        ),
    ],
)
def test_an_error_that_the_rules_do_not_retry(
    policy: dict[str, Any], retryable: bool | None, sentence: str
):
    assert ended(c.Fail(error=ERROR, retryable=retryable), policy) == sentence


def test_a_budget_that_is_spent():
    life = Life(profile("native"), policy={"max_retries": 1, "retry_delay": None})
    life.claim().do(c.Fail(error=ERROR)).claim().do(c.Fail(error=ERROR))
    assert not_retried(life.task) == "All its tries are used: max_retries is 1."


@pytest.mark.parametrize(
    ("command", "policy", "part"),
    [
        (c.Terminate(error=ERROR), {}, "gave the task up"),
        (c.Reject(error=ERROR), {}, "arguments do not fit"),
        (c.Reject(error=ERROR, reason=Reason.RESULT_INVALID), {}, "result cannot be kept"),
        (c.UnknownTask(), {"on_unknown": "drop"}, "code for it"),
        (c.Stop(), {}, "on_shutdown=stop"),
        (c.Lose(), {"on_lost": "stall"}, "on_lost=stall"),
        (c.Silence(), {}, "on_silence=stall"),
    ],
)
def test_other_ends(command: c.Command, policy: dict[str, Any], part: str):
    assert part in ended(command, policy)


def test_what_has_not_failed_needs_no_reason():
    assert not_retried(Life(profile("native")).task) == ""
    assert ended(c.Complete()) == ""
    assert ended(c.Fail(error=ERROR)) == ""
