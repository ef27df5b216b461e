"""Runs, fences, budgets, reruns and cancels, as ruled in docs/rulings.md, R2, R3, R7, R10, R11,
R15, R20, R21."""

import pytest

from andon.lifecycle import commands as c
from andon.lifecycle.apply import kept_for, next_fence
from andon.lifecycle.decide import UNKNOWN_TASK_DELAY_MS
from andon.model.errors import InvalidTransition
from andon.model.policy import Retention
from andon.model.task import (
    MAX_EVENTS_KEPT,
    MAX_RUNS_KEPT,
    Definition,
    Status,
    Task,
    TaskError,
)
from andon.model.words import Event, Reason, State

from .examples import ERROR, NOW, after, claimed, decided, in_state, renewed, submitted

AT_ONCE = {"retry_delay": None}
FAIL = c.Fail(error=ERROR)


def failed_times(times: int, **policy: object) -> Task:
    task = submitted(policy={**AT_ONCE, **policy})
    for _ in range(times):
        task = after(claimed(task), FAIL)
    return task


# --- runs (docs/rulings.md, R2) and fences (docs/rulings.md, R3) ---


@pytest.mark.parametrize("state", [State.BLOCKED, State.SCHEDULED, State.UNREACHABLE])
def test_a_task_that_was_never_pending_has_no_runs(state: State) -> None:
    assert in_state(state).status.runs == ()


def test_every_move_into_pending_opens_a_run() -> None:
    task = after(in_state(State.SCHEDULED), c.Due())
    (run,) = task.status.runs
    assert (run.number, run.created_reason, run.id) == (0, Reason.START_TIME, "")
    task = after(claimed(task), c.Release())
    assert [r.number for r in task.status.runs] == [0, 1]


def test_a_pending_run_that_is_cancelled_is_resolved_without_a_worker() -> None:
    task = after(submitted(), c.Cancel())
    (run,) = task.status.runs
    assert (run.worker, run.resolved_event, run.resolved_at) == ("", Event.CANCEL, NOW)
    again = after(task, c.Rerun())
    assert [r.number for r in again.status.runs] == [0, 1]


NUMBERED = {"ends_as_run": True}


@pytest.mark.parametrize("state", [State.BLOCKED, State.SCHEDULED, State.RETRY])
@pytest.mark.parametrize(
    "end", [c.Cancel(), c.Expire(), c.Archive()], ids=lambda command: command.event
)
def test_an_end_that_needs_no_run_has_one_where_the_policy_says_so(
    state: State, end: c.Command
) -> None:
    before = in_state(state, policy=NUMBERED)
    task = after(before, end, now=NOW + 5)
    number = len(before.status.runs)
    run = task.status.runs[-1]
    assert (run.number, len(task.status.runs)) == (number, number + 1)
    assert (run.id, run.worker, run.claimed_at) == ("", "", None)
    assert (run.scheduled_at, run.resolved_at, run.resolved_event) == (NOW + 5, NOW + 5, end.event)
    assert run.created_reason is run.resolved_reason is task.status.reason
    assert task.status.events[-1].run == number
    again = after(task, c.Rerun())
    assert again.status.runs[-1].number == number + 1, "no number is used twice"
    assert task.status.tries == before.status.tries


def test_an_end_that_needs_no_run_has_none_by_default() -> None:
    assert after(in_state(State.BLOCKED), c.Cancel()).status.runs == ()


def test_an_unreachable_task_has_no_run_whatever_its_policy_says() -> None:
    assert in_state(State.UNREACHABLE, policy=NUMBERED).status.runs == ()


def test_a_blocked_task_is_rerun_only_where_that_is_asked_for() -> None:
    task = in_state(State.BLOCKED)
    with pytest.raises(InvalidTransition, match="schedule it, or run it now"):
        decided(task, c.Rerun())
    released = after(task, c.Rerun(blocked=True, waits=True))
    (run,) = released.status.runs
    assert (released.state, run.number, run.created_reason) == (State.PENDING, 0, Reason.RERUN)
    assert released.status.rerun_by_hand
    later = after(task, c.Rerun(blocked=True, run_at=NOW + 9))
    assert (later.state, later.status.run_at) == (State.SCHEDULED, NOW + 9)


