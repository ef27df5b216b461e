"""What a hostile or broken client may send to a service that runs as a process of its own: each is
refused with the right code and changes nothing, or is taken for what it is; the service goes on."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from .kit import BASE, HOUR, WORKER, Queue, at, definition, own_queue, refused, slugid
from .serving import Served, new_client, serving_on
from .shaped import check_read
from .signer import Signer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service") / "own"
    folder.mkdir()  # in one that nobody else writes to
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> str:
    return f"sqlite:///{folder}/tasks.db"


@pytest.fixture(scope="module")
def served(store: str, folder: Path) -> Iterator[Served]:
    with serving_on(store, folder, "--claim-wait", "0s") as served:
        yield served
        assert served.process.is_running


@pytest.fixture
def queue(served: Served) -> Iterator[Queue]:
    hooks = {"response": [check_read]}
    with httpx.Client(base_url=served.url, timeout=60, event_hooks=hooks) as http:
        yield Queue(http, own_queue())
        assert http.get(f"{BASE}/ping").json()["alive"] is True


def absent(queue: Queue, task_id: str) -> None:
    refused(queue.ask("GET", f"/task/{task_id}"), 404, "ResourceNotFound", "task")


def test_more_dependencies_than_may_be(queue: Queue):
    task_id = slugid()
    many = definition(dependencies=[slugid() for _ in range(10_001)])
    answer = queue.ask("PUT", f"/task/{task_id}", many)
    refused(answer, 400, "InputValidationError", "createTask")
    absent(queue, task_id)
    unknown = definition(dependencies=many["dependencies"][:10_000])
    refused(queue.ask("PUT", f"/task/{task_id}", unknown), 400, "InputError", "createTask")
    absent(queue, task_id)


def test_tasks_that_would_wait_for_one_another_in_a_circle(queue: Queue):
    """The first of them waits for one that is not there, so there can be no circle but of one."""
    circle = [slugid() for _ in range(3)]
    for task_id, before in zip(circle, [*circle[1:], circle[0]], strict=True):
        sent = definition(taskQueueId=queue.name, dependencies=[before])
        refused(queue.ask("PUT", f"/task/{task_id}", sent), 400, "InputError", "createTask")
        absent(queue, task_id)
    alone = queue.create(dependencies=[circle[0]], task_id=circle[0])
    assert queue.state(alone) == "unscheduled"
    assert queue.act(alone, "schedule")["state"] == "pending"


@pytest.mark.parametrize("scope", ["**", "queue:**", "a***", "* **"])
def test_scopes_that_end_in_two_stars(queue: Queue, scope: str):
    task_id = slugid()
    sent = definition(scopes=["docker", scope])
    refused(queue.ask("PUT", f"/task/{task_id}", sent), 400, "InputError", "createTask")
    absent(queue, task_id)


SLUGIDS = (
    "",
    "x",
    "VGfy1vitRDKhz4zPEm1Cz",
    "VGfy1vitRDKhz4zPEm1Czgg",
    "VGfy1vitADKhz4zPEm1Czg",  # no version 4
    "VGfy1vitRD!hz4zPEm1Czg",
    "VGfy1vitRDKhz4zPEm1Czg\n",
    "\uff36Gfy1vitRDKhz4zPEm1Czg",
)


@pytest.mark.parametrize("bad", SLUGIDS)
def test_ids_that_are_none(queue: Queue, bad: str):
    for fields in ({"taskGroupId": bad}, {"dependencies": [bad]}):
        task_id = slugid()
        answer = queue.ask("PUT", f"/task/{task_id}", definition(**fields))
        refused(answer, 400, "InputValidationError", "createTask")
        absent(queue, task_id)
    refused(queue.ask("POST", "/tasks", {"taskIds": [bad]}), 400, "InputValidationError", "tasks")
    if bad:
        answer = queue.ask("PUT", f"/task/{quote(bad, safe='')}", definition())
        refused(answer, 400, "InvalidRequestArguments", "createTask")


CLIMBING = (
    "../../../../etc/passwd",
    "..",
    ".",
    "/etc/passwd",
    "public/../../secret",
    "public//twice",
    "C:\\windows\\win.ini",
    "..\\..\\up",
    "~root/.ssh/id",
    "$(reboot)",
    "a b?c#d%2e%2e",
    "x" * 1_024,
)


@pytest.mark.parametrize("name", CLIMBING, ids=range(len(CLIMBING)))
def test_artifact_names_that_climb_are_names_and_lead_nowhere(
    queue: Queue, folder: Path, name: str
):
    task_id = queue.create()
    assert queue.claim()
    body = {"storageType": "s3", "contentType": "text/plain", "expires": at(HOUR)}
    encoded = quote(name, safe="").replace(".", "%2E")  # or the client takes the dots for a way up
    path = f"/task/{task_id}/runs/0/artifacts/{encoded}"
    before = set(folder.parent.rglob("*"))
    made = queue.answer("POST", path, body)
    sent = queue.http.put(made["putUrl"], content=b"hello", headers={"content-type": "text/plain"})
    assert sent.status_code == 200
    [row] = queue.answer("GET", f"/task/{task_id}/artifacts")["artifacts"]
    assert row["name"] == name
    elsewhere = queue.ask("GET", path)
    assert elsewhere.status_code == 303
    assert httpx.get(elsewhere.headers["location"]).content == b"hello"
    new = set(folder.parent.rglob("*")) - before
    assert new, "the bytes are somewhere"
    assert all(folder in entry.parents for entry in new), "and nothing is beside the store"


def flood(
    served: Served, request: bytes, parts: int, part: bytes = b"x-more: " + b"y" * 1_000 + b"\r\n"
) -> bytes:
    """What is answered to a request that goes on and on."""
    where = urlsplit(served.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=60) as one:
        try:
            one.sendall(request)
            for _ in range(parts):
                one.sendall(part)
        except OSError:
            pass  # it has had enough
        try:
            return one.recv(65_536)
        except OSError:
            return b""


def test_headers_and_bodies_without_an_end(served: Served, queue: Queue):
    answer = flood(served, f"GET {BASE}/ping HTTP/1.1\r\nhost: x\r\n".encode(), 2_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    task_id = slugid()
    sizes = (b"99999999999", b"9" * 30, b"-1", b"x")
    for size in sizes:
        head = (
            f"PUT {BASE}/task/{task_id} HTTP/1.1\r\nhost: x\r\n"
            "content-type: application/json\r\ncontent-length: "
        ).encode()
        answer = flood(served, head + size + b"\r\n\r\n", 1)
        assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), answer[:80]
    absent(queue, task_id)
    head = (
        f"PUT {BASE}/task/{task_id} HTTP/1.1\r\nhost: x\r\n"
        "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    ).encode()
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    answer = flood(served, head, 400, chunk)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413 "), answer[:80]
    absent(queue, task_id)


@pytest.fixture(scope="module")
def asking(store: str, folder: Path, served: Served) -> Iterator[tuple[Served, Signer]]:
    """A service on the same store that asks who is asking, and who may do everything there."""
    made = asyncio.run(new_client(store, "tests/root", ["*"]))
    own = folder / "asking"
    own.mkdir()
    with serving_on(store, own, "--claim-wait", "0s", "--require-token") as other:
        yield other, Signer("tests/root", made["accessToken"])


def test_a_request_that_is_sent_again_is_answered_again_and_does_nothing_more(
    asking: tuple[Served, Signer], queue: Queue
):
    """Nonces are not kept, as with the original: a repeat must do no harm by itself."""
    served, root = asking
    name, task_id = own_queue(), slugid()
    body = json.dumps(definition(taskQueueId=name)).encode()
    headers = {"content-type": "application/json"}

    def put(url: str, header: str, content: bytes) -> httpx.Response:
        sent = {**headers, "authorization": header}
        return httpx.put(url, content=content, headers=sent, timeout=60)

    url = f"{served.url}{BASE}/task/{task_id}"
    header = root.header("PUT", url)
    first = put(url, header, body)
    assert first.status_code == 200, first.text
    assert put(url, header, body).json() == first.json()
    other = json.dumps(definition(taskQueueId=name, retries=1)).encode()
    refused(put(url, header, other), 409, "RequestConflict", "createTask")
    assert queue.answer("GET", f"/task/{task_id}")["retries"] == 5
    other_id = slugid()
    elsewhere = f"{served.url}{BASE}/task/{other_id}"
    refused(put(elsewhere, header, body), 401, "AuthenticationFailed", "createTask")
    absent(queue, other_id)


def created(served: Served, header: str, task_id: str) -> httpx.Response:
    """The answer to a signed createTask."""
    url = f"{served.url}{BASE}/task/{task_id}"
    return httpx.put(url, json=definition(), headers={"authorization": header}, timeout=60)


def is_there(queue: Queue, task_id: str) -> bool:
    return queue.ask("GET", f"/task/{task_id}").status_code == 200


def certified(root: Signer, size: int) -> Signer:
    """Temporary credentials whose header has about so many bytes."""
    scopes = ["queue:*"]
    while len(root.temporary(scopes).ext(None)) < size:
        scopes += [f"project:{len(scopes):04}:{'x' * 80}" for _ in range(10)]
    return root.temporary(scopes)


@pytest.mark.parametrize(("size", "status"), [(29_000, 200), (40_000, 401), (200_000, 431)])
def test_certificates_of_tens_of_kilobytes(
    asking: tuple[Served, Signer], queue: Queue, size: int, status: int
):
    served, root = asking
    task_id = slugid()
    header = certified(root, size).header("PUT", f"{served.url}{BASE}/task/{task_id}")
    try:
        answer = created(served, header, task_id)
    except httpx.TransportError:
        assert status == 431, "it is cut off while it is sent"
    else:
        assert answer.status_code == status, answer.text[:300]
    assert is_there(queue, task_id) is (status == 200)


def test_clocks_that_are_off(asking: tuple[Served, Signer], queue: Queue):
    served, root = asking
    for off, status in ((-14 * 60, 200), (14 * 60, 200), (-16 * 60, 401), (16 * 60, 401)):
        task_id = slugid()
        url = f"{served.url}{BASE}/task/{task_id}"
        answer = created(served, root.header("PUT", url, ts=round(time.time()) + off), task_id)
        assert answer.status_code == status, answer.text[:300]
        assert is_there(queue, task_id) is (status == 200)


def test_a_claim_with_anything_wrong_takes_nothing(queue: Queue):
    task_id = queue.create()
    wrong: list[Any] = [
        {},
        {**WORKER, "tasks": 0},
        {**WORKER, "tasks": 33},
        {**WORKER, "tasks": 1.5},
        {**WORKER, "tasks": "1"},
        {**WORKER, "tasks": True},
        {**WORKER, "workerId": "a/b"},
        {**WORKER, "workerId": "x" * 39},
        {**WORKER, "colour": "red"},
        [WORKER],
    ]
    for body in wrong:
        answer = queue.ask("POST", f"/claim-work/{queue.name}", body)
        refused(answer, 400, "InputValidationError", "claimWork")
    assert queue.state(task_id) == "pending"
