"""A record and a history in each system's own fields; what the five pages print comes out."""

from typing import Any

import msgspec
import pytest

from andon.lifecycle import commands as c
from andon.lifecycle.profiles import PROFILES, profile
from andon.lifecycle.rendering import as_seen, history_as
from andon.model.errors import InvalidTransition
from andon.model.policy import DAY
from andon.model.task import TaskError
from andon.model.words import Reason

from .lives import MIDNIGHT, Life, at

HOUR = 3_600_000
ERROR = TaskError(message="no luck")
CBINTEL = profile("cbintel")


def seen(life: Life) -> dict[str, Any]:
    """The record as it goes out: encoded as JSON, and read again."""
    return msgspec.json.decode(msgspec.json.encode(as_seen(life.profile, life.task)))


def part(whole: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: whole[name] for name in names}


def cbintel_story() -> Life:
    """The history that cbintel's page prints, taken by real moves at the printed times.

    A start time a second ahead stands for the second that its example is PENDING.
    """
    life = Life(CBINTEL, id="job_abc123", now=at("10:30:00"), run_at=at("10:30:01"))
    life.do(c.Due(), now=at("10:30:01"))
    life.claim("worker-1", now=at("10:30:05"))
    life.fail("Connection timeout", "NETWORK_ERROR", now=at("10:31:00"))
    assert life.task.status.run_at == at("10:31:30")
    life.do(c.Due(), now=at("10:31:30"))
    life.claim("worker-2", now=at("10:32:00"))
    return life.do(c.Complete(result=b'{"pages": 50}'), now=at("10:35:00"))


def test_cbintel_history_is_the_one_its_page_prints() -> None:
    record = seen(cbintel_story())
    assert part(record, "job_id", "status", "history") == {
        "job_id": "job_abc123",
        "status": "COMPLETED",
        "history": [
            {"status": "PENDING", "timestamp": "2024-01-15T10:30:00Z"},
            {"status": "QUEUED", "timestamp": "2024-01-15T10:30:01Z"},
            {
                "status": "PROCESSING",
                "timestamp": "2024-01-15T10:30:05Z",
                "worker": "worker-1",
            },
            {
                "status": "FAILED",
                "timestamp": "2024-01-15T10:31:00Z",
                "error": "Connection timeout",
            },
            {"status": "QUEUED", "timestamp": "2024-01-15T10:31:30Z", "attempt": 2},
            {
                "status": "PROCESSING",
                "timestamp": "2024-01-15T10:32:00Z",
                "worker": "worker-2",
            },
            {"status": "COMPLETED", "timestamp": "2024-01-15T10:35:00Z"},
        ],
    }


def test_cbintel_submit_shows_pending_and_queued_at_once() -> None:
    life = Life(CBINTEL, now=at("10:30:00"))
    assert seen(life)["history"] == [
        {"status": "PENDING", "timestamp": "2024-01-15T10:30:00Z"},
        {"status": "QUEUED", "timestamp": "2024-01-15T10:30:00Z"},
    ]


def test_cbintel_completed_job_is_the_one_its_page_prints() -> None:
    life = Life(CBINTEL, id="job_abc123", now=at("10:29:00")).claim(now=at("10:30:00"))
    record = seen(life.do(c.Complete(result=b'{"pages": 50}'), now=at("10:35:00")))
    printed = {
        "job_id": "job_abc123",
        "status": "COMPLETED",
        "progress": 100,
        "started_at": "2024-01-15T10:30:00Z",
        "completed_at": "2024-01-15T10:35:00Z",
        "duration_seconds": 300,
        "result": {"pages": 50},
    }
    assert part(record, *printed) == printed
    assert "failed_at" not in record
    assert "error" not in record


def test_cbintel_failed_job_is_the_one_its_page_prints() -> None:
    life = Life(CBINTEL, id="job_abc123", now=at("10:00:00"))
    for _ in range(2):
        life.claim().fail("reset by peer", "NETWORK_ERROR").do(c.Due(), now=life.now + HOUR)
    life.now = at("10:29:00")
    life.claim(now=at("10:30:00")).progress(45)
    life.fail("Connection timeout to upstream server", "UPSTREAM", now=at("10:32:00"))
    printed = {
        "job_id": "job_abc123",
        "status": "FAILED",
        "progress": 45,
        "started_at": "2024-01-15T10:30:00Z",
        "failed_at": "2024-01-15T10:32:00Z",
        "error": "Connection timeout to upstream server",
        "attempts": 2,
        "max_retries": 3,
    }
    assert part(seen(life), *printed) == printed


