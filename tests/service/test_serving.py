"""`andon serve` as a process: started, answered, stopped in good order, refused when misused."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from launching import launch
from processes import ANDON

from .kit import PATIENCE

APP = """
from andon import Andon

app = Andon()


@app.task(name="add")
async def add(a: int, b: int = 1) -> int:
    return a + b
"""


class Served:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.said = ""
        self.url = ""

    def until_ready(self) -> None:
        assert self.process.stderr is not None
        while not (found := re.search(r"at (https?://\S+)", self.said)):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.url = found[1]

    def end(self) -> int:
        _, rest = self.process.communicate(timeout=PATIENCE)
        self.said += rest
        return self.process.returncode


@contextmanager
def served(folder: Path, *options: str, **environment: str) -> Iterator[Served]:
    (folder / "shop.py").write_text(APP)
    command = [*ANDON, "serve", "shop.py", "--port", "0", *options]
    process = launch(
        command,
        cwd=folder,
        env={**os.environ, "ANDON_URL": f"sqlite:///{folder}/tasks.db", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Served(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(tmp_path: Path, kind: signal.Signals):
    with served(tmp_path) as running:
        running.until_ready()
        made = httpx.post(f"{running.url}/api/v1/tasks", json={"name": "add", "args": [1]})
        assert made.status_code == 201
        running.process.send_signal(kind)
        assert running.end() == 0, running.said
        assert "Traceback" not in running.said


def test_a_stop_ends_streams_and_long_polls_at_once(tmp_path: Path):
    with served(tmp_path) as running:
        running.until_ready()
        with httpx.stream("GET", f"{running.url}/api/v1/events/stream", timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry")
            running.process.terminate()
            # At the end of the grace for requests in hand it would be cut off instead.
            assert "event: end" in list(lines)
        assert running.end() == 0, running.said
        assert "Traceback" not in running.said


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path):
    with served(tmp_path) as running:
        running.until_ready()
        httpx.post(f"{running.url}/api/v1/tasks", json={"name": "add", "args": [1], "id": "kept"})
        running.process.kill()
        running.process.wait()
    with served(tmp_path) as running:
        running.until_ready()
        assert httpx.get(f"{running.url}/api/v1/tasks/kept").json()["state"] == "pending"


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path):
    with served(tmp_path) as first:
        first.until_ready()
        port = first.url.rpartition(":")[2]
        with served(tmp_path, "--port", port) as second:
            assert second.end() == 1
            assert f"Cannot listen on 127.0.0.1 port {port}" in second.said
            assert "Traceback" not in second.said


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (("--rate-limit", "0"), {}, "rate_limit must be more than 0"),
        (("--private-key", "key.pem"), {}, "needs its certificate"),
        (("--certificate", "nowhere.pem"), {}, "nowhere.pem"),
        ((), {"WORKER_TIMEOUT": "soon"}, "WORKER_TIMEOUT is a number"),
        ((), {"ANDON_URL": "ftp://x"}, "There is no store"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], said: str
):
    with served(tmp_path, *options, **environment) as running:
        assert running.end() == 1, running.said
        assert said in running.said
        assert "Traceback" not in running.said


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"Host": "rebound.example:8000"}, "answers to localhost only"),
        ({"Host": "[::1"}, ""),
        ({"Origin": "https://elsewhere.example"}, "answers no page"),
        ({"Origin": "null"}, "answers no page"),
        ({"Origin": "http://[half"}, "answers no page"),
    ],
)
def test_a_page_from_elsewhere_gets_nothing_out_of_an_open_service(
    http: httpx.Client, headers: dict[str, str], told: str
):
    before = http.post("/api/v1/tasks", json={"id": "mine", "name": "add", "args": {"a": 1}})
    assert before.status_code < 300
    for method, path in (("GET", "/api/v1/tasks/mine"), ("POST", "/api/v1/tasks/mine/cancel")):
        answer = http.request(method, path, headers=headers)
        assert answer.status_code in (400, 401), answer.text
        assert told in answer.json()["detail"]
    assert http.get("/api/v1/tasks/mine").json()["state"] == "pending"


def test_a_page_of_the_service_itself_is_answered(http: httpx.Client):
    origin = str(http.base_url).rstrip("/")
    assert http.get("/api/v1/queues", headers={"Origin": origin}).status_code == 200
    assert http.get("/api/v1/queues", headers={"Host": "localhost:1"}).status_code == 200
