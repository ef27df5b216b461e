"""Child processes: real ones, which are told, killed, and replaced."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from andon.engine.base import Submission
from andon.model.errors import ConfigurationError
from andon.model.words import Reason, State
from andon.worker.executors.processes import hello

from . import children
from .kit import WAIT, Kit, error_of, result_of, written

pytestmark = pytest.mark.slow


@pytest.fixture
def kit() -> Kit:
    kit = Kit()
    kit.registry = children.registry
    return kit


async def start(kit: Kit, **settings: Any) -> Any:
    return await kit.start(app=f"{children.__name__}:registry", **settings)


async def test_a_child_decodes_runs_and_answers_and_is_used_again(kit: Kit):
    await start(kit)
    first = result_of(await kit.run("where", {"x": 4}))
    second = result_of(await kit.run("where", {"x": 5}))
    assert (first[0], second[0]) == (4, 5)
    assert first[1] == second[1] != os.getpid()


async def test_an_async_handler_in_a_child_has_its_context(kit: Kit):
    await start(kit)
    assert result_of(await kit.run("aside", 3, id="me")) == "me 3 0 []"


async def test_a_handler_in_a_child_reads_the_headers_of_its_task(kit: Kit):
    await start(kit)
    headers = {"tenant": "blue"}
    assert result_of(await kit.run("headers", headers=headers)) == headers


async def test_a_control_exception_in_a_group_is_obeyed_in_a_child(kit: Kit):
    await start(kit)
    task = await kit.run("raises", "terminate in a group", options={"max_retries": 3})
    assert task.status.reason is Reason.TERMINATED


@pytest.mark.parametrize(("how", "says"), [(0, "status 7"), (signal.SIGSEGV, "SIGSEGV")])
async def test_a_child_that_dies_costs_its_run_a_try_and_is_replaced(kit: Kit, how: int, says: str):
    await start(kit)
    task = await kit.run("dies", int(how))
    assert error_of(task)[:2] == (State.FAILED, Reason.INTERNAL_ERROR)
    assert task.status.tries == 1
    assert says in task.status.last_error.message  # type: ignore[union-attr]
    assert result_of(await kit.run("where", {"x": 1}))[0] == 1


async def test_a_child_that_was_killed_while_idle_costs_nobody_a_try(kit: Kit):
    await start(kit)
    _, pid = result_of(await kit.run("where", {"x": 1}))
    os.kill(pid, signal.SIGKILL)
    task = await kit.run("where", {"x": 2})
    assert (result_of(task)[0], task.status.tries) == (2, 1)


async def test_exceptions_are_judged_where_their_types_are_known(kit: Kit):
    await start(kit)
    options = {"max_retries": 3}
    assert error_of(await kit.run("raises", "key", options=options))[0] is State.FAILED
    assert error_of(await kit.run("raises", "exit"))[2] == "SystemExit"
    terminated = await kit.run("raises", "terminate", options=options)
    assert terminated.status.reason is Reason.TERMINATED
    for what, state in (("snooze", State.SCHEDULED), ("retry", State.RETRY)):
        task_id = await kit.submit("raises", what, options=options)
        await kit.until(task_id, lambda task, state=state: task.state is state)
    assert error_of(await kit.run("raises", 5))[1] is Reason.MALFORMED_PAYLOAD
    assert error_of(await kit.run("odd"))[1] is Reason.RESULT_INVALID


async def test_what_a_child_prints_logs_and_marks_comes_back(
    kit: Kit, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    await start(kit)
    task = await kit.run("speaks")
    said = {(r.name, r.getMessage(), getattr(r, "task_id", "")) for r in caplog.records}
    assert ("elsewhere", "logged 5", task.id) in said
    assert ("andon.task", "from the context", task.id) in said
    assert any(name == "andon.task" and text == "printed" for name, text, _ in said)
    assert task.state is State.COMPLETED


@pytest.mark.parametrize("name", ["waits", "waits_async"])
async def test_a_cancelled_handler_cleans_up_and_its_child_lives_on(
    kit: Kit, tmp_path: Path, name: str
):
    await start(kit)
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    task_id = await kit.submit(name, str(ready), str(cleaned))
    await written(ready)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    assert cleaned.exists()
    assert result_of(await kit.run("where", {"x": 1}))[1] == int(ready.read_text())


async def test_a_handler_that_ignores_sigterm_is_killed_with_its_child(kit: Kit, tmp_path: Path):
    await start(kit)
    ready = tmp_path / "ready"
    task_id = await kit.submit("deaf", str(ready), cancel_grace=0.1)
    await written(ready)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.HANDLER_KILLED)
    assert not psutil.pid_exists(int(ready.read_text()))
    assert result_of(await kit.run("where", {"x": 1}))[0] == 1


async def test_a_timeout_ends_the_handler_in_the_child(kit: Kit, tmp_path: Path):
    await start(kit)
    await kit.run("where", {"x": 1})
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    task = await kit.run("waits", str(ready), str(cleaned), timeout=0.3)
    assert error_of(task) == (State.FAILED, Reason.TIMEOUT, "TIMEOUT")
    assert cleaned.exists()


async def test_as_many_children_as_run_at_once_and_few_are_kept(kit: Kit, tmp_path: Path):
    worker = await start(kit, children=3, idle_children=1)
    paths = [tmp_path / str(n) for n in range(3)]
    ids = [await kit.submit("waits", str(p), str(tmp_path / f"c{p.name}")) for p in paths]
    for path in paths:
        await written(path)
    assert len({path.read_text() for path in paths}) == 3
    await kit.local.cancel(ids)
    for task_id in ids:
        await kit.end(task_id)
    await worker.stop()
    for path in paths:
        assert not psutil.pid_exists(int(path.read_text()))


async def test_no_more_children_run_than_are_allowed_and_the_rest_waits_unclaimed(
    kit: Kit, tmp_path: Path
):
    await start(kit, children=2)
    held = [tmp_path / f"held{n}" for n in range(2)]
    ids = [await kit.submit("waits", str(p), str(tmp_path / f"c{p.name}")) for p in held]
    for path in held:
        await written(path)
    late = [await kit.submit("where", {"x": n}) for n in range(3)]
    beside = await kit.local.submit([Submission(id="beside", name="inside")])
    assert beside[0].error is None
    assert (await kit.end("beside")).state is State.COMPLETED, "what needs no child goes on"
    for task_id in late:
        task = await kit.get(task_id)
        assert (task.state, task.status.tries) == (State.PENDING, 0)
    await kit.local.cancel(ids)
    for n, task_id in enumerate(late):
        assert result_of(await kit.end(task_id))[0] == n
    assert len({result_of(await kit.end(task_id))[1] for task_id in late}) <= 2


async def test_a_child_that_cannot_import_the_application_says_why(kit: Kit):
    await kit.start(app=f"{children.__name__}:missing")
    task = await kit.run("where", {"x": 1})
    assert error_of(task)[:2] == (State.FAILED, Reason.INTERNAL_ERROR)
    assert "AttributeError" in task.status.last_error.message  # type: ignore[union-attr]


async def test_a_worker_without_the_place_of_its_application_does_not_start(kit: Kit):
    with pytest.raises(ConfigurationError, match="module:attribute"):
        await kit.start()
    kit.workers.clear()


def test_handlers_of_an_interactive_session_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    with pytest.raises(ConfigurationError, match="interactive"):
        hello("__main__:app")


SCRIPT = """
import asyncio
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.stores.memory import MemoryStore
from andon.worker.calls import Call
from andon.worker.registry import Registry, TaskType
from andon.worker.config import WorkerConfig
from andon.worker.worker import Worker