def test_cbintel_cancelled_job_is_the_one_its_page_prints() -> None:
    life = Life(CBINTEL, id="job_abc123").claim().do(c.RequestCancel())
    life.do(c.Interrupted(), now=at("10:33:00"))
    printed = {
        "job_id": "job_abc123",
        "status": "CANCELLED",
        "cancelled_at": "2024-01-15T10:33:00Z",
    }
    assert part(seen(life), *printed) == printed


def test_cbintel_progress_is_the_one_its_page_prints() -> None:
    life = Life(CBINTEL, id="job_abc123").claim().progress(45, "Processing URL 23 of 50")
    printed = {
        "job_id": "job_abc123",
        "status": "PROCESSING",
        "progress": 45,
        "message": "Processing URL 23 of 50",
    }
    assert part(seen(life), *printed) == printed


def test_cbintel_attempts_count_retries_and_end_at_max_retries() -> None:
    life = Life(CBINTEL)
    attempts = [seen(life.claim())["attempts"]]
    for _ in range(3):
        life.fail("reset", "NETWORK_ERROR").do(c.Due(), now=life.now + HOUR).claim()
        attempts.append(seen(life)["attempts"])
    assert attempts == [0, 1, 2, 3]
    life.fail("reset", "NETWORK_ERROR")
    assert part(seen(life), "status", "attempts") == {"status": "FAILED", "attempts": 3}


def test_cbintel_error_of_a_timed_out_run_is_its_own_sentence() -> None:
    error = TaskError(message="The run took longer than 3600 s.", code="TIMEOUT")
    life = Life(CBINTEL, policy={"max_retries": 0}).claim()
    life.do(c.Fail(error=error, reason=Reason.TIMEOUT))
    record = seen(life)
    assert record["error"] == "Job execution timed out"
    assert record["history"][-1]["error"] == "Job execution timed out"


def test_cbintel_says_what_an_end_without_an_error_came_from() -> None:
    assert seen(Life(CBINTEL).do(c.Expire(reason=Reason.QUEUE_TIMEOUT)))["error"] == (
        "queue timeout"
    )


def test_cbintel_does_not_take_an_old_error_for_the_reason_of_another_end() -> None:
    life = Life(CBINTEL).claim().fail("reset", "NETWORK_ERROR").do(c.Expire())
    assert seen(life)["error"] == "deadline exceeded"


def test_cbintel_records_an_invalid_job_as_failed() -> None:
    record = seen(Life(CBINTEL, invalid="query is missing"))
    assert part(record, "status", "error") == {"status": "FAILED", "error": "query is missing"}
    assert [entry["status"] for entry in record["history"]] == ["PENDING", "FAILED"]
    assert "duration_seconds" not in record


def test_a_whole_history_stands_in_for_the_newest_events_of_the_record() -> None:
    life = Life(CBINTEL).claim()
    for _ in range(10):
        life.do(c.Release()).claim()
    assert len(as_seen(CBINTEL, life.task)["history"]) < len(life.events)
    whole = as_seen(CBINTEL, life.task, life.events)["history"]
    assert whole == history_as(CBINTEL, life.events, life.task)
    assert whole[0]["status"] == "PENDING"


def test_jobbers_sets_a_timestamp_per_transition() -> None:
    life = Life(profile("jobbers"), policy={"retry_on": ("ERROR",)}, args=b'{"a": 1}')
    life.claim(now=MIDNIGHT + 1000).fail(now=MIDNIGHT + 2000).claim(now=MIDNIGHT + 3000)
    running = seen(life)
    assert part(running, "status", "submitted_at", "started_at", "retried_at") == {
        "status": "started",
        "submitted_at": "2024-01-15T00:00:02.000Z",
        "started_at": "2024-01-15T00:00:01.000Z",
        "retried_at": "2024-01-15T00:00:03.000Z",
    }
    assert running["heartbeat_at"] == "2024-01-15T00:00:03.000Z"
    assert running["completed_at"] is None
    life.do(c.Complete(result=b'{"b": 2}'), now=MIDNIGHT + 4500)
    done = seen(life)
    assert part(done, "completed_at", "retry_attempt", "errors", "parameters", "results") == {
        "completed_at": "2024-01-15T00:00:04.500Z",
        "retry_attempt": 1,
        "errors": ["no luck"],
        "parameters": {"a": 1},
        "results": {"b": 2},
    }