@pytest.mark.parametrize("waits", [False, True])
def test_a_task_that_has_had_all_its_runs_is_not_rerun(*, waits: bool) -> None:
    task = submitted(policy={"max_runs": 2, "max_retries": 0})
    task = after(after(claimed(task), FAIL), c.Rerun())
    task = after(claimed(task), FAIL)
    with pytest.raises(InvalidTransition, match=r"It has had 2 runs.*max_runs"):
        decided(task, c.Rerun(waits=waits))


def test_a_task_that_has_had_all_its_runs_is_not_retried() -> None:
    task = failed_times(3, max_retries=9, max_runs=4)
    assert task.state is State.PENDING
    assert after(claimed(task), FAIL).state is State.FAILED


def test_without_a_bound_a_task_is_rerun_and_retried_on_and_on() -> None:
    task = failed_times(60, max_retries=1_000)
    assert (task.state, task.status.runs[-1].number) == (State.PENDING, 60)
    assert after(after(task, c.Cancel()), c.Rerun()).state is State.PENDING


def test_a_run_given_back_untried_is_handed_out_again_beyond_the_bound() -> None:
    task = after(claimed(submitted(policy={"max_runs": 1})), c.Release())
    assert (task.state, task.status.runs[-1].number) == (State.PENDING, 1)


def test_a_pending_task_that_is_put_off_closes_its_run() -> None:
    task = after(submitted(), c.Reschedule(run_at=NOW + 60_000))
    assert task.status.runs[0].resolved_reason is Reason.RESCHEDULED
    assert [r.number for r in after(task, c.Due()).status.runs] == [0, 1]


def test_a_move_is_never_dated_before_the_one_that_it_follows() -> None:
    task = after(claimed(submitted()), c.RequestCancel(), now=NOW - 5)
    assert task.status.events[-1].at == task.status.cancel_requested_at == NOW


def test_the_run_in_hand_is_resolved_with_what_became_of_it() -> None:
    task = after(claimed(submitted(policy=AT_ONCE)), FAIL, now=NOW + 5)
    done = task.status.runs[0]
    assert (done.worker, done.claimed_at, done.resolved_at) == ("w", NOW, NOW + 5)
    assert (done.resolved_reason, done.resolved_event, done.error) == (
        Reason.ERROR,
        Event.FAIL,
        ERROR,
    )
    assert (task.status.run, task.status.worker) == ("", "")


def test_the_fence_grows_with_every_run_and_with_time() -> None:
    first = claimed(submitted())
    second = claimed(after(first, c.Release()))
    assert first.status.fence == NOW
    assert second.status.fence == NOW + 1
    assert next_fence(5, 100) == 100
    assert next_fence(100, 5) == 101


def test_the_first_claim_and_the_later_ones_are_told_apart() -> None:
    first = claimed(submitted())
    second = claimed(after(first, c.Release()), now=NOW + 9)
    assert (first.status.started_at, first.status.retried_at) == (NOW, None)
    assert (second.status.started_at, second.status.retried_at) == (NOW, NOW + 9)


def test_a_record_keeps_its_newest_runs_and_events_and_counts_the_rest() -> None:
    task = submitted()
    for _ in range(MAX_RUNS_KEPT + 10):
        task = after(claimed(task), c.Release())
    assert len(task.status.runs) == MAX_RUNS_KEPT
    assert task.status.runs_dropped == 11
    assert task.status.runs[-1].number == MAX_RUNS_KEPT + 10
    assert len(task.status.events) == MAX_EVENTS_KEPT
    assert task.status.events[-1].revision == task.status.revision


# --- tries and the budget ---


def test_a_budget_of_n_retries_allows_n_plus_one_runs() -> None:
    task = failed_times(3, max_retries=3)
    assert (task.state, task.status.tries) == (State.PENDING, 3)
    last = after(claimed(task), FAIL)
    assert (last.state, last.status.reason) == (State.FAILED, Reason.RETRIES_EXHAUSTED)
    assert (last.status.tries, last.status.last_error) == (4, ERROR)


def test_a_task_that_is_never_retried_fails_with_its_error() -> None:
    task = after(claimed(submitted(policy={"max_retries": 0})), FAIL)
    assert (task.state, task.status.reason) == (State.FAILED, Reason.ERROR)


