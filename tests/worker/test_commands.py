"""Commands: a program is told by stdin and environment, and judged by its exit status."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from andon.model.words import Event, Reason, State
from andon.worker.executors.commands import CommandExecutor

from .kit import Kit, error_of, gone, result_of, written


def python(kit: Kit, script: str, name: str = "script", **settings: Any) -> None:
    kit.add(None, name=name, kind="command", argv=(sys.executable, "-S", "-c", script), **settings)


def one_that_cleans_up(kit: Kit, ready: Path, cleaned: Path) -> None:
    """A program that writes one file when it is at work, another when it is told to stop."""
    python(
        kit,
        "import signal,sys,time\n"
        "def stop(*_):\n"
        f"    open({str(cleaned)!r}, 'w').write('yes'); signal.signal(15, signal.SIG_DFL)\n"
        "    signal.raise_signal(15)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        f"open({str(ready)!r}, 'w').write('yes')\n"
        "time.sleep(60)",
    )


async def test_the_payload_comes_on_stdin_and_json_on_stdout_is_the_result(kit: Kit):
    python(kit, "import sys,json; print(json.dumps({'got': json.load(sys.stdin)}))")
    await kit.start()
    assert result_of(await kit.run("script", args=b'{"x":[1]}')) == {"got": {"x": [1]}}


@pytest.mark.parametrize(
    ("script", "result"), [("print('not json')", "not json\n"), ("pass", None)]
)
async def test_other_output_is_a_string_and_none_is_null(kit: Kit, script: str, result: Any):
    python(kit, script)
    await kit.start()
    assert result_of(await kit.run("script")) == result


async def test_the_environment_names_task_run_and_fence(kit: Kit):
    python(
        kit,
        "import os,json;"
        "print(json.dumps([os.environ['ANDON_'+k] for k in ('TASK_ID','RUN','FENCE')]))",
    )
    await kit.start()
    task = await kit.run("script", id="me")
    assert result_of(task) == ["me", "0", str(task.status.fence)]


async def test_the_environment_has_the_headers_of_the_task(kit: Kit):
    python(kit, "import os; print(os.environ['ANDON_HEADERS'])")
    await kit.start()
    headers = {"tenant": "blue", "note": "a\0b"}
    assert result_of(await kit.run("script", headers=headers)) == headers
    assert result_of(await kit.run("script")) == {}


async def test_headers_too_large_for_a_variable_are_left_out_and_the_log_says_so(
    kit: Kit, caplog: pytest.LogCaptureFixture
):
    python(kit, "import os; print(os.environ['ANDON_HEADERS'])")
    await kit.start()
    assert result_of(await kit.run("script", headers={"note": "x" * 70_000})) == {}
    assert "too large for ANDON_HEADERS" in caplog.text


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        (1, State.FAILED, Reason.ERROR),
        (64, State.FAILED, Reason.TERMINATED),
        (65, State.FAILED, Reason.MALFORMED_PAYLOAD),
        (75, State.RETRY, Reason.INTERMITTENT_TASK),
        (85, State.SCHEDULED, Reason.SNOOZED),
    ],
)
async def test_the_exit_status_decides(kit: Kit, status: int, state: State, reason: Reason):
    python(kit, f"import sys; print(120); print('sorry', file=sys.stderr); sys.exit({status})")
    await kit.start()
    options = {"max_retries": 1, "no_retry_on": ("EXIT_1",)}
    task_id = await kit.submit("script", options=options)
    task = await kit.until(task_id, lambda task: task.state is state)
    assert task.status.reason is reason
    if state is State.FAILED:
        assert task.status.last_error is not None
        assert task.status.last_error.message == f"The command ended with status {status}: sorry"
    if state is State.SCHEDULED:
        assert task.status.run_at == task.status.runs[0].resolved_at + 120_000  # type: ignore[operator]


async def test_stderr_is_logged_with_the_task_it_belongs_to(
    kit: Kit, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "andon.task")
    python(kit, "import sys; sys.stderr.buffer.write(b'one\\ntwo\\xff' + b'x' * 20_000)")
    await kit.start()
    task = await kit.run("script")
    lines = [r for r in caplog.records if r.name == "andon.task"]
    assert lines[0].getMessage() == "one"
    assert lines[1].getMessage().startswith("two\ufffdxxx")
    assert {r.task_id for r in lines} == {task.id}  # type: ignore[attr-defined]


async def test_more_output_than_a_result_may_take_ends_the_command(kit: Kit):
    python(kit, "while True: print('x' * 1000)")
    await kit.start(max_payload=5000)
    assert error_of(await kit.run("script"))[:2] == (State.FAILED, Reason.RESULT_INVALID)


async def test_a_command_that_cannot_be_started_fails(kit: Kit):
    kit.add(None, name="none", kind="command", argv=("/no/such/program",))
    await kit.start()
    assert error_of(await kit.run("none"))[:2] == (State.FAILED, Reason.INTERNAL_ERROR)


async def test_a_command_that_does_not_read_its_input_is_fine(kit: Kit):
    python(kit, "print(1)")
    await kit.start()
    assert result_of(await kit.run("script", args=b'"' + b"x" * 200_000 + b'"')) == 1


async def test_a_process_left_behind_does_not_hold_the_run(kit: Kit, tmp_path: Path):
    pid = tmp_path / "pid"
    python(
        kit,
        "import subprocess,sys;"
        "p = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(60)']);"
        f"open({str(pid)!r}, 'w').write(str(p.pid)); print(3)",
    )
    await kit.start()
    assert result_of(await kit.run("script")) == 3
    await gone(int(pid.read_text()))


async def test_a_cancelled_command_gets_sigterm_and_may_clean_up(kit: Kit, tmp_path: Path):
    ready, cleaned = tmp_path / "ready", tmp_path / "cleaned"
    one_that_cleans_up(kit, ready, cleaned)
    await kit.start()
    task_id = await kit.submit("script")
    await written(ready)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.CANCEL_REQUESTED)
    assert cleaned.exists()


async def test_a_command_told_while_it_is_being_started_does_not_begin(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ready = tmp_path / "ready"
    started, told = asyncio.Event(), asyncio.Event()
    start, stop = asyncio.create_subprocess_exec, CommandExecutor.stop

    async def slowly(*words: Any, **settings: Any) -> Any:
        process = await start(*words, **settings)
        started.set()
        await told.wait()
        return process

    def tell(executor: CommandExecutor, run: Any) -> None:
        stop(executor, run)
        told.set()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    monkeypatch.setattr(CommandExecutor, "stop", tell)
    python(kit, f"open({str(ready)!r}, 'w').write('yes')")
    await kit.start()
    task_id = await kit.submit("script")
    await started.wait()
    await kit.local.cancel([task_id])
    assert (await kit.end(task_id)).state is State.CANCELLED
    assert not ready.exists()


async def test_a_command_that_ignores_sigterm_is_killed(kit: Kit, tmp_path: Path):
    ready = tmp_path / "ready"
    python(
        kit,
        "import os,signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open({str(ready)!r}, 'w').write(str(os.getpid())); time.sleep(60)",
    )
    await kit.start()
    task_id = await kit.submit("script", cancel_grace=0.1)
    await written(ready)
    await kit.local.cancel([task_id])
    task = await kit.end(task_id)
    assert (task.state, task.status.reason) == (State.CANCELLED, Reason.HANDLER_KILLED)
    await gone(int(ready.read_text()))


async def test_a_command_is_killed_at_its_timeout(kit: Kit):
    python(kit, "import time; time.sleep(60)")
    await kit.start()
    assert error_of(await kit.run("script", timeout=0.1))[1:] == (Reason.TIMEOUT, "TIMEOUT")


async def test_a_command_that_dies_of_a_signal_fails(kit: Kit):
    python(kit, "import os; os.kill(os.getpid(), 9)")
    await kit.start()
    assert error_of(await kit.run("script")) == (State.FAILED, Reason.ERROR, "SIGKILL")


async def test_a_command_does_not_share_the_workers_process_group(kit: Kit):
    python(kit, "import os; print(os.getpgid(0))")
    await kit.start()
    task = await kit.run("script")
    assert result_of(task) != os.getpgid(0)
    assert task.status.runs[0].resolved_event is Event.COMPLETE
