"""The command line as it is used: real processes, signals, pipes and terminals."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ports import free_port

from andon.engine.base import Submission
from andon.lifecycle.commands import Release

from .conftest import Cli
from .terminal import ANDON, on_terminal

APP = """
import asyncio
from andon import Andon, Context

app = Andon()

@app.task(name="add")
async def add(a: int, b: int) -> int:
    return a + b

@app.task(name="boom", max_retries=0)
async def boom() -> None:
    raise ValueError("out of paper")

@app.task(name="hang", shutdown_grace=60)
async def hang(ctx: Context) -> None:
    ctx.progress(10, "hanging")
    await asyncio.Event().wait()
"""


APART = """
import os
from andon import Andon

app = Andon()

@app.task(name="apart", isolation="process")
def apart(parent: int) -> list[bool]:
    return [os.getppid() == parent, os.getpid() != parent]

@app.task(name="die", isolation="process", max_retries=0)
def die() -> None:
    os._exit(3)
"""

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
"""What must hold on every event loop a worker may run on."""


def environment(cli: Cli) -> dict[str, str]:
    """What a process needs to be where the hand is."""
    return {**os.environ, "ANDON_URL": cli.url}


class Running:
    """A command under way, whose output is waited for."""

    def __init__(self, cli: Cli, *args: str, **how: Any) -> None:
        env = {**environment(cli), "PYTHONUNBUFFERED": "1", **how.pop("env", {})}
        self.process = subprocess.Popen(
            [*ANDON, *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=cli.folder,
            env=env,
            text=True,
            **how,
        )
        self.told: list[str] = []

    def until(self, text: str) -> str:
        """Read until a line has this; that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not told, but:\n{''.join(self.told)}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit code, all that it printed read."""
        assert self.process.stdout is not None
        self.told += self.process.stdout
        return self.process.wait()


@pytest.fixture
def running(cli: Cli) -> Iterator[Any]:
    started: list[Running] = []

    def start(*args: str, **how: Any) -> Running:
        started.append(Running(cli, *args, **how))
        return started[-1]

    yield start
    for one in started:
        with contextlib.suppress(ProcessLookupError):
            one.process.kill()
        one.process.wait()
        assert one.process.stdout is not None
        one.process.stdout.close()


@pytest.fixture
def app(cli: Cli) -> str:
    return cli.write("process_app.py", APP)


@LOOPS
def test_a_worker_runs_what_is_submitted_and_leaves_on_sigterm(
    cli: Cli, app: str, running: Any, loop: str
) -> None:
    told = ("--id", "w1", "--concurrency", "3", "--queues", "default", "--loop", loop)
    worker = running("worker", app, *told)
    worker.until("Worker w1 runs 3 task types")
    done = cli("submit", "add", "--args", "[3, 4]", "--wait", "--timeout", "30")
    assert done.stdout == "7\n"
    assert (
        "ended failed (error): out of paper"
        in cli("submit", "boom", "--wait", "--timeout", "30", code=1).stderr
    )
    assert cli.lines("workers", "list")[0][0] == "w1"
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    assert "has left in good order" in "".join(worker.told)
    assert cli.lines("workers", "list") == []


def test_a_worker_waits_for_a_store_that_is_away(cli: Cli, app: str, running: Any) -> None:
    port = free_port()
    cli("storage", "init")
    worker = running("worker", app, "--id", "w1", "--url", f"http://127.0.0.1:{port}")
    told = worker.until("is away; this worker waits for it")
    assert f"http://127.0.0.1:{port}" in told
    service = running("serve", app, "--port", str(port))
    service.until("Serving")
    worker.until("Worker w1 runs 3 task types")
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    service.signal(signal.SIGTERM)
    assert service.end() == 0


def test_a_worker_that_waits_for_its_store_leaves_on_sigterm(
    cli: Cli, app: str, running: Any
) -> None:
    worker = running("worker", app, "--url", f"http://127.0.0.1:{free_port()}")
    worker.until("is away; this worker waits for it")
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0
    assert "Told to stop before the store" in "".join(worker.told)


def test_dev_shows_where_a_task_failed(cli: Cli, app: str, running: Any) -> None:
    cli("storage", "init")
    dev = running("dev", app, "--no-reload")
    dev.until("task types of")
    cli("submit", "boom", "--url", cli.url)
    dev.until("Traceback (most recent call last):")
    dev.until("in boom")
    assert dev.until("out of paper").strip()
    dev.signal(signal.SIGTERM)
    assert dev.end() == 0


def test_the_package_is_a_command_too(cli: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "andon", "storage", "init"],
        cwd=cli.folder,
        env=environment(cli),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert cli.lines("tasks", "list") == []


HOOKS = """
from contextlib import asynccontextmanager
from andon import Andon

