"""Policies, definitions and commands for Hypothesis to choose from."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from andon.lifecycle import commands as c
from andon.model.policy import Backoff, Policy, Retention
from andon.model.recurrence import Recurrence
from andon.model.task import Definition, Schedule, TaskError
from andon.model.words import Reason

START = 1_900_000_000_000
"""When virtual time begins."""

ERROR = TaskError(message="it broke", code="Broken", type="app.Broken")
TIMEOUT = TaskError(message="too slow", code="TIMEOUT")
CHILD = Definition(id="c1", name="job", digest="d", bearer="t")

seconds = st.sampled_from([0.0, 0.001, 1.0, 7.0, 40.0, 1e9])
maybe_seconds = st.none() | seconds

policies: st.SearchStrategy[Policy] = st.builds(
    lambda kept, **fields: replace(Policy(), retention=kept, **fields),
    kept=st.builds(Retention, completed=maybe_seconds, failed=maybe_seconds),
    max_retries=st.integers(0, 3),
    max_runs=st.none() | st.integers(1, 4),
    ends_as_run=st.booleans(),
    retry_delay=maybe_seconds,
    max_retry_delay=st.sampled_from([0.0, 5.0, 3600.0]),
    backoff=st.sampled_from(list(Backoff)),
    retry_on=st.sampled_from([(), ("Broken",), ("TIMEOUT",)]),
    no_retry_on=st.sampled_from([(), (), ("Broken",)]),
    retry_unlisted=st.booleans(),
    retry_internal_errors=st.booleans(),
    timeout=st.none() | st.sampled_from([1.0, 20.0]),
    queue_timeout=st.none() | st.sampled_from([1.0, 20.0]),
    max_heartbeat_interval=st.none() | st.sampled_from([2.0, 50.0]),
    deadline_covers=st.sampled_from(["task", "start"]),
    lease=st.sampled_from([1.0, 30.0]),
    on_lost=st.sampled_from(["retry", "stall"]),
    on_silence=st.sampled_from(["retry", "stall"]),
    on_unknown=st.sampled_from(["wait", "retry", "drop", "fail"]),
    dead_letter=st.sampled_from(["save", "none"]),
    dead_letter_retention=maybe_seconds,
    discard_states=st.sampled_from([(), (), ("completed",), ("cancelled", "failed")]),
    unique_states=st.sampled_from(
        [Policy().unique_states, ("pending",), ("pending", "active", "completed"), ("failed",)]
    ),
    unique_period=st.none() | st.sampled_from([0.0, 5.0]),
    expires_after_deadline=st.none() | st.just(60.0),
)

plain_policies = st.sampled_from(
    [
        Policy(),
        replace(Policy(), max_retries=1, retry_delay=None),
        replace(Policy(), max_retries=0, retention=Retention(completed=0, failed=10)),
        replace(Policy(), queue_timeout=20.0, timeout=5.0, max_heartbeat_interval=3.0),
    ]
)
"""Policies of ordinary tasks, so that most of what is drawn goes far."""

delays = st.sampled_from([-5, 0, 1, 1_000, 30_000, 10**12])
reasons = st.sampled_from([Reason.ERROR, Reason.INTERMITTENT_TASK, Reason.INTERNAL_ERROR])


def fields(now: int) -> st.SearchStrategy[dict[str, Any]]:
    """The rest of a definition."""
    ahead = st.none() | st.sampled_from([now + 1, now + 5_000, now + 60_000])
    return st.fixed_dictionaries(
        {
            "priority": st.integers(-4, 5) | st.just(0),
            "run_at": st.none() | st.just(now - 1) | ahead,
            "deadline": st.none() | st.sampled_from([now + 90_000, now + 61_000]),
            "expires_at": st.none() | st.just(now + 200_000),
        }
    )


def reports() -> st.SearchStrategy[c.Command]:
    """What a worker says of a run."""
    return st.one_of(
        st.builds(
            c.Complete,
            result=st.sampled_from([None, b"1", b'"x"']),
            births=st.sampled_from([(), (), (CHILD,), (CHILD, replace(CHILD, id="c2"))]),
        ),
        st.builds(
            c.Fail,
            error=st.sampled_from([ERROR, TIMEOUT]),
            reason=reasons,
            retryable=st.none() | st.booleans(),
            delay=st.none() | st.sampled_from([0, 1_000, 30_000]),
        ),
        st.just(c.Fail(error=TIMEOUT, reason=Reason.TIMEOUT)),
        st.just(c.Terminate(error=ERROR)),
        st.just(c.Reject(error=ERROR)),
        st.just(c.UnknownTask()),
        st.builds(c.Snooze, delay=delays),
        st.just(c.Release()),
        st.just(c.Stop()),
        st.just(c.ShutdownRetry()),
        st.builds(
            c.Interrupted,
            reason=st.sampled_from([Reason.CANCEL_REQUESTED, Reason.HANDLER_KILLED]),
        ),
    )


def acts(now: int) -> st.SearchStrategy[c.Command]:
    """What a person or program does to a task."""
    later = st.none() | st.sampled_from([now, now + 1, now + 20_000])
    return st.one_of(
        st.just(c.RequestCancel()),
        st.builds(c.Cancel, force=st.booleans()),
        st.just(c.RunNow()),
        st.just(c.Schedule()),
        st.builds(c.Reschedule, run_at=st.sampled_from([now - 1, now + 1, now + 30_000])),
        st.builds(c.Reprioritise, priority=st.integers(-4, 5)),
        st.builds(
            c.Rerun,
            run_at=later,
            deadline=st.none() | st.just(now + 120_000),
            keep_budget=st.booleans(),
            blocked=st.booleans(),
        ),
        st.just(c.Archive()),
        st.just(c.Edit(successor="next", args=b"[2]")),
        st.just(c.Deliver()),
        st.just(c.Delete()),
    )


def rest() -> st.SearchStrategy[c.Command]:
    """What timers, dependencies and full queues do."""
    return st.one_of(
        st.just(c.Unblock()),
        st.just(c.Unreach(parent="p", parent_state="failed")),
        st.just(c.Due()),
        st.just(c.Lose()),
        st.just(c.Silence()),
        st.builds(
            c.Expire, reason=st.sampled_from([Reason.DEADLINE_EXCEEDED, Reason.QUEUE_TIMEOUT])
        ),
        st.just(c.Evict()),
    )


def schedules() -> st.SearchStrategy[Schedule]:
    """Schedules that fire within the time that passes in a course, some of them a few times."""
    return st.builds(
        Schedule,
        recurrence=st.builds(
            Recurrence,
            every=st.sampled_from([1, 30, 600]),
            count=st.sampled_from([None, 1, 3]),
            catch_up=st.sampled_from(["latest", "none", "all"]),
        ),
        template=st.just(CHILD),
        overlap=st.sampled_from(["allow", "skip", "queue", "replace"]),
        pause_after=st.sampled_from([None, 1]),
    )


def acts_on_schedules() -> st.SearchStrategy[c.Command]:
    """What may be done to a schedule; `Deliver` says that what it bore is stored."""
    return st.one_of(
        st.sampled_from(
            [c.Recur(), c.Pause(), c.Resume(), c.RunNow(), c.Deliver(), c.Cancel(), c.Rerun()]
        ),
        st.builds(c.Revise, schedule=schedules(), parts=st.sampled_from([None, {"times": ""}])),
    )


def commands(now: int) -> st.SearchStrategy[c.Command]:
    """Any command."""
    return st.one_of(reports(), acts(now), rest())
