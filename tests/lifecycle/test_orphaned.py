"""An active task whose lease is over is marked, wherever it is shown; no other is."""

import pytest

from andon.client.views import TaskView
from andon.lifecycle.leases import is_orphaned
from andon.lifecycle.profiles import profile
from andon.lifecycle.rendering import document
from andon.model.words import State

from .examples import LEASE, NOW, STORED, claimed, in_state, renewed, submitted


def test_a_run_is_orphaned_once_its_lease_is_over_and_not_when_it_was_renewed() -> None:
    task = claimed(submitted())
    assert not is_orphaned(task, NOW)
    assert not is_orphaned(task, NOW + LEASE)
    assert is_orphaned(task, NOW + LEASE + 1)
    assert not is_orphaned(renewed(task, lease_until=NOW + 2 * LEASE), NOW + LEASE + 1)


@pytest.mark.parametrize("state", [state for state in STORED if state is not State.ACTIVE])
def test_what_does_not_run_is_never_orphaned(state: State) -> None:
    assert not is_orphaned(in_state(state), NOW + 10**9)


def test_the_mark_is_in_the_view_and_in_the_json_of_those_that_have_a_word_for_it() -> None:
    task, late = claimed(submitted()), NOW + LEASE + 1
    assert TaskView.of(task, now=late).orphaned
    assert not TaskView.of(task, now=NOW).orphaned
    assert document(profile("native"), task, now=late)["orphaned"] is True
    assert document(profile("native"), task, now=NOW)["orphaned"] is False
    assert document(profile("asynq"), task, now=late)["is_orphaned"] is True
    assert "orphaned" not in document(profile("choria"), task, now=late)
    assert "orphaned" not in document(profile("native"), submitted(), now=late)
