"""Artifacts as workers create them and clients fetch them."""

import gzip
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.service.kit import Running

from andon.artifacts.base import Artifact
from andon.artifacts.blobs import once
from andon.service.taskcluster.settings import TaskclusterSettings

from .kit import HOUR, Queue, at, is_time, own_queue, refused, slugid

LOG = b"line\n" * 1_000


@pytest.fixture
def face_settings() -> TaskclusterSettings:
    return TaskclusterSettings(claim_wait=0.0)


class Claimed:
    """A run that a worker holds."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.of = own_queue()
        self.id = queue.create(taskQueueId=self.of)
        queue.claim(queue=self.of)
        self.run = f"/task/{self.id}/runs/0"

    def make(self, name: str, run: int = 0, **fields: Any) -> httpx.Response:
        body = {"storageType": "s3", "expires": at(HOUR), **fields}
        if body["storageType"] in {"s3", "reference"}:
            body.setdefault("contentType", "text/plain")
        path = f"/task/{self.id}/runs/{run}/artifacts/{quote(name, safe='')}"
        return self.queue.ask("POST", path, body)

    def send(self, name: str, content: bytes = LOG, **headers: str) -> None:
        url = self.make(name).json()["putUrl"]
        sent = self.queue.http.put(
            url, content=content, headers={"content-type": "text/plain", **headers}
        )
        assert sent.status_code == 200, sent.text

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.queue.ask("GET", f"/task/{self.id}{path}", **options)

    def report(self, how: str, body: Any = None) -> None:
        assert self.queue.report(self.id, 0, how, body).status_code == 200


@pytest.fixture
def held(queue: Queue) -> Claimed:
    return Claimed(queue)


def test_a_file_is_created_sent_gzipped_and_fetched_as_it_was(held: Claimed):
    made = held.make("public/logs/live.log")
    answer = made.json()
    assert set(answer) == {"storageType", "putUrl", "expires", "contentType"}
    assert (answer["storageType"], answer["contentType"]) == ("s3", "text/plain")
    assert is_time(answer["expires"])
    for path in ("/runs/0/artifacts", "/artifacts"):
        [listed] = held.get(path).json()["artifacts"]
        assert set(listed) == {"storageType", "name", "expires", "contentType"}
        for name in ("public/logs/live.log", "public%2Flogs%2Flive.log"):
            refused(held.get(f"{path}/{name}"), 404, "ResourceNotFound")

    packed = gzip.compress(LOG)
    headers = {"content-type": "text/plain", "content-encoding": "gzip"}
    assert held.queue.http.put(answer["putUrl"], content=packed, headers=headers).is_success
    for path in ("/runs/0/artifacts", "/artifacts"):
        for name in ("public/logs/live.log", "public%2Flogs%2Flive.log"):
            found = held.get(f"{path}/{name}")
            assert found.status_code == 303
            assert found.headers["x-taskcluster-artifact-storage-type"] == "s3"
            assert found.json() == {"storageType": "s3", "url": found.headers["location"]}
            with held.queue.http.stream("GET", found.json()["url"]) as sent:
                assert sent.headers["content-encoding"] == "gzip"
                assert sent.headers["content-type"] == "text/plain"
                assert b"".join(sent.iter_raw()) == packed
    for path in ("/runs/0/artifact-content", "/artifact-content"):
        content = held.get(f"{path}/public/logs/live.log").json()
        assert held.queue.http.get(content["url"]).content == LOG
    for path in ("/runs/0/artifact-info", "/artifact-info"):
        info = held.get(f"{path}/public/logs/live.log").json()
        assert info == {**listed, "contentLength": len(packed)}


def test_a_reference_becomes_a_link_as_a_live_log_does(held: Claimed):
    url = "https://example.org/live?a=b"
    made = held.make("public/live.log", storageType="reference", url=url)
    assert made.json() == {"storageType": "reference"}
    found = held.get("/artifacts/public/live.log")
    assert (found.status_code, found.headers["location"]) == (303, url)
    held.send("public/backing.log")
    link: dict[str, Any] = {"storageType": "link", "artifact": "public/backing.log"}
    for _ in range(2):
        assert held.make("public/live.log", **link).json() == {"storageType": "link"}
    assert held.get("/artifact-info/public/live.log").json()["storageType"] == "link"
    found = held.get("/artifacts/public/live.log")
    assert found.headers["x-taskcluster-artifact-storage-type"] == "s3"
    assert held.queue.http.get(found.headers["location"]).content == LOG
    backs: list[dict[str, Any]] = [
        {},
        {"storageType": "reference", "url": url},
        {**link, "artifact": "other"},
    ]
    for back in backs:
        refused(held.make("public/live.log", **back), 409, "RequestConflict", "createArtifact")
    assert held.get("/artifact-info/public/live.log").json()["storageType"] == "link"


def test_a_file_whose_bytes_have_not_come_is_listed_and_not_found(held: Claimed):
    held.make("log")
    [row] = held.get("/artifacts").json()["artifacts"]
    assert (row["name"], row["storageType"]) == ("log", "s3")
    refused(held.get("/artifacts/log"), 404, "ResourceNotFound", "getLatestArtifact")
    refused(held.get("/runs/0/artifact-content/log"), 404, "ResourceNotFound", "artifact")
    held.send("log")
    assert held.get("/artifacts/log").status_code == 303


def test_a_link_to_itself_is_refused_and_one_to_nothing_is_not_found(held: Claimed):
    held.make("a", storageType="link", artifact="b")
    refused(held.get("/artifacts/a"), 404, "ResourceNotFound", "getLatestArtifact")
    held.make("b", storageType="link", artifact="a")
    refused(held.get("/artifacts/a"), 400, "InputError", "getLatestArtifact")
    refused(held.get("/runs/0/artifact-content/b"), 400, "InputError", "artifact")


def test_an_error_says_why_there_is_no_file(held: Claimed):
    fields: dict[str, Any] = {"reason": "file-missing-on-worker", "message": "It was not there."}
    assert held.make("core", storageType="error", **fields).json() == {"storageType": "error"}
    found = held.get("/artifacts/core")
    assert (found.status_code, found.json()) == (424, fields)
    assert found.headers["x-taskcluster-artifact-storage-type"] == "error"
    assert held.get("/artifact-content/core").json() == {"storageType": "error", **fields}


def test_what_is_created_again_is_the_same_with_a_later_end(held: Claimed):
    held.send("log")
    later = at(HOUR * 2)
    again = held.make("log", expires=later)
    assert again.status_code == 200
    info = held.get("/artifact-info/log").json()
    assert (info["expires"], info["contentLength"]) == (later, len(LOG))
    others: list[dict[str, Any]] = [
        {"expires": at(HOUR)},
        {"expires": later, "contentType": "text/html"},
    ]
    for fields in others:
        refused(held.make("log", **fields), 409, "RequestConflict", "createArtifact")
    assert held.get("/artifact-info/log").json() == info


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an end in the past": ({"expires": at(-timedelta(minutes=16))}, "InputError"),
    "an end after the task's": ({"expires": at(timedelta(days=800))}, "InputError"),
    "an object": ({"storageType": "object", "contentType": "a/b"}, "InputError"),
    "a URL that is none": ({"storageType": "reference", "url": "x"}, "InputValidationError"),
    "a URL of another kind": ({"storageType": "reference", "url": "file:///x"}, "InputError"),
    "another kind": ({"storageType": "folder"}, "InputValidationError"),
    "no type": ({"contentType": None}, "InputValidationError"),
    "a long type": ({"contentType": "x" * 256}, "InputValidationError"),
    "a link to no name": ({"storageType": "link", "artifact": "é"}, "InputValidationError"),
    "another reason": (
        {"storageType": "error", "reason": "bored", "message": "x"},
        "InputValidationError",
    ),
    "a long message": (
        {"storageType": "error", "reason": "file-missing-on-worker", "message": "x" * 4_097},
        "InputValidationError",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_created_is_refused_and_nothing_is_there(held: Claimed, case: str):
    fields, code = REFUSED[case]
    refused(held.make("log", **fields), 400, code, "createArtifact")
    assert held.get("/artifacts").json() == {"artifacts": []}


def test_a_task_or_run_that_is_not_there_is_400_to_who_creates_and_404_to_who_reads(
    held: Claimed, queue: Queue
):
    refused(held.make("log", run=1), 400, "InputError", "createArtifact")
    refused(held.get("/runs/1/artifacts"), 404, "ResourceNotFound", "listArtifacts")
    refused(held.get("/runs/1/artifacts/log"), 404, "ResourceNotFound", "getArtifact")
    pending = Claimed.__new__(Claimed)
    pending.queue, pending.id = queue, queue.create(taskQueueId=own_queue())
    refused(pending.make("log"), 400, "InputError", "createArtifact")
    assert pending.get("/artifacts").json() == {"artifacts": []}
    pending.id = "AAAAAAAAQAqAAAAAAAAAAA"
    refused(pending.make("log"), 400, "InputError", "createArtifact")
    refused(pending.get("/artifacts"), 404, "ResourceNotFound", "listLatestArtifacts")


def test_after_a_cancel_the_logs_may_come_and_after_a_report_they_may_not(queue: Queue):
    cancelled = Claimed(queue)
    queue.act(cancelled.id, "cancel")
    cancelled.send("public/log")
    assert cancelled.get("/artifacts/public/log").status_code == 303
    for how in ("completed", "failed"):
        ended = Claimed(queue)
        ended.report(how)
        refused(ended.make("log"), 409, "RequestConflict", "createArtifact")
    retried = Claimed(queue)
    retried.report("exception", {"reason": "worker-shutdown"})
    retried.send("log")
    # The latest run is the last one, whether it has the artifact or not.
    refused(retried.get("/artifacts/log"), 404, "ResourceNotFound", "getLatestArtifact")
    assert retried.get("/runs/0/artifacts/log").status_code == 303


def test_an_expired_artifact_is_gone(held: Claimed):
    held.make("log", storageType="reference", url="https://example.org", expires=at(-HOUR / 60))
    refused(held.get("/artifacts/log"), 410, "ResourceExpired", "getLatestArtifact")
    refused(held.get("/artifact-info/log"), 410, "ResourceExpired", "latestArtifactInfo")
    assert held.get("/artifacts").json() == {"artifacts": []}


def test_only_an_object_artifact_is_finished(held: Claimed):
    held.send("log")
    body = {"uploadId": "AAAAAAAAQAqAAAAAAAAAAA"}
    for name, status, code in (("log", 400, "InputError"), ("no", 404, "ResourceNotFound")):
        answer = held.queue.ask("PUT", f"{held.run}/artifacts/{name}", body)
        refused(answer, status, code, "finishArtifact")


def test_an_object_artifact_is_finished_under_its_upload_id_however_often(
    held: Claimed, running: Running
):
    """No route makes one, since there is no object service; one that is there is finished."""
    kept = running.call(running.service.engine.artifacts())
    upload, now = slugid(), running.service.engine.now()
    entry = Artifact(
        task=held.id, run=0, name="o", content_type="a/b", created_at=now, upload=upload
    )
    running.call(kept.register(entry))
    running.call(kept.fill(held.id, 0, "o", once(b"x")))
    path = f"{held.run}/artifacts/o"
    answer = held.queue.ask("PUT", path, {"uploadId": slugid()})
    refused(answer, 400, "InputError", "finishArtifact")
    assert held.get("/artifacts").json() == {"artifacts": []}
    for _ in range(2):
        assert held.queue.ask("PUT", path, {"uploadId": upload}).status_code == 204
    [row] = held.get("/artifacts").json()["artifacts"]
    assert (row["name"], row["storageType"]) == ("o", "object")


def test_lists_come_in_pages_by_name(held: Claimed):
    names = sorted(["b", "a/b", "a b", "public/" + "x" * 900, "~"])
    for name in names:
        held.make(name, storageType="reference", url="https://example.org/x")
    for limit in (1, 2, 5, 1000):
        seen: list[str] = []
        query: dict[str, Any] = {"limit": limit}
        while True:
            page = held.get("/runs/0/artifacts", params=query).json()
            seen += [one["name"] for one in page["artifacts"]]
            if "continuationToken" not in page:
                break
            query["continuationToken"] = page["continuationToken"]
        assert seen == names, limit
    other = {"continuationToken": "AAAA"}
    refused(held.get("/artifacts", params=other), 400, "InputError", "listLatestArtifacts")
