"""Policies are resolved from their layers, and refused where they cannot be."""

from typing import Any

import pytest

from andon.lifecycle.policies import check_options, resolve
from andon.model.errors import InvalidSubmission
from andon.model.policy import Backoff, Policy


def test_no_layers_give_the_defaults() -> None:
    assert resolve() == resolve({}, {}) == Policy()


def test_the_later_layer_wins_option_by_option() -> None:
    policy = resolve({"max_retries": 1, "timeout": 5.0}, {"max_retries": 2}, {"backoff": "linear"})
    assert (policy.max_retries, policy.timeout, policy.backoff) == (2, 5.0, Backoff.LINEAR)


def test_none_is_a_value_and_not_left_out() -> None:
    assert resolve({"retry_delay": 5.0}, {"retry_delay": None}).retry_delay is None


def test_a_retention_is_merged_state_by_state() -> None:
    policy = resolve({"retention": {"completed": 1.0, "failed": 2.0}}, {"retention": {"failed": 3}})
    assert (policy.retention.completed, policy.retention.failed) == (1.0, 3.0)


def test_one_number_of_retention_is_for_every_end() -> None:
    policy = resolve({"retention": {"completed": 1.0}}, {"retention": 7.0})
    assert {policy.retention.of(s) for s in ("completed", "failed", "stalled")} == {7.0}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_retrys": 1}, "max_retrys"),
        ({"max_retries": -1}, "max_retries"),
        ({"retry_delay": -0.1}, "retry_delay"),
        ({"timeout": float("nan")}, "timeout"),
        ({"lease": 0}, "lease"),
        ({"backoff": "cubic"}, "backoff"),
        ({"max_retries": "many"}, "max_retries"),
        ({"on_lost": "shrug"}, "on_lost"),
        ({"retention": {"pending": 1.0}}, "retention"),
        ({"retention": {"failed": -1.0}}, "retention"),
        ({"retention": -1.0}, "retention"),
        ({"dead_letter_retention": -1.0}, "dead_letter_retention"),
        ({"unique_states": ["active", "completed"]}, "unique_states"),
        ({"unique_states": ["sleeping"]}, "unique_states"),
        ({"discard_states": ["complete"]}, "discard_states"),
        ({"discard_states": ["pending"]}, "discard_states"),
        ({"discard_states": None}, "discard_states"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        resolve(options)
    assert refusal.value.field == field
    with pytest.raises(InvalidSubmission):
        check_options(options)


@pytest.mark.parametrize("options", [{"retention": "week"}, {"retention": {"failed": "week"}}])
def test_a_retention_that_is_no_number_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubmission) as refusal:
        resolve(options)
    assert refusal.value.field.startswith("retention")


def test_options_that_can_be_are_given_back_as_they_are() -> None:
    assert check_options({"max_retries": 1, "retention": 5.0}) == {
        "max_retries": 1,
        "retention": 5.0,
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_retry": 1}, "Did you mean 'max_retries'?"),
        ({"discard_states": ["complete"]}, "Did you mean 'completed'?"),
        ({"retention": {"fail": 1.0}}, "Did you mean 'failed'?"),
        ({"unique_states": ["activ"]}, "Did you mean 'active'?"),
        ({"discard_states": ["archived-for-good"]}, "There are: cancelled, completed, dropped"),
    ],
)
def test_a_slip_is_refused_with_what_may_have_been_meant(options: dict[str, Any], told: str):
    with pytest.raises(InvalidSubmission) as refusal:
        resolve(options)
    assert told in str(refusal.value)