@pytest.mark.parametrize("command", [c.Snooze(delay=1), c.Release()])
def test_snooze_and_release_cost_no_try(command: c.Command) -> None:
    task = after(claimed(submitted(policy={"max_retries": 0})), command)
    assert task.status.tries == 0


def test_a_delay_goes_through_retry_also_when_it_is_zero() -> None:
    task = after(claimed(submitted(policy={"retry_delay": 0.0})), FAIL)
    assert (task.state, task.status.run_at) == (State.RETRY, NOW)


def test_the_workers_own_delay_and_decision_count() -> None:
    task = claimed(submitted(policy=AT_ONCE))
    assert after(task, c.Fail(error=ERROR, delay=7_000)).status.run_at == NOW + 7_000
    given_up = after(task, c.Fail(error=ERROR, retryable=False))
    assert (given_up.state, given_up.status.reason) == (State.FAILED, Reason.ERROR)


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ({"no_retry_on": ("Boom",)}, State.FAILED),
        ({"no_retry_on": ("app.errors.Boom",)}, State.FAILED),
        ({"retry_on": ("Boom",)}, State.RETRY),
        ({"retry_on": ("Other",)}, State.FAILED),
        ({"retry_on": ("Boom",), "no_retry_on": ("Boom",)}, State.FAILED),
        ({"retry_unlisted": False}, State.FAILED),
        ({"retry_unlisted": False, "retry_on": ("Boom",)}, State.RETRY),
    ],
)
def test_lists_of_errors_decide_what_is_retried(policy: dict[str, object], state: State) -> None:
    assert after(claimed(submitted(policy=policy)), FAIL).state is state


def test_a_timeout_counts_as_expected_unless_it_is_named() -> None:
    timeout = c.Fail(error=TaskError(message="late", code="TIMEOUT"), reason=Reason.TIMEOUT)
    task = claimed(submitted(policy={"retry_unlisted": False}))
    assert after(task, timeout).state is State.RETRY
    task = claimed(submitted(policy={"no_retry_on": ("TIMEOUT",)}))
    assert after(task, timeout).state is State.FAILED


# --- cancel (docs/rulings.md, R7) ---


def test_a_cancel_request_leaves_the_run_in_hand() -> None:
    task = in_state(State.ACTIVE, asked=True)
    assert (task.state, task.status.cancel_requested_at) == (State.ACTIVE, NOW)
    assert task.status.run
    with pytest.raises(InvalidTransition):
        decided(task, c.RequestCancel())


def test_a_run_that_completes_after_the_request_has_completed() -> None:
    assert after(in_state(State.ACTIVE, asked=True), c.Complete()).state is State.COMPLETED


@pytest.mark.parametrize(
    "command",
    [FAIL, c.Lose(), c.Silence(), c.Snooze(delay=1), c.Release(), c.Stop(), c.ShutdownRetry()],
    ids=lambda command: command.event,
)
def test_after_the_request_everything_else_ends_in_cancelled(command: c.Command) -> None:
    task = after(in_state(State.ACTIVE, asked=True, policy=AT_ONCE), command)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    assert task.status.finished_at == NOW


def test_the_record_says_how_the_handler_was_stopped() -> None:
    task = in_state(State.ACTIVE, asked=True)
    ended = after(task, c.Interrupted(reason=Reason.HANDLER_ABANDONED))
    assert ended.status.reason is Reason.HANDLER_ABANDONED


def test_an_active_task_is_cancelled_only_by_force() -> None:
    task = in_state(State.ACTIVE)
    with pytest.raises(InvalidTransition, match="force"):
        decided(task, c.Cancel())
    assert after(task, c.Cancel(force=True)).status.reason is Reason.CANCEL_FORCED


def test_a_run_that_was_not_asked_cannot_say_it_was_interrupted() -> None:
    with pytest.raises(InvalidTransition):
        decided(in_state(State.ACTIVE), c.Interrupted())


# --- lost and silent (docs/rulings.md, R10), shutdown (docs/rulings.md, R11) ---


