"""Artifacts that everybody may get: by a URL without any signature, with curl or a client's
`buildUrl`, as links in chats and dashboards are. Others stay with those who hold their scope."""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from tests.service.kit import serving

from andon import Andon
from andon.service.taskcluster.settings import TaskclusterSettings

from .environments import python_with, run_script
from .kit import BASE, WORKER, at, own_queue
from .test_access import Request, Service

PROGRAMS = Path(__file__).parent / "programs"
TEXT = "line\n" * 1_000
PUBLIC, PRIVATE = "public/logs/a b.log", "private/a.log"
LOST = "file-missing-on-worker"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that asks who is asking; what everybody may is not changed."""
    app = Andon(f"sqlite:///{tmp_path_factory.mktemp('public')}/tasks.db")
    with serving(app) as first:
        first.call(first.service.authentication.clients.create("first", []))
    with (
        serving(
            app, taskcluster=TaskclusterSettings(claim_wait=0.0), require_token=True
        ) as running,
        running.client() as http,
    ):
        yield Service(running, http)


@pytest.fixture(scope="module")
def task_id(service: Service) -> str:
    """A task whose run has left a public file, a private one, a public link to that, and word of
    one that was lost."""
    queue = own_queue()
    task_id = service.create(taskQueueId=queue)
    service.good("POST", f"/claim-work/{queue}", WORKER)
    of_run = f"/task/{task_id}/runs/0/artifacts"
    ends = at(timedelta(hours=1))
    file = {"storageType": "s3", "contentType": "text/plain", "expires": ends}
    for name in (PUBLIC, PRIVATE):
        url = service.good("POST", f"{of_run}/{quote(name, safe='')}", file)["putUrl"]
        sent = httpx.put(url, content=TEXT, headers={"content-type": "text/plain"})
        assert sent.status_code == 200
    link = {"storageType": "link", "expires": ends, "artifact": PRIVATE}
    service.good("POST", f"{of_run}/public%2Flink", link)
    lost = {"storageType": "error", "expires": ends, "reason": LOST, "message": "it is gone"}
    service.good("POST", f"{of_run}/lost", lost)
    return task_id


def curl(*arguments: str) -> tuple[int, str]:
    """The status and the body that curl ends with."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("there is no curl here")
    done = subprocess.run(
        [program, "-sS", "-L", "--write-out", "\n%{http_code}", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


@pytest.mark.parametrize("way", ["artifacts", "runs/0/artifacts"])
@pytest.mark.parametrize("slashes", ["", "/"], ids=["encoded", "as typed"])
def test_curl_fetches_a_public_artifact_by_its_plain_url(
    service: Service, task_id: str, way: str, slashes: str
):
    path = f"/task/{task_id}/{way}/{quote(PUBLIC, safe=slashes)}"
    assert curl(f"{service.running.url}{BASE}{path}") == (200, TEXT)


@pytest.mark.parametrize("name", [PRIVATE, "public/link", "publicly.log"])
def test_curl_gets_nothing_that_is_not_public_also_not_behind_a_public_link(
    service: Service, task_id: str, name: str
):
    status, body = curl(f"{service.running.url}{BASE}/task/{task_id}/artifacts/{name}")
    assert status == 403
    assert "without credentials" in body
    assert "InsufficientScopes" in body
    assert TEXT not in body


def test_a_public_artifact_that_is_not_there_is_told_so(service: Service, task_id: str):
    status, body = curl(f"{service.running.url}{BASE}/task/{task_id}/artifacts/public/none")
    assert status == 404
    assert "ResourceNotFound" in body


def test_everybody_may_list_what_there_is(service: Service, task_id: str):
    answer = service.ask(None, Request("GET", f"/task/{task_id}/artifacts", None, ()))
    assert [one["name"] for one in answer.json()["artifacts"]] == [
        "lost",
        PRIVATE,
        "public/link",
        PUBLIC,
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_urls_that_the_python_client_builds_are_good_and_its_downloads_too(
    service: Service, task_id: str
):
    given = {
        "rootUrl": service.running.url,
        "credentials": {
            "clientId": service.root.client_id,
            "accessToken": service.root.access_token,
        },
        "task": task_id,
        "public": PUBLIC,
        "private": PRIVATE,
        "link": "public/link",
        "lost": "lost",
    }
    said = run_script([python_with("python"), PROGRAMS / "urls.py"], given)
    good = [200, TEXT]
    assert said == {
        "public of the run": good,
        "public latest": good,
        "public signed": good,
        "private of the run": [403, "InsufficientScopes"],
        "private latest": [403, "InsufficientScopes"],
        "private signed": good,
        "told": ["s3", *good],
        **{f"{name} downloaded": [TEXT, "text/plain"] for name in ("public", "private", "link")},
        "lost downloaded": ["it is gone", LOST],
    }