def test_jobbers_counts_retry_attempts_at_the_decision_and_not_at_the_last_failure() -> None:
    life = Life(profile("jobbers"), policy={"retry_on": ("ERROR",), "max_retries": 2})
    counts = [seen(life.claim().fail())["retry_attempt"] for _ in range(3)]
    assert counts == [1, 2, 2]
    assert seen(life)["errors"] == ["no luck"] * 3


def test_jobbers_says_when_a_scheduled_task_is_due() -> None:
    life = Life(profile("jobbers"), run_at=MIDNIGHT + HOUR)
    assert part(seen(life), "status", "scheduled_at", "retry_attempt") == {
        "status": "scheduled",
        "scheduled_at": "2024-01-15T01:00:00.000Z",
        "retry_attempt": 0,
    }


def test_choria_task_has_the_outcomes_its_page_lists() -> None:
    life = Life(profile("choria"), name="email:new", queue="EMAIL")
    life.claim().fail("smtp down").do(c.Due(), now=MIDNIGHT + HOUR)
    life.claim(now=MIDNIGHT + HOUR + 1000).do(c.Complete(result=b'"sent"'))
    outcomes = {
        "Type": "email:new",
        "Queue": "EMAIL",
        "State": "completed",
        "CreatedAt": "2024-01-15T00:00:00.000Z",
        "LastTriedAt": "2024-01-15T01:00:01.000Z",
        "Tries": 2,
        "MaxTries": 10,
        "LastErr": "smtp down",
        "Result": {"Payload": "sent", "Completed": "2024-01-15T01:00:02.000Z"},
    }
    assert part(seen(life), *outcomes) == outcomes


def test_choria_clears_the_result_when_a_task_is_retried_by_id() -> None:
    life = Life(profile("choria")).claim().do(c.Complete(result=b"1")).do(c.Rerun())
    assert part(seen(life), "State", "Result") == {"State": "retry", "Result": None}


def test_asynq_task_has_the_fields_of_its_inspector() -> None:
    life = Life(profile("asynq"), name="email:welcome", policy={"retention": 7200})
    life.claim().fail("smtp down")
    waiting = seen(life)
    assert part(waiting, "state", "retried", "max_retry", "last_err", "timeout") == {
        "state": "retry",
        "retried": 1,
        "max_retry": 25,
        "last_err": "smtp down",
        "timeout": 1800,
    }
    assert waiting["last_failed_at"] == "2024-01-15T00:00:02.000Z"
    assert waiting["next_process_at"] == "2024-01-15T00:00:17.000Z"
    assert waiting["completed_at"] is None
    life.do(c.Due(), now=MIDNIGHT + HOUR).claim().do(c.Complete())
    done = seen(life)
    assert part(done, "state", "completed_at", "retention", "next_process_at") == {
        "state": "completed",
        "completed_at": "2024-01-15T01:00:02.000Z",
        "retention": 7200,
        "next_process_at": None,
    }


def test_asynq_gives_no_default_timeout_to_a_task_with_a_deadline() -> None:
    assert seen(Life(profile("asynq"), deadline=MIDNIGHT + HOUR))["timeout"] is None


# taskcluster


def cluster(**fields: Any) -> Life:
    fields.setdefault("deadline", MIDNIGHT + 24 * HOUR)
    return Life(profile("taskcluster"), queue="proj/linux", **fields)


def test_taskcluster_status_has_the_runs_with_their_reasons() -> None:
    life = cluster().claim("w1").do(c.Lose(), now=MIDNIGHT + 2 * HOUR).claim("w2")
    status = seen(life)
    assert part(status, "state", "retriesLeft", "taskQueueId", "priority") == {
        "state": "running",
        "retriesLeft": 4,
        "taskQueueId": "proj/linux",
        "priority": "medium",
    }
    assert part(status, "provisionerId", "workerType", "deadline", "expires") == {
        "provisionerId": "proj",
        "workerType": "linux",
        "deadline": "2024-01-16T00:00:00.000Z",
        "expires": "2025-01-15T00:00:00.000Z",
    }
    assert status["runs"] == [
        {
            "runId": 0,
            "state": "exception",
            "reasonCreated": "scheduled",
            "reasonResolved": "claim-expired",
            "workerId": "w1",
            "takenUntil": "2024-01-15T00:20:01.000Z",
            "scheduled": "2024-01-15T00:00:00.000Z",
            "started": "2024-01-15T00:00:01.000Z",
            "resolved": "2024-01-15T02:00:00.000Z",
        },
        {
            "runId": 1,
            "state": "running",
            "reasonCreated": "retry",
            "workerId": "w2",
            "takenUntil": "2024-01-15T02:20:01.000Z",
            "scheduled": "2024-01-15T02:00:00.000Z",
            "started": "2024-01-15T02:00:01.000Z",
        },
    ]