def double(n: int) -> int:
    return n * FACTOR

FACTOR = 2
registry = Registry()
registry.add(TaskType(name="double", handler=double, kind="process", codec=Call(double)))

async def main():
    engine = LocalEngine(MemoryStore("memory://"))
    await engine.open()
    worker = Worker(engine, registry, WorkerConfig(app="__main__:registry"))
    await worker.start()
    await engine.submit([Submission(id="a", name="double", args=b"[21]", queue="default")])
    print((await engine.wait_end("a", 20)).result.decode())
    await worker.stop()
    await engine.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_handlers_in_a_script_run_in_children_too(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)


def test_children_end_when_their_worker_is_killed(tmp_path: Path):
    ready = tmp_path / "ready"
    script = tmp_path / "script.py"
    script.write_text(
        SCRIPT.replace(
            "return n * FACTOR",
            f"open({str(ready)!r}, 'w').write(str(os.getpid())); import time; time.sleep(60)",
        ).replace("import asyncio", "import asyncio, os")
    )
    with subprocess.Popen([sys.executable, script]) as worker:
        try:
            child = psutil.Process(int(asyncio.run(written(ready))))
        finally:
            worker.kill()
        psutil.wait_procs([child], timeout=WAIT)
        assert not child.is_running() or child.status() == "zombie"


async def test_a_child_is_given_the_results_of_dependencies_as_arguments(kit: Kit):
    await start(kit)
    await kit.run("inside", id="inner")
    fields = {"dependencies": ("inner",), "load_dependencies": True}
    headers = {"andon-results": "p"}
    args = b'{"p": {"x": {"$result": "inner"}}}'
    task = await kit.run("where", args=args, headers=headers, **fields)
    assert result_of(task)[0] == os.getpid()
    assert b"$result" in task.definition.args, "what is kept is what was submitted"