def test_a_lost_run_is_retried_and_counts() -> None:
    task = after(in_state(State.ACTIVE, policy=AT_ONCE), c.Lose())
    assert (task.state, task.status.tries) == (State.PENDING, 1)
    assert task.status.runs[0].resolved_reason is Reason.LEASE_EXPIRED


def test_a_silent_run_stalls() -> None:
    task = after(in_state(State.ACTIVE), c.Silence())
    assert (task.state, task.status.reason) == (State.STALLED, Reason.HEARTBEAT_TIMEOUT)


def test_policy_may_turn_both_around() -> None:
    policy = {**AT_ONCE, "on_lost": "stall", "on_silence": "retry"}
    active = in_state(State.ACTIVE, policy=policy)
    assert after(active, c.Lose()).state is State.STALLED
    assert after(active, c.Silence()).state is State.PENDING


def test_a_lost_run_stalls_when_no_try_is_left() -> None:
    task = after(in_state(State.ACTIVE, policy={"max_retries": 0}), c.Lose())
    assert (task.state, task.status.reason) == (State.STALLED, Reason.LEASE_EXPIRED)


def test_shutdown_stops_resubmits_or_retries() -> None:
    active = in_state(State.ACTIVE, policy={**AT_ONCE, "max_retries": 1})
    stopped = after(active, c.Stop())
    assert (stopped.state, stopped.status.reason) == (State.STALLED, Reason.WORKER_SHUTDOWN)
    released = after(active, c.Release(), now=NOW + 9)
    assert (released.state, released.status.tries) == (State.PENDING, 0)
    assert released.status.order == active.status.order
    retried = after(active, c.ShutdownRetry(), now=NOW + 9)
    assert (retried.state, retried.status.tries, retried.status.order) == (
        State.PENDING,
        1,
        NOW + 9,
    )
    assert after(claimed(retried), c.ShutdownRetry()).state is State.STALLED


# --- progress (docs/rulings.md, R15) ---


def test_completion_sets_all_progress_and_failure_keeps_the_last() -> None:
    task = renewed(claimed(submitted()), progress=40, message="half")
    assert after(task, c.Complete()).status.progress == 100
    failed = after(task, c.Terminate(error=ERROR))
    assert (failed.status.progress, failed.status.progress_message) == (40, "half")


@pytest.mark.parametrize("command", [FAIL, c.Snooze(delay=1), c.Release(), c.Lose()])
def test_a_run_to_come_begins_without_progress(command: c.Command) -> None:
    task = renewed(claimed(submitted()), progress=40, message="half")
    status = after(task, command).status
    assert (status.progress, status.progress_message) == (0, "")


# --- rerun (docs/rulings.md, R20) ---


@pytest.mark.parametrize(
    "state", [State.COMPLETED, State.FAILED, State.CANCELLED, State.STALLED, State.UNREACHABLE]
)
def test_a_rerun_begins_anew(state: State) -> None:
    ended = in_state(state)
    task = after(ended, c.Rerun(), now=NOW + 9)
    status = task.status
    assert (task.state, status.tries, status.rerun_by_hand) == (State.PENDING, 0, True)
    assert (status.finished_at, status.progress, task.result) == (None, 0, None)
    assert (status.cancel_requested_at, status.order) == (None, NOW + 9)
    assert status.last_error == ended.status.last_error
    assert status.created_at == ended.status.created_at
    assert status.runs[-1].created_reason is Reason.RERUN


def test_a_rerun_that_keeps_the_budget_gives_exactly_one_more_run_when_it_is_spent() -> None:
    ended = after(claimed(failed_times(2, max_retries=2)), FAIL)
    again = after(ended, c.Rerun(keep_budget=True))
    assert (again.state, again.status.tries) == (State.PENDING, 3)
    assert after(claimed(again), FAIL).state is State.FAILED
    anew = after(ended, c.Rerun())
    assert after(claimed(anew), FAIL).state is State.PENDING


def test_a_rerun_may_be_put_off() -> None:
    task = after(in_state(State.FAILED), c.Rerun(run_at=NOW + 60_000))
    assert (task.state, task.status.run_at) == (State.SCHEDULED, NOW + 60_000)