@pytest.mark.parametrize(
    ("command", "state", "reason"),
    [
        (c.Complete(), "completed", "completed"),
        (c.Fail(error=ERROR), "failed", "failed"),
        (c.Terminate(error=ERROR), "failed", "failed"),
        (c.Reject(error=ERROR), "exception", "malformed-payload"),
        (
            c.Reject(error=ERROR, reason=Reason.RESOURCE_UNAVAILABLE),
            "exception",
            "resource-unavailable",
        ),
        (c.Fail(error=ERROR, reason=Reason.INTERNAL_ERROR), "exception", "internal-error"),
        (c.Cancel(force=True), "exception", "canceled"),
        (c.Expire(), "exception", "deadline-exceeded"),
    ],
)
def test_taskcluster_task_and_last_run_end_alike(
    command: c.Command, state: str, reason: str
) -> None:
    status = seen(cluster().claim().do(command))
    assert status["state"] == state
    assert part(status["runs"][-1], "state", "reasonResolved") == {
        "state": state,
        "reasonResolved": reason,
    }


def test_taskcluster_run_that_a_worker_had_no_code_for_is_followed_by_a_pending_one() -> None:
    status = seen(cluster().claim().do(c.UnknownTask()))
    assert part(status, "state", "retriesLeft") == {"state": "pending", "retriesLeft": 5}
    assert [run["state"] for run in status["runs"]] == ["exception", "pending"]
    assert status["runs"][0]["reasonResolved"] == "resource-unavailable"


@pytest.mark.parametrize(
    ("command", "resolved", "created"),
    [
        (c.Lose(), "claim-expired", "retry"),
        (c.ShutdownRetry(), "worker-shutdown", "retry"),
        (c.Fail(error=ERROR, reason=Reason.INTERMITTENT_TASK), "intermittent-task", "task-retry"),
    ],
)
def test_taskcluster_retries_by_a_new_pending_run_until_none_is_left(
    command: c.Command, resolved: str, created: str
) -> None:
    life = cluster()
    for left in (4, 3, 2, 1, 0):
        status = seen(life.claim().do(command))
        assert part(status, "state", "retriesLeft") == {"state": "pending", "retriesLeft": left}
        assert status["runs"][-2]["reasonResolved"] == resolved
        assert part(status["runs"][-1], "state", "reasonCreated") == {
            "state": "pending",
            "reasonCreated": created,
        }
    status = seen(life.claim().do(command))
    assert part(status, "state", "retriesLeft") == {"state": "exception", "retriesLeft": 0}
    assert status["runs"][-1]["reasonResolved"] == resolved
    assert len(status["runs"]) == 6


def test_taskcluster_rerun_opens_a_run_of_that_reason_with_new_retries() -> None:
    life = cluster().claim().do(c.Lose()).claim().do(c.Fail(error=ERROR)).do(c.Rerun())
    status = seen(life)
    assert part(status, "state", "retriesLeft") == {"state": "pending", "retriesLeft": 5}
    assert part(status["runs"][-1], "runId", "reasonCreated") == {
        "runId": 2,
        "reasonCreated": "rerun",
    }


def test_taskcluster_task_without_runs_is_unscheduled() -> None:
    status = seen(cluster(dependencies=("p",)))
    assert part(status, "state", "runs") == {"state": "unscheduled", "runs": []}


@pytest.mark.parametrize(
    ("command", "reason"), [(c.Cancel(), "canceled"), (c.Expire(), "deadline-exceeded")]
)
def test_taskcluster_unscheduled_task_ends_by_a_run_made_for_it(
    command: c.Command, reason: str
) -> None:
    status = seen(cluster(dependencies=("p",)).do(command))
    assert status["state"] == "exception"
    assert part(status["runs"][0], "runId", "state", "reasonCreated", "reasonResolved") == {
        "runId": 0,
        "state": "exception",
        "reasonCreated": "exception",
        "reasonResolved": reason,
    }


