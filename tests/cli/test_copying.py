"""`andon storage copy`: real stores, real interruptions, and a worker that finishes the rest."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Terminate
from andon.model.fleet import WorkerInfo
from andon.model.task import TaskError

from .conftest import Cli
from .terminal import ANDON, PATIENCE_S, on_terminal

MANY = 6_000

APP = """
from andon import Andon

app = Andon()

@app.task(name="job", lease=2, retry_delay=None)
async def job() -> str:
    return "done"
"""


class Pair:
    """A store and one to copy it into."""

    def __init__(self, cli: Cli) -> None:
        self.old = cli
        self.new = Cli(cli.folder)
        self.path = cli.folder / "new.db"
        self.new.url = f"sqlite:///{self.path}"

    def __call__(self, *options: str, **how: Any) -> Any:
        """Run the copy."""
        return self.old("storage", "copy", self.old.url, self.new.url, *options, **how)

    def start(self) -> "subprocess.Popen[str]":
        """Run the copy in a process of its own, until somebody ends it."""
        command = [*ANDON, "storage", "copy", self.old.url, self.new.url]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )

    def arrived(self) -> int:
        """How many tasks the new store has, asked behind its back."""
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as db:
                return db.execute("SELECT count(*) FROM task").fetchone()[0]
        except sqlite3.Error:  # it is not made yet
            return 0


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "ANDON_URL"}


@pytest.fixture
def pair(cli: Cli) -> Pair:
    return Pair(cli)


def fill(cli: Cli, count: int = MANY) -> None:
    """Many tasks at once."""

    async def act(engine: LocalEngine) -> None:
        names = [f"t{number:05}" for number in range(count)]
        await engine.submit([Submission(id=name, name="job") for name in names])

    cli.behind(act)


def in_each_state(cli: Cli) -> set[str]:
    """A few tasks that live and a few that have ended; the ids of those that live."""
    ended, failed, running = cli.submit(), cli.submit(), cli.submit("job", "--id", "running")
    cli.end()
    cli.end(Terminate(error=TaskError(message="out of paper")))
    request = ClaimRequest(
        worker="gone", token="token", queues=("default",), limit=1, lease_ms=1_000
    )
    cli.behind(lambda engine: engine.claim(request))
    cli.submit("job", "--id", "child", "--depends-on", f"{running},{ended}")
    cli.submit("job", "--id", "later", "--delay", "1s")
    cli.submit("job", "--id", "soon")
    assert [cli.state(i) for i in (ended, failed)] == ["completed", "failed"]
    return {"running", "child", "later", "soon"}


def test_the_ledger_says_what_became_of_each_state(pair: Pair) -> None:
    in_each_state(pair.old)
    done = pair()
    assert sorted(done.stdout.splitlines()) == [
        "active\t1\t1\t0\t0",
        "blocked\t1\t1\t0\t0",
        "completed\t1\t1\t0\t0",
        "failed\t1\t1\t0\t0",
        "pending\t1\t1\t0\t0",
        "scheduled\t1\t1\t0\t0",
    ]
    assert "Copying 6 tasks" in done.stderr
    assert "Not copied: what is left of tasks deleted within the last 10 minutes" in done.stderr
    assert "Everything is there." in done.stderr


def test_a_worker_on_the_new_store_finishes_what_the_old_one_held(pair: Pair) -> None:
    live = in_each_state(pair.old)
    pair()
    app = pair.new.write("copied_app.py", APP)
    worker = subprocess.Popen(
        [*ANDON, "worker", app, "--url", pair.new.url], env=environment(), stderr=subprocess.DEVNULL
    )
    try:
        pair.new("wait", *live, "--timeout", "120")
    finally:
        worker.kill()
        worker.wait()
    assert {pair.new.state(task_id) for task_id in live} == {"completed"}
    assert pair.old.state("soon") == "pending"


def test_artifacts_stay_and_the_new_store_is_told_where(pair: Pair) -> None:
    fill(pair.old, 1)
    pair.old.behind(lambda engine: engine.store.put_setting("artifacts-root", b"r", expect=None))
    told = pair().stderr
    place = f"file://{pair.old.folder}/andon.db-artifacts"
    assert f"stay in {place}." in told
    assert pair.new.behind(lambda engine: engine.store.setting("artifacts-root")) == b"r"
    pair.new("storage", "configure", "--artifacts", place)
    assert "stay in" not in pair("--merge").stderr


def test_json_has_the_ledger_and_nothing_else(pair: Pair) -> None:
    fill(pair.old, 3)
    done = pair("--json")
    assert not done.stderr
    ledger = pair.old.json("storage", "copy", pair.old.url, pair.new.url, "--merge")
    assert ledger["balanced"] is True
    assert ledger["tasks"] == {
        "pending": {"read": 3, "written": 0, "there": 3, "differing": 0, "failed": 0}
    }


def test_what_differs_is_named_and_the_exit_code_says_so(pair: Pair) -> None:
    fill(pair.old, 3)
    pair()
    pair.new("tasks", "cancel", "t00001")
    done = pair("--merge", code=1)
    assert done.stdout == "pending\t3\t0\t2\t1\n"
    assert "left as it is: t00001" in done.stderr
    assert "The copy is not complete" in done.stderr
    assert pair.new.state("t00001") == "cancelled"


# --- interrupted ---


def cut(pair: Pair, number: int) -> None:
    """Send the copy a signal when it is half-way. On a slow machine it may end first: again."""
    for _ in range(10):
        with pair.start() as process:
            until = time.monotonic() + PATIENCE_S
            while not pair.arrived() and process.poll() is None:
                assert time.monotonic() < until
            process.send_signal(number)
            _, said = process.communicate(timeout=PATIENCE_S)
        if process.returncode != 0:
            assert process.returncode == (130 if number == signal.SIGINT else -number), said
            assert "Traceback" not in said
            if number == signal.SIGINT:
                assert "Repeat the same command to go on." in said
            return
        for path in pair.path.parent.glob("new.db*"):
            if path.is_file():
                path.unlink()
    raise AssertionError("It always ended first.")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_copy_goes_on_when_it_is_repeated(
    pair: Pair, number: signal.Signals
) -> None:
    in_each_state(pair.old)
    fill(pair.old)
    cut(pair, number)
    arrived = pair.arrived()
    assert 0 < arrived < MANY
    ledger = pair.old.json("storage", "copy", pair.old.url, pair.new.url)
    assert ledger["balanced"] is True
    there = {state: tally["there"] for state, tally in ledger["tasks"].items()}
    assert sum(there.values()) == arrived
    assert sum(tally["written"] for tally in ledger["tasks"].values()) == MANY + 6 - arrived
    assert all(tally["differing"] == 0 for tally in ledger["tasks"].values())
    assert pair.new.json("queues", "list") == pair.old.json("queues", "list")


# --- refused ---


def test_living_workers_are_refused_before_anything_is_made(pair: Pair) -> None:
    fill(pair.old, 1)
    pair.old.behind(lambda engine: engine.store.put_worker(WorkerInfo(id="w1")))
    told = pair.old.refusal("storage", "copy", pair.old.url, pair.new.url)
    assert "Workers are alive on" in told
    assert "w1" in told
    assert not pair.path.exists()
    assert pair("--with-workers").stdout == "pending\t1\t1\t0\t0\n"


def test_a_worker_on_the_new_store_is_refused_too(pair: Pair) -> None:
    fill(pair.old, 1)
    pair.new.behind(lambda engine: engine.store.put_worker(WorkerInfo(id="w2")))
    assert "w2" in pair.old.refusal("storage", "copy", pair.old.url, pair.new.url)


def test_a_store_with_tasks_of_its_own_is_refused(pair: Pair) -> None:
    fill(pair.old, 1)
    pair.new.submit()
    told = pair.old.refusal("storage", "copy", pair.old.url, pair.new.url)
    assert "holds 1 tasks of its own" in told
    assert "--merge" in told


def test_the_same_store_is_refused_under_any_name(pair: Pair, cli: Cli) -> None:
    fill(cli, 1)
    assert "one store" in cli.refusal("storage", "copy", cli.url, f"{cli.url}?synchronous=normal")
    (cli.folder / "link.db").symlink_to(cli.folder / "andon.db")
    link = f"sqlite:///{cli.folder / 'link.db'}"
    assert "one store" in cli.refusal("storage", "copy", cli.url, link, "--merge")


def test_stores_that_cannot_be_meant_are_refused(pair: Pair, cli: Cli) -> None:
    absent = f"sqlite:///{cli.folder / 'absent.db'}"
    assert "There is no store at" in cli.refusal("storage", "copy", absent, cli.url)
    fill(cli, 1)
    assert "memory://" in cli.refusal("storage", "copy", cli.url, "memory://")
    told = cli("storage", "copy", cli.url, pair.new.url, "--url", cli.url, code=2).stderr
    assert "leave --url out" in told


# --- on a terminal ---


def test_a_terminal_gets_a_bar_and_a_table(pair: Pair) -> None:
    fill(pair.old, 500)
    copy = ("storage", "copy", pair.old.url, pair.new.url)
    with on_terminal(*copy, env=environment(), folder=Path(pair.path).parent) as terminal:
        told = terminal.rest()
        assert terminal.code() == 0
    assert "500/500" in told
    assert "already there" in told