def test_a_rerun_after_the_deadline_needs_a_new_one() -> None:
    ended = after(submitted(deadline=NOW + 1_000), c.Expire(), now=NOW + 1_000)
    with pytest.raises(InvalidTransition, match="deadline has passed"):
        decided(ended, c.Rerun(), now=NOW + 2_000)
    again = after(ended, c.Rerun(deadline=NOW + 9_000), now=NOW + 2_000)
    assert again.status.deadline == NOW + 9_000


@pytest.mark.parametrize("state", [State.ACTIVE, State.PENDING, State.RETRY, State.BLOCKED])
def test_what_has_not_ended_is_not_rerun(state: State) -> None:
    with pytest.raises(InvalidTransition):
        decided(in_state(state), c.Rerun())


# --- discard and keeping (docs/rulings.md, R21) ---


def test_an_end_that_is_not_kept_is_discarded_after_its_event() -> None:
    task = claimed(submitted(policy={"discard_states": ("completed",)}))
    moved = decided(task, c.Complete(result=b"7"))
    assert moved.discard is not None
    assert moved.status is not None
    assert moved.discard.revision == moved.status.revision + 1
    assert (moved.discard.event, moved.discard.source, moved.discard.target) == (
        Event.DELETE,
        State.COMPLETED,
        None,
    )
    assert (moved.discard.reason, moved.discard.result) == (Reason.DISCARDED, b"7")
    assert decided(task, c.Cancel(force=True)).discard is None


def test_a_retention_of_nothing_discards() -> None:
    policy = {"retention": Retention(completed=0)}
    assert decided(claimed(submitted(policy=policy)), c.Complete()).discard is not None


def test_what_is_still_to_run_is_not_discarded() -> None:
    task = claimed(submitted(policy={**AT_ONCE, "discard_states": ("failed",)}))
    assert decided(task, FAIL).discard is None


def test_states_without_a_row_are_kept_as_failed_is_and_dead_letters_by_their_own() -> None:
    policy = {"retention": Retention(completed=1, failed=2), "dead_letter_retention": 3.0}
    kept = {
        state: kept_for(task, task.status)
        for state in (State.COMPLETED, State.CANCELLED, State.FAILED, State.STALLED)
        for task in [in_state(state, policy=policy)]
    }
    assert kept == {
        State.COMPLETED: 1_000,
        State.CANCELLED: 2_000,
        State.FAILED: 3_000,
        State.STALLED: 3_000,
    }
    plain = in_state(State.STALLED, policy={**policy, "dead_letter": "none"})
    assert kept_for(plain, plain.status) == 2_000


def test_records_are_equal_or_not_by_their_parts_wherever_they_are_kept() -> None:
    def record(revision: int, ref: int) -> Task:
        status = Status(state=State.PENDING, created_at=1, revision=revision)
        return Task(definition=Definition(id="a", name="job"), status=status, ref=ref)

    same, other = (record(1, 1), record(1, 2)), record(2, 1)
    assert (same[0] == same[1], same[0] != same[1]) == (True, False)
    assert (same[0] == other, same[0] != other) == (False, True)


# --- a task that a worker has no code for ---


def test_a_task_that_waits_for_code_is_offered_again_and_costs_no_try() -> None:
    active = in_state(State.ACTIVE, policy={"max_retries": 0})
    waiting = after(active, c.UnknownTask())
    status = waiting.status
    assert (status.state, status.reason) == (State.SCHEDULED, Reason.UNKNOWN_TASK)
    assert (status.tries, status.run_at) == (0, NOW + UNKNOWN_TASK_DELAY_MS)
    assert status.runs[-1].resolved_reason is Reason.UNKNOWN_TASK
    assert status.last_error is not None
    assert status.last_error.code == "unknown-task"
    assert after(waiting, c.Due()).state is State.PENDING


@pytest.mark.parametrize(
    ("on_unknown", "state", "tries"),
    [("retry", State.RETRY, 1), ("drop", State.DROPPED, 1), ("fail", State.FAILED, 1)],
)
def test_a_task_whose_policy_says_otherwise_does_not_wait_for_code(
    on_unknown: str, state: State, tries: int
) -> None:
    task = after(in_state(State.ACTIVE, policy={"on_unknown": on_unknown}), c.UnknownTask())
    assert (task.state, task.status.tries) == (state, tries)