@asynccontextmanager
async def pool():
    if "FAILS" == "lifespan":
        open_pool()
    yield
    if "FAILS" == "leaving":
        open_pool()

app = Andon(lifespan=pool)

def open_pool():
    raise RuntimeError("no database at db.example")

@app.on_worker_start
async def connect():
    if "FAILS" == "start":
        open_pool()

@app.on_worker_stop
def disconnect():
    if "FAILS" == "stop":
        open_pool()
"""


WORKER, DEV = ("worker",), ("dev", "--no-reload")


@pytest.mark.parametrize(
    ("command", "fails", "named"),
    [
        (WORKER, "start", "start hook hooked.connect"),
        (DEV, "start", "start hook hooked.connect"),
        (WORKER, "stop", "stop hook hooked.disconnect"),
        (WORKER, "lifespan", "lifespan hooked.pool"),
        (WORKER, "leaving", "lifespan hooked.pool"),
    ],
)
def test_an_error_of_a_users_hook_is_told_as_theirs_with_the_traceback(
    cli: Cli, running: Any, command: tuple[str, ...], fails: str, named: str
) -> None:
    cli("storage", "init")
    cli.write("hooked.py", HOOKS.replace("FAILS", fails))
    worker = running(*command, "hooked.py")
    if fails in ("stop", "leaving"):
        worker.until("task types of")
        worker.signal(signal.SIGTERM)
    assert worker.end() == 1
    told = "".join(worker.told)
    assert told.endswith(f"andon: The {named} has raised RuntimeError: no database at db.example\n")
    assert "Traceback (most recent call last):" in told
    assert "in open_pool\n" in told
    assert "should not have happened" not in told
    assert "andon/cli/" not in told
    assert "andon/worker/" not in told


def test_a_worker_that_requires_its_store_exits_with_1(cli: Cli, app: str, running: Any) -> None:
    worker = running("worker", app, "--require-store", "--url", f"http://127.0.0.1:{free_port()}")
    assert worker.end() == 1
    assert "andon: " in "".join(worker.told)


@pytest.mark.parametrize("way", ["store", "service"])
def test_a_worker_tells_prometheus_what_it_did(cli: Cli, app: str, running: Any, way: str) -> None:
    if way == "service":
        service = running("serve", app, "--port", "0")
        at = re.search(r"http://[^ ]*:[0-9]+", service.until("http://"))
        assert at is not None
        cli.url = at[0]
    worker = running("worker", app, "--metrics", "127.0.0.1:0")
    told = re.search(r"http://[^ ]*/metrics", worker.until("/metrics"))
    assert told is not None
    cli("submit", "add", "--args", "[3, 4]", "--wait", "--timeout", "30")

    def counted() -> bool:
        text = httpx.get(told[0]).text
        return 'andon_run_seconds_count{outcome="completed",task="add"} 1.0' in text

    until(counted)
    text = httpx.get(told[0]).text
    assert 'andon_claim_latency_seconds_count{queue="default"} 1.0' in text
    assert 'andon_store_seconds_count{operation="claim"}' in text
    assert "andon_http" not in text
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0, worker.told


def test_a_place_for_metrics_that_cannot_be_is_one_sentence(
    cli: Cli, app: str, running: Any
) -> None:
    mistaken = running("worker", app, "--metrics", "9101")
    mistaken.until("HOST:PORT")
    assert mistaken.end() == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = running("worker", app, "--metrics", where)
        assert refused.until("andon: ").startswith(f"andon: Cannot serve metrics on {where}: ")
        assert refused.end() == 1


@LOOPS
def test_a_worker_on_either_loop_has_handlers_in_processes_of_their_own(
    cli: Cli, running: Any, loop: str
) -> None:
    worker = running("worker", cli.write("apart_app.py", APART), "--loop", loop)
    worker.until("runs 2 task types")
    pid = str(worker.process.pid)
    done = cli("submit", "apart", "--args", f"[{pid}]", "--wait", "--timeout", "30")
    assert json.loads(done.stdout) == [True, True]
    assert "ended failed" in cli("submit", "die", "--wait", "--timeout", "30", code=1).stderr
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


def test_a_loop_that_is_not_installed_is_one_sentence(cli: Cli, app: str, running: Any) -> None:
    without = "import sys; sys.modules['uvloop'] = None"  # as where it is not installed
    (cli.folder / "sitecustomize.py").write_text(without)
    env = {"PYTHONPATH": str(cli.folder)}
    worker = running("worker", app, "--loop", "uvloop", env=env)
    worker.until("andon: There is no uvloop here. Install it with: pip install 'andon[fast]'")
    assert worker.end() == 1
    assert running("worker", app, env=env).until("runs 3 task types")


@LOOPS
def test_a_second_signal_hurries_and_the_run_goes_back_to_its_place(
    cli: Cli, app: str, running: Any, loop: str
) -> None:
    worker = running("worker", app, "--loop", loop)
    cli.submit("hang", "--id", "h")
    follow = running("events", "--follow", "--since-start", "--task", "h")
    follow.until("pending → active")
    worker.signal(signal.SIGINT)
    worker.until("claiming no more")
    worker.signal(signal.SIGINT)
    assert worker.end() == 0
    assert cli.state("h") == "pending"
    assert cli.json("tasks", "show", "h")["tries"] == 0


@LOOPS
def test_a_quiet_worker_claims_nothing_until_it_goes_on(
    cli: Cli, app: str, running: Any, loop: str
) -> None:
    cli("storage", "init")
    worker = running("worker", app, "--id", "w1", "--loop", loop)
    worker.until("runs 3 task types")
    worker.signal(signal.SIGTSTP)
    until(lambda: cli.json("workers", "list")[0]["state"] == "quiet")
    cli.submit("add", "--id", "a", "--args", "[1, 2]")
    [task] = cli.claim()  # it is still there to be claimed
    cli.report(task, Release())
    worker.signal(signal.SIGCONT)
    assert cli.lines("wait", "a", "--timeout", "30") == [["a", "completed", ""]]


def test_an_application_that_cannot_be_loaded_is_exit_code_1(cli: Cli, running: Any) -> None:
    worker = running("worker", "nowhere.py")
    assert worker.end() == 1
    assert worker.told[-1].startswith("andon: There is no file")
    assert "--strict needs --queues" in cli("worker", "x.py", "--strict", code=2).stderr
    cli("worker", "x.py", "--concurrency", "0", code=2)


def test_wait_is_woken_by_another_process(cli: Cli, app: str, running: Any) -> None:
    cli.submit("add", "--id", "a", "--args", "[1, 2]")
    wait = running("wait", "a")
    running("worker", app)
    assert wait.end() == 0
    assert wait.told == ["a\tcompleted\t\n"]


def test_follow_goes_on_until_interrupted(cli: Cli, running: Any) -> None:
    cli.submit("job", "--id", "before")
    follow = running("events", "--follow", "--since-start", "--json")
    follow.until('"before"')
    cli.submit("job", "--id", "after")
    assert json.loads(follow.until('"after"'))["to"] == "pending"
    follow.signal(signal.SIGINT)
    assert follow.end() == 130
    assert "Traceback" not in "".join(follow.told)


def test_who_follows_a_queue_sees_its_tasks_also_when_they_are_gone_at_once(
    cli: Cli, running: Any
) -> None:
    cli.submit("job", "--id", "before")
    follow = running("events", "--follow", "--since-start", "--queue", "default", "--json")
    follow.until('"before"')
    options = {"discard_states": ("completed",)}
    submission = Submission(id="brief", name="job", options=options, priority=5)
    cli.behind(lambda engine: engine.submit([submission]))
    follow.until('"brief"')
    cli.end()
    assert json.loads(follow.until('"completed"'))["task"] == "brief"
    assert json.loads(follow.until('"delete"'))["task"] == "brief"


def test_moves_whose_queue_nothing_tells_are_counted(cli: Cli) -> None:
    options = {"discard_states": ("completed",)}
    submission = Submission(id="brief", name="job", options=options)
    cli.behind(lambda engine: engine.submit([submission]))
    cli.end()
    cli.submit("job", "--id", "after")
    done = cli("events", "--queue", "default")
    assert [line.split("\t")[1] for line in done.stdout.splitlines()] == ["after"]
    assert "4 moves of tasks that are deleted by now left out" in done.stderr
    assert "left out" not in cli("events").stderr


def test_a_reader_that_goes_away_is_no_traceback(cli: Cli) -> None:
    cli("submit", "job", "--jsonl", cli.write("t.jsonl", *({"id": f"t{n}"} for n in range(300))))
    env = environment(cli)
    lister = f"{sys.executable} -m andon.cli tasks list --oldest-first --limit 300"
    done = subprocess.run(
        ["sh", "-c", f"{lister} | head -n 1"], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("t0\t")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_worker_logs_its_runs_in_the_form_and_from_the_level_that_is_asked_for(
    cli: Cli, app: str, running: Any, form: str
) -> None:
    good = cli.submit("add", "--args", '{"a": 1, "b": 2}')
    worker = running("worker", app, "--log-level", "info", "--log-format", form)
    worker.until(f"Task {good} starts")
    completed = worker.until(f"Task {good} (add) completed")
    bad = cli.submit("boom")
    failed = worker.until(f"Task {bad} (boom) failed")
    if form == "text":
        assert " INFO " in completed
        assert " ERROR " in failed
        worker.until("Traceback (most recent call last):")
        worker.until("ValueError: out of paper")
    else:
        for line, level, task_id, name in (
            (completed, "info", good, "add"),
            (failed, "error", bad, "boom"),
        ):
            told = json.loads(line)
            assert (told["level"], told["task_id"], told["task_name"]) == (level, task_id, name)
            assert (told["queue"], told["run"]) == ("default", 0)
            assert told["duration"] >= 0
        assert "ValueError: out of paper" in failed
    worker.signal(signal.SIGTERM)
    assert worker.end() == 0


# --- serve ---


def test_a_service_logs_in_the_form_and_from_the_level_that_is_asked_for(
    app: str, running: Any
) -> None:
    service = running("serve", app, "--port", "0", "--log-format", "json", "--log-level", "info")
    line = json.loads(service.until("Serving the tasks"))
    assert (line["level"], line["logger"]) == ("info", "andon.cli")
    service.signal(signal.SIGTERM)
    assert service.end() == 0


# --- dev ---


def test_dev_gives_commands_the_variables_that_are_named(cli: Cli, running: Any) -> None:
    path = cli.write(
        "passing.py",
        "from andon import Andon",
        "app = Andon()",
        """app.command("tell", ["sh", "-c", "echo $SHOP_KEY,$OTHER > seen"])""",
    )
    env = {"SHOP_KEY": "sesame", "OTHER": "hidden"}
    dev = running("dev", path, "--no-reload", "--pass-env", "SHOP_*", env=env)
    dev.until("runs 1 task type")
    cli("submit", "tell", "--wait", "--timeout", "60")
    assert (cli.folder / "seen").read_text() == "sesame,\n"
    dev.signal(signal.SIGTERM)
    assert dev.end() == 0


def test_dev_runs_logs_reloads_and_leaves(cli: Cli, app: str, running: Any) -> None:
    dev = running("dev", app)
    dev.until("runs 3 task types")
    cli.submit("add", "--id", "a", "--args", "[1, 2]")
    assert "active → completed" in dev.until("completed")
    text = Path(app).read_text()
    Path(app).write_text(text + "\n@app.task(name='new')\nasync def new() -> None: ...\n")
    dev.until("changed: starting anew")
    dev.until("runs 4 task types")
    Path(app).write_text("this is no Python\n")
    dev.until("SyntaxError")
    dev.until("It has ended (exit code 1)")
    Path(app).write_text(text)
    dev.until("runs 3 task types")
    dev.signal(signal.SIGTERM)
    assert dev.end() == 0
    assert cli.lines("workers", "list") == []


def test_a_reload_gives_a_run_back_without_a_try(cli: Cli, app: str, running: Any) -> None:
    cli.submit("hang", "--id", "h")
    dev = running("dev", app, "--grace", "0")
    dev.until("pending → active")
    Path(app).write_text(APP + "\n# changed\n")
    dev.until("active → pending")
    dev.until("pending → active")
    assert cli.json("tasks", "show", "h")["tries"] == 0


def test_the_worker_of_dev_does_not_outlive_it(cli: Cli, app: str, running: Any) -> None:
    dev = running("dev", app, "--grace", "0")
    dev.until("runs 3 task types")
    dev.signal(signal.SIGKILL)
    dev.until("has left in good order")  # the child has the same stdout
    assert cli.lines("workers", "list") == []


# --- terminals ---


def printed(cli: Cli, *args: str) -> str:
    """What a command prints to a terminal."""
    with on_terminal(*args, env=environment(cli), folder=cli.folder) as terminal:
        return terminal.rest()


def test_a_terminal_gets_a_table_and_a_pipe_gets_lines(cli: Cli) -> None:
    cli.submit("job", "--id", "t")
    told = printed(cli, "tasks", "list")
    assert "name" in told
    assert "\x1b[" in told
    assert "\t" not in told
    piped = subprocess.run(
        [*ANDON, "tasks", "list"], env=environment(cli), capture_output=True, text=True, check=True
    )
    assert piped.stdout.startswith("t\tjob\tdefault\tpending\t")
    assert "\x1b" not in piped.stdout


def test_a_terminal_gets_a_progress_bar_while_it_waits(cli: Cli, app: str, running: Any) -> None:
    cli.submit("hang", "--id", "h")
    worker = running("worker", app)
    worker.until("runs 3 task types")
    told = printed(cli, "wait", "h", "--timeout", "1.5")
    assert "hanging" in told
    assert "10%" in told
    assert "h is active" in told


@pytest.mark.parametrize(("end", "code"), [("q", 0), ("\x03", 0), (None, 130)])
def test_top_draws_until_told_to_end_and_leaves_the_terminal_as_it_was(
    cli: Cli, end: str | None, code: int
) -> None:
    cli.submit("job", "--id", "t")
    with on_terminal("top", env=environment(cli), folder=cli.folder) as terminal:
        told = terminal.until("default")
        if end is None:
            terminal.interrupt()
        else:
            terminal.press(end)
        told += terminal.rest()
        assert terminal.code() == code
    assert "Traceback" not in told, told
    assert told.rindex("\x1b[?1049l") > told.rindex("\x1b[?1049h")  # the screen is given back


def until(holds: Any) -> None:
    """Look until it holds; each look costs a command, so this is no busy loop."""
    for _ in range(200):
        with contextlib.suppress(IndexError):
            if holds():
                return
    raise AssertionError("It never held.")
