"""Signed tasks over plain HTTP, made and checked by who knows docs/signing.md only."""

import base64
import json
from typing import Any

import httpx
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from andon import Andon
from andon.client.jobs import JobRefused, JobsClient
from andon.signing import SigningKey, TrustedKeys, key_id

from .kit import serving
from .test_runs import claim, say, state

PRIVATE = Ed25519PrivateKey.generate()
PUBLIC = PRIVATE.public_key()

ARGS = '{ "b" : 1.0,\t"a" : [1e2, "\\u00df", "ß"] }'
"""Written as no encoder would write it: what is signed is what was sent."""

OTHER = '{"a": [], "b": 2}'


def net(*values: str) -> str:
    return "".join(f"{len(value.encode())}:{value}," for value in values)


def signature(task_id: str, name: str, args: str) -> str:
    signed = (
        net("andon-task-v1", task_id, name, "0", "default", args)
        + net("", "all-completed", "0", "", "", "")
        + net("", "", "", "")
    )
    value = base64.urlsafe_b64encode(PRIVATE.sign(signed.encode())).decode().rstrip("=")
    return f"v1.{key_id(PUBLIC)}..{value}"


def body_of(task_id: str, *, args: str = ARGS, header: str = "") -> str:
    header = header or signature(task_id, "job", ARGS)
    head = {
        "id": task_id,
        "name": "job",
        "queue": "default",
        "headers": {"andon-signature": header},
    }
    return json.dumps(head)[:-1] + f', "args": {args}}}'


def post(http: httpx.Client, body: str, path: str = "/api/v1/tasks", status: int = 201) -> None:
    headers = {"Content-Type": "application/json"}
    answer = http.post(path, content=body.encode(), headers=headers)
    assert answer.status_code == status, answer.text


def job_of(task_id: str, **fields: Any) -> str:
    given = {"type": "job", "job_id": task_id, "signature": signature(task_id, "job", ARGS)}
    return json.dumps({**given, **fields})[:-1] + f', "params": {ARGS}}}'


@pytest.fixture
def app(tmp_path: Any) -> Andon:
    app = Andon(f"sqlite:///{tmp_path}/tasks.db")

    @app.task(name="job")
    async def job(a: list[Any], b: float) -> list[Any]:
        return [a, b]

    return app


def test_a_task_that_is_posted_with_its_signature_runs_and_an_altered_one_does_not(app: Andon):
    with serving(app) as running, running.client() as http:
        post(http, body_of("good"))
        post(http, body_of("altered", args=OTHER))
        post(http, body_of("copied", header=signature("good", "job", ARGS)))
        many = ", ".join((body_of("many-1"), body_of("many-2", args=OTHER), body_of("many-3")))
        post(http, f'{{"tasks": [{many}]}}', "/api/v1/bulk", 200)
        post(http, '{"id": "unsigned", "name": "job", "args": {"a": [], "b": 1}}')
        with running.working(trusted_keys=TrustedKeys([PUBLIC])):
            for task_id in ("good", "many-1", "many-3"):
                done = http.get(f"/api/v1/tasks/{task_id}", params={"wait": 20}).json()
                assert (done["state"], done["result"]) == ("completed", [[100.0, "ß", "ß"], 1.0])
            for task_id in ("altered", "copied", "many-2", "unsigned"):
                done = http.get(f"/api/v1/tasks/{task_id}", params={"wait": 20}).json()
                assert (done["state"], done["reason"]) == ("failed", "signature-refused")


def fields_of(statement: bytes) -> list[bytes]:
    """Netstrings, taken apart."""
    fields: list[bytes] = []
    while statement:
        size, _, rest = statement.partition(b":")
        fields.append(rest[: int(size)])
        assert rest[int(size) : int(size) + 1] == b","
        statement = rest[int(size) + 1 :]
    return fields