def test_taskcluster_run_that_an_end_was_given_keeps_its_number_when_the_task_is_rerun() -> None:
    status = seen(cluster(dependencies=("p",)).do(c.Cancel()).do(c.Rerun()))
    assert part(status["runs"][0], "runId", "state", "reasonCreated", "reasonResolved") == {
        "runId": 0,
        "state": "exception",
        "reasonCreated": "exception",
        "reasonResolved": "canceled",
    }
    assert part(status["runs"][1], "runId", "state", "reasonCreated") == {
        "runId": 1,
        "state": "pending",
        "reasonCreated": "rerun",
    }


def test_taskcluster_unscheduled_task_is_rerun_by_its_first_run() -> None:
    status = seen(cluster(dependencies=("p",)).do(c.Rerun(blocked=True)))
    assert part(status["runs"][0], "runId", "state", "reasonCreated") == {
        "runId": 0,
        "state": "pending",
        "reasonCreated": "rerun",
    }


def test_taskcluster_retries_left_count_down_to_the_fiftieth_run() -> None:
    life = cluster()
    for _ in range(46):
        life.claim().do(c.Complete()).do(c.Rerun())
    assert [seen(life)["runs"][-1]["runId"], seen(life)["retriesLeft"]] == [46, 3]
    for left in (2, 1, 0):
        assert seen(life.claim().do(c.Lose()))["retriesLeft"] == left
    status = seen(life.claim().do(c.Lose()))
    assert part(status, "state", "retriesLeft") == {"state": "exception", "retriesLeft": 0}
    assert len(status["runs"]) == 50
    with pytest.raises(InvalidTransition, match="50 runs"):
        life.do(c.Rerun())


def test_taskcluster_shows_a_delay_before_a_retry_as_a_pending_run() -> None:
    life = cluster(policy={"retry_delay": 60, "backoff": "constant"}).claim().do(c.Lose())
    shown = seen(life)["runs"][-1]
    assert part(shown, "runId", "state", "reasonCreated") == {
        "runId": 1,
        "state": "pending",
        "reasonCreated": "retry",
    }
    life.do(c.Due(), now=MIDNIGHT + HOUR)
    assert part(seen(life)["runs"][-1], "runId", "state") == {"runId": 1, "state": "pending"}


def test_native_record_has_the_fields_of_r1_and_never_the_token_of_a_run() -> None:
    life = Life(profile("native"), args=b'{"a": 1}').claim().progress(10, "on it")
    record = seen(life)
    assert part(record, "id", "state", "args", "progress", "progress_message", "tries") == {
        "id": "task-1",
        "state": "active",
        "args": {"a": 1},
        "progress": 10,
        "progress_message": "on it",
        "tries": 0,
    }
    assert record["started_at"] == "2024-01-15T00:00:01.000Z"
    assert "run-0" not in msgspec.json.encode(record).decode()


@pytest.mark.parametrize("system", PROFILES)
def test_every_system_shows_every_task_of_every_other(system: str) -> None:
    """`--as` may be asked of any task, whatever profile it was submitted under."""
    for other in PROFILES.values():
        fields: dict[str, Any] = {}
        if other.name == "taskcluster":
            fields["deadline"] = MIDNIGHT + round(DAY * 1000)
        life = Life(other, **fields).claim().do(c.Lose())
        record = as_seen(profile(system), life.task, life.events)
        assert msgspec.json.encode(record)
        assert history_as(profile(system), life.events, life.task)


@pytest.mark.parametrize("system", PROFILES)
def test_the_times_of_a_system_sort_as_texts(system: str) -> None:
    """A life that begins at a whole second and goes on between two of them."""
    fields: dict[str, Any] = {"run_at": MIDNIGHT + 1}
    if system == "taskcluster":
        fields["deadline"] = MIDNIGHT + round(DAY * 1000)
    life = Life(profile(system), now=MIDNIGHT, **fields)
    life.do(c.Due(), now=MIDNIGHT + 1)
    life.claim(now=MIDNIGHT + 1_001)
    life.do(c.Complete(result=b"1"), now=MIDNIGHT + 2_000)
    texts = [
        text
        for entry in history_as(profile(system), life.events, life.task)
        for text in msgspec.to_builtins(entry).values()
        if isinstance(text, str) and text.startswith("2024-")
    ]
    assert len(texts) > 2
    assert texts == sorted(texts)
