"""cbintel's API: every shape and every pattern of its page, against a real service and worker."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from andon import Andon, Context
from andon.client.jobs import JobRefused, JobsClient
from andon.model.errors import ConfigurationError
from andon.service.job_settings import JobSettings

from .kit import Running, eventually, problem, serving

JOBS = "/api/v1/jobs"


class Gate:
    """Holds the handlers of these tests until it is opened."""

    opened = threading.Event()


@pytest.fixture
def app(tmp_path: Path) -> Andon:
    app = Andon(f"sqlite:///{tmp_path}/tasks.db", profile="cbintel")
    Gate.opened.clear()

    @app.task(name="crawl")
    async def crawl(ctx: Context, query: str) -> dict[str, str]:
        ctx.progress(45, "Processing URL 23 of 50")
        for _ in iter(Gate.opened.is_set, True):  # a thread opens it
            await asyncio.sleep(0.01)
        return {"found": query}

    @app.task(name="unlucky", retry_delay=0.05)
    async def unlucky(failures: int, ctx: Context) -> str:
        if ctx.run < failures:
            raise ConnectionError("Connection timeout")
        return "at last"

    @app.task(name="broken", retry_delay=0.05)
    async def broken() -> None:
        raise ValueError("no such page")

    @app.task(name="stubborn", cancel_grace=0.2)
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if Gate.opened.is_set():
                    raise

    return app


def ended(http: httpx.Client, job_id: str) -> dict[str, Any]:
    return http.get(f"{JOBS}/{job_id}", params={"wait": 20}).json()


def without_times(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in entry.items() if k != "timestamp"} for entry in history]


def test_a_job_is_queued_as_the_page_shows_it(http: httpx.Client):
    answer = http.post(
        JOBS,
        json={
            "type": "crawl",
            "params": {"query": "andon"},
            "max_retries": 5,
            "retry_on": ["TIMEOUT", "NETWORK_ERROR"],
            "no_retry_on": ["VALIDATION_ERROR"],
        },
    )
    assert answer.status_code == 201
    job = answer.json()
    assert job["job_id"].startswith("job_")
    assert (job["status"], job["progress"], job["attempts"], job["max_retries"]) == (
        "QUEUED",
        0,
        0,
        5,
    )
    assert [entry["status"] for entry in job["history"]] == ["PENDING", "QUEUED"]
    task = http.get(f"/api/v1/tasks/{job['job_id']}").json()
    policy = task["policy"]
    assert policy["retry_on"] == ["TIMEOUT", "NETWORK_ERROR"]
    assert (policy["timeout"], policy["queue_timeout"]) == (3600, 7200)
    assert policy["retention"]["completed"] == 7 * 86_400


def test_progress_and_message_are_seen_while_it_runs(service: Running, http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "crawl", "params": {"query": "x"}}).json()["job_id"]

    def moving() -> dict[str, Any]:
        job = http.get(f"{JOBS}/{job_id}").json()
        return job if job["progress"] else {}

    with service.working(id="worker-1"):
        job = eventually(moving)
        assert (job["status"], job["progress"]) == ("PROCESSING", 45)
        assert job["message"] == "Processing URL 23 of 50"
        assert job["started_at"].endswith("Z")
        Gate.opened.set()
        done = ended(http, job_id)
    assert (done["status"], done["progress"], done["result"]) == ("COMPLETED", 100, {"found": "x"})
    assert done["completed_at"] >= done["started_at"]
    assert done["duration_seconds"] >= 0
    assert without_times(done["history"]) == [
        {"status": "PENDING"},
        {"status": "QUEUED"},
        {"status": "PROCESSING", "worker": "worker-1"},
        {"status": "COMPLETED"},
    ]


def test_a_retry_is_in_the_history_with_its_error_and_attempt(service: Running, http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "unlucky", "params": {"failures": 1}}).json()["job_id"]
    with service.working(id="w"):
        done = ended(http, job_id)
    assert (done["status"], done["result"], done["attempts"]) == ("COMPLETED", "at last", 1)
    assert without_times(done["history"]) == [
        {"status": "PENDING"},
        {"status": "QUEUED"},
        {"status": "PROCESSING", "worker": "w"},
        {"status": "FAILED", "error": "Connection timeout"},
        {"status": "QUEUED", "attempt": 2},
        {"status": "PROCESSING", "worker": "w"},
        {"status": "COMPLETED"},
    ]


def test_a_job_that_fails_for_good_says_why(service: Running, http: httpx.Client):
    body = {"type": "unlucky", "params": {"failures": 9}, "max_retries": 2}
    job_id = http.post(JOBS, json=body).json()["job_id"]
    with service.working():
        job = ended(http, job_id)
    assert (job["status"], job["error"]) == ("FAILED", "Connection timeout")
    assert (job["attempts"], job["max_retries"]) == (2, 2)
    assert job["failed_at"] >= job["started_at"]


def test_an_error_that_is_not_listed_is_not_retried(service: Running, http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "broken"}).json()["job_id"]
    with service.working():
        job = ended(http, job_id)
    assert (job["status"], job["attempts"], job["error"]) == ("FAILED", 0, "no such page")


def test_params_that_do_not_fit_are_recorded_as_failed(http: httpx.Client):
    answer = http.post(JOBS, json={"type": "crawl", "params": {"query": 5}, "job_id": "job_bad"})
    assert answer.status_code == 422
    job = answer.json()
    assert (job["job_id"], job["status"]) == ("job_bad", "FAILED")
    assert [entry["status"] for entry in job["history"]] == ["PENDING", "FAILED"]
    assert http.get(f"{JOBS}/job_bad").json() == job


@pytest.mark.parametrize("by", ["job_id", "Idempotency-Key"])
def test_a_job_that_was_recorded_as_failed_is_answered_so_again(http: httpx.Client, by: str):
    body = {"type": "crawl", "params": {"query": 5}}
    headers: dict[str, str] = {}
    if by == "job_id":
        body[by] = "job_bad"
    else:
        headers[by] = "one"
    first, again = (http.post(JOBS, json=body, headers=headers) for _ in "12")
    assert (first.status_code, again.status_code) == (422, 422)
    assert again.json() == first.json()
    assert again.headers.get("idempotent-replayed") == ("true" if headers else None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"params": {}}, "type"),
        ({"type": "crawl", "colour": "red"}, "colour"),
        ({"type": "crawl", "max_retries": -1}, "max_retries"),
        ({"type": "crawl", "max_retries": "many"}, "max_retries"),
        ({"type": "crawl", "retry_on": "TIMEOUT"}, "retry_on"),
        ({"type": "crawl", "job_id": "a b", "params": {"query": "x"}}, "job_id"),
    ],
)
def test_a_job_that_is_none_is_a_problem(http: httpx.Client, body: dict[str, Any], field: str):
    answer = http.post(JOBS, json=body)
    assert answer.status_code == 422
    if "type" in answer.json():
        assert answer.json()["field"] == field


def test_the_same_job_id_again_is_the_same_job(http: httpx.Client):
    body = {"type": "crawl", "params": {"query": "x"}, "job_id": "job_mine"}
    assert [http.post(JOBS, json=body).status_code for _ in "12"] == [201, 200]


def test_delete_cancels_a_waiting_job(http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "crawl", "params": {"query": "x"}}).json()["job_id"]
    gone = http.delete(f"{JOBS}/{job_id}")
    assert gone.status_code == 200
    assert set(gone.json()) == {"job_id", "status", "cancelled_at"}
    assert gone.json()["status"] == "CANCELLED"
    assert http.delete(f"{JOBS}/{job_id}").json() == gone.json()


def test_delete_waits_until_a_running_job_has_stopped(service: Running, http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "crawl", "params": {"query": "x"}}).json()["job_id"]
    with service.working():
        eventually(lambda: http.get(f"{JOBS}/{job_id}").json()["status"] == "PROCESSING")
        assert http.delete(f"{JOBS}/{job_id}").json()["status"] == "CANCELLED"
    job = http.get(f"{JOBS}/{job_id}").json()
    assert [entry["status"] for entry in job["history"]][-2:] == ["PROCESSING", "CANCELLED"]


def test_delete_forces_a_job_that_does_not_stop(service: Running, http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "stubborn"}).json()["job_id"]
    with service.working():
        eventually(lambda: http.get(f"{JOBS}/{job_id}").json()["status"] == "PROCESSING")
        assert http.delete(f"{JOBS}/{job_id}").json()["status"] == "CANCELLED"
        Gate.opened.set()


def test_delete_of_a_job_that_has_ended_is_a_conflict(service: Running, http: httpx.Client):
    job_id = http.post(JOBS, json={"type": "broken"}).json()["job_id"]
    with service.working():
        ended(http, job_id)
    problem(http.delete(f"{JOBS}/{job_id}"), 409, "invalid-transition")


def test_the_pages_settings_hold_for_jobs(app: Andon, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKER_TIMEOUT", "60")
    monkeypatch.setenv("QUEUE_TIMEOUT", "120s")
    monkeypatch.setenv("JOB_RETENTION_DAYS", "3")
    with serving(app) as running, running.client() as http:
        job_id = http.post(JOBS, json={"type": "crawl", "params": {"query": "x"}}).json()["job_id"]
        policy = http.get(f"/api/v1/tasks/{job_id}").json()["policy"]
    assert (policy["timeout"], policy["queue_timeout"]) == (60, 120)
    assert policy["retention"] == {"completed": 259_200, "failed": 259_200} | dict.fromkeys(
        ("cancelled", "stalled", "dropped", "expired", "unreachable"), 259200
    )


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_a_setting_that_is_no_number_is_refused(value: str):
    with pytest.raises(ConfigurationError, match="WORKER_TIMEOUT"):
        JobSettings.read({"WORKER_TIMEOUT": value})


def test_under_another_profile_jobs_keep_the_pages_defaults(tmp_path: Path):
    app = Andon(f"sqlite:///{tmp_path}/native.db")

    @app.task(name="own", max_retries=9)
    async def own() -> None: ...

    with serving(app) as running, running.client() as http:
        job_id = http.post(JOBS, json={"type": "own"}).json()["job_id"]
        policy = http.get(f"/api/v1/tasks/{job_id}").json()["policy"]
    assert policy["max_retries"] == 9  # the type's own word is stronger
    assert (policy["retry_delay"], policy["timeout"]) == (30, 3600)


# --- the client ---


def use(url: str, body: Callable[[JobsClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with JobsClient(url) as client:
            await body(client)

    asyncio.run(main())


def test_the_client_submits_and_waits(service: Running):
    async def body(client: JobsClient) -> None:
        job = await client.submit("unlucky", {"failures": 1})
        result = await client.wait(job.job_id, timeout=20)
        assert (result.status, result.result) == ("COMPLETED", "at last")
        assert result.history[4].attempt == 2

    with service.working():
        use(service.url, body)


def test_the_clients_wait_ends_in_time(service: Running):
    async def body(client: JobsClient) -> None:
        job = await client.submit("crawl", {"query": "x"})
        with pytest.raises(TimeoutError, match=job.job_id):
            await client.wait(job.job_id, timeout=0.1)
        cancelled = await client.cancel(job.job_id)
        assert cancelled.status == "CANCELLED"

    use(service.url, body)


def test_the_client_says_what_the_service_said(service: Running):
    async def body(client: JobsClient) -> None:
        with pytest.raises(JobRefused, match="no task 'nobody'") as refused:
            await client.get("nobody")
        assert refused.value.status == 404
        assert (await client.submit("crawl", {"query": 5})).status == "FAILED"

    use(service.url, body)


def test_the_client_says_when_nobody_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("andon.client.jobs._PAUSE_S", 0.001)

    async def body(client: JobsClient) -> None:
        with pytest.raises(JobRefused, match="cannot be reached"):
            await client.get("job_1")

    use("http://127.0.0.1:1", body)


def test_the_client_refuses_the_url_of_a_store():
    with pytest.raises(ConfigurationError, match="http://"):
        JobsClient("sqlite:///tasks.db")


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({"type": "sp ace"}, "type"),
        ({"type": "crawl", "params": {"query": "x"}, "job_id": "no id"}, "job_id"),
        ({"type": "crawl", "params": {"query": "x"}, "job_id": ""}, "job_id"),
        ({"type": "crawl", "params": 5, "job_id": "x" * 65}, "job_id"),
        ({"type": "crawl", "params": {"query": "x"}, "max_retries": -1}, "max_retries"),
    ],
)
def test_what_no_record_can_have_is_refused_and_not_recorded(
    http: httpx.Client, job: dict[str, Any], field: str
):
    refused = problem(http.post(JOBS, json=job), 422, "invalid-submission")
    assert refused["field"] == field
    assert http.get("/api/v1/tasks").json()["tasks"] == []