def is_good(run: dict[str, Any]) -> bool:
    """Whether a worker elsewhere may run it: what it checks, as the worker protocol says."""
    if "statement" not in run:
        return False
    _, key, _, value = run["headers"]["andon-signature"].split(".")
    signed = base64.b64decode(run["statement"])
    try:
        PUBLIC.verify(base64.urlsafe_b64decode(value + "=="), signed)
    except InvalidSignature:
        return False
    kind, task_id, name, *_ = fields_of(signed)
    return key == key_id(PUBLIC) and (kind, task_id.decode(), name.decode()) == (
        b"andon-task-v1",
        run["task_id"],
        run["name"],
    )


def test_a_worker_elsewhere_is_given_what_it_checks_and_reports_what_it_refuses(app: Andon):
    with serving(app) as running, running.client() as http:
        post(http, body_of("good"))
        post(http, body_of("altered", args=OTHER))
        post(http, '{"id": "unsigned", "name": "job", "args": ' + OTHER + "}")
        runs = {run["task_id"]: run for run in claim(http, limit=10, statements=True)}
        assert {task_id: is_good(run) for task_id, run in runs.items()} == {
            "good": True,
            "altered": False,
            "unsigned": False,
        }
        signed = fields_of(base64.b64decode(runs["good"]["statement"]))
        assert signed[5].decode() == ARGS
        error = {"message": "not signed", "code": "SIGNATURE_MISSING"}
        refused = {"outcome": "exception", "reason": "signature-refused", "error": error}
        assert say(http, runs["unsigned"], "report", **refused).json()["state"] == "failed"
        assert state(http, "unsigned")["reason"] == "signature-refused"


def test_who_does_not_ask_for_statements_is_given_none(app: Andon):
    with serving(app) as running, running.client() as http:
        post(http, body_of("good"))
        [run] = claim(http)
        assert "statement" not in run
        assert run["headers"]["andon-signature"].startswith("v1.")


JOBS = "/api/v1/jobs"


def test_a_job_carries_a_signature_that_workers_check(app: Andon):
    with serving(app) as running, running.client() as http:
        post(http, job_of("signed", queue="default"), JOBS)
        post(http, job_of("silent"), JOBS)  # of the queue: it is signed all the same
        post(http, job_of("altered", signature=signature("other", "job", ARGS)), JOBS)
        post(http, job_of("unsigned", signature=None), JOBS)
        with running.working(trusted_keys=TrustedKeys([PUBLIC])):
            ends = {
                task_id: http.get(f"/api/v1/tasks/{task_id}?wait=60").json()["reason"]
                for task_id in ("signed", "silent", "altered", "unsigned")
            }
    assert ends["altered"] == ends["unsigned"] == "signature-refused"
    assert ends["signed"] == ends["silent"] == "success"


@pytest.mark.parametrize(
    ("fields", "field"), [({"queue": "mail"}, "queue"), ({"job_id": None}, "job_id")]
)
def test_a_signed_job_that_could_only_fail_is_refused_at_the_door(
    app: Andon, fields: dict[str, Any], field: str
):
    with serving(app) as running, running.client() as http:
        headers = {"Content-Type": "application/json"}
        for more in ({}, {"Idempotency-Key": "one"}):
            if more and field == "queue":
                continue  # such a key goes with no job_id at all
            answer = http.post(JOBS, content=job_of("a", **fields), headers=headers | more)
            assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert http.get("/api/v1/tasks").json()["tasks"] == []


async def test_the_client_for_jobs_signs_what_it_submits(app: Andon):
    key = SigningKey.generate()
    with serving(app) as running, running.working(trusted_keys=TrustedKeys([key.public])):
        async with JobsClient(running.url, signing_key=key) as client:
            good = await client.submit("job", {"a": ["ß", 1e2], "b": 2})
            assert (await client.wait(good.job_id, timeout=60)).status == "COMPLETED"
            with pytest.raises(JobRefused, match="go to queue 'default' here, not to 'mail'"):
                await client.submit("job", {"a": [], "b": 2}, queue="mail")
        async with JobsClient(running.url, signing_key=SigningKey.generate()) as client:
            bad = await client.submit("job", {"a": [], "b": 2})
            assert (await client.wait(bad.job_id, timeout=60)).status == "FAILED"
