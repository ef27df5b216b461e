"""What a worker started dies with it, also when it is killed by force: real processes."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from processes import WorkerProcess

from andon import Andon
from andon.worker.executors import commands, guardian
from andon.worker.executors.guard import Guard

from .kit import Kit, gone, result_of, until, written

pytestmark = pytest.mark.slow


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def sleeper() -> subprocess.Popen[bytes]:
    """A process group of its own that would sleep for long."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], start_new_session=True
    )


def guardians_of(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if guardian.__file__ in child.cmdline():
                found.append(child)
    return found


async def guardian_of(pid: int) -> psutil.Process:
    """The one guardian of a worker. Linux shows the arguments of a process only some time after the
    worker was told that it has begun."""
    await until(lambda: len(guardians_of(pid)) == 1)
    return guardians_of(pid)[0]


@pytest.mark.parametrize("kind", ["command", "child"])
async def test_a_run_and_what_it_started_die_with_a_worker_that_is_killed(
    kind: str, tmp_path: Path
):
    url = f"sqlite:///{tmp_path}/tasks.db"
    app = Andon(url)
    await app.submit(kind, {})
    worker = WorkerProcess("worker.killed_app:app", url, tmp_path, id="w", queue="default")
    try:
        run, child = map(int, (await written(tmp_path / kind)).split())
        watching = (await guardian_of(worker.pid)).pid
        assert is_alive(run)
        assert is_alive(child)
    finally:
        worker.kill()
        await worker.exited()
        await app.close()
    for pid in (run, child, watching):
        await gone(pid)


async def test_a_worker_that_is_killed_before_its_guardian_knows_of_a_command_has_not_begun_it(
    kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The worker's end of stdin closes, as it does when the worker is killed at that moment."""
    begun = tmp_path / "begun"
    held: list[int] = []

    def lose(guard: Guard, group: int) -> None:
        held.append(group)

    async def die(writer: asyncio.StreamWriter, go: bytes, payload: bytes) -> None:
        assert go
        assert payload
        writer.close()

    monkeypatch.setattr(Guard, "hold", lose)
    monkeypatch.setattr(commands, "_feed", die)
    kit.add(
        None,
        name="script",
        kind="command",
        argv=(sys.executable, "-I", "-S", "-c", f"open({str(begun)!r}, 'w')"),
    )
    await kit.start()
    await kit.run("script")
    await gone(held[0])
    assert not begun.exists()


async def test_a_command_reads_its_payload_and_not_the_line_it_waited_for(kit: Kit):
    script = "import sys; data = sys.stdin.buffer.read(); print(len(data), data[:4])"
    kit.add(None, name="s", kind="command", argv=(sys.executable, "-I", "-S", "-c", script))
    await kit.start()
    payload = b'"' + b"go\\n" * 50_000 + b'"'
    assert result_of(await kit.run("s", args=payload)) == f"{len(payload)} b'\"go\\\\'\n"


async def test_a_guardian_that_is_killed_is_replaced_by_one_that_knows_all(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("andon.worker.executors.guard._AGAIN_S", 0.0)
    guard, groups = Guard(), [sleeper(), sleeper()]
    try:
        for group in groups:
            guard.hold(group.pid)
        assert guard._process is not None
        first = psutil.Process(guard._process.pid)
        first.kill()

        def is_replaced() -> bool:
            process = guard._process
            return process is not None and process.pid != first.pid

        await until(is_replaced)
        assert "watches over commands has ended" in caplog.text
        guard.release(groups[0].pid)
        guard.close()
        assert groups[1].wait(20) == -signal.SIGKILL
        assert groups[0].poll() is None
    finally:
        for group in groups:
            group.kill()
            group.wait()


async def test_a_guardian_that_hangs_is_replaced_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("andon.worker.executors.guard._AGAIN_S", 0.0)
    guard, group = Guard(), sleeper()
    try:
        guard.hold(group.pid)
        assert guard._process is not None
        first = psutil.Process(guard._process.pid)
        first.suspend()
        while guard._process is not None and guard._process.pid == first.pid:
            guard.release(group.pid)  # until its pipe is full
            guard.hold(group.pid)
        await until(lambda: guard._process is not None)
        guard.close()
        assert group.wait(20) == -signal.SIGKILL
    finally:
        group.kill()
        group.wait()


async def test_groups_are_killed_when_their_guard_is_closed_while_the_guardian_hangs(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("andon.worker.executors.guard._END_S", 0.0)
    guard, group = Guard(), sleeper()
    try:
        guard.hold(group.pid)
        assert guard._process is not None
        psutil.Process(guard._process.pid).suspend()
        guard.close()
        assert group.wait(20) == -signal.SIGKILL
    finally:
        group.kill()
        group.wait()


async def test_a_worker_without_a_guardian_says_so_and_runs_on(
    kit: Kit, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    kit.add(None, name="echo", kind="command", argv=("cat",))
    await kit.start()
    assert result_of(await kit.run("echo", args=b"[5]")) == [5]
    assert "outlive this worker if it is killed" in caplog.text


async def test_a_command_runs_where_there_is_no_shell(kit: Kit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commands, "_GATE", ("/no/such/sh",))
    kit.add(None, name="echo", kind="command", argv=("cat",))
    await kit.start()
    assert result_of(await kit.run("echo", args=b"[5]")) == [5]


async def test_a_worker_that_stops_leaves_no_guardian(kit: Kit, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    kit.add(None, name="echo", kind="command", argv=("cat",))
    worker = await kit.start()
    await kit.run("echo", args=b"[5]")
    watching = await guardian_of(os.getpid())
    await worker.stop()
    assert not is_alive(watching.pid)


def test_a_guardian_kills_what_is_held_when_its_parent_is_another():
    """A process that was forked off the worker holds the pipe open: its end tells nothing."""
    group = sleeper()
    parent = (
        "import os, subprocess, sys\n"
        "source, sink = os.pipe()\n"
        f"subprocess.Popen([sys.executable, '-I', '-S', {guardian.__file__!r}, str(os.getpid())],"
        " stdin=source, start_new_session=True)\n"
        f"os.write(sink, b'+{group.pid}\\n')\n"
        "if os.fork() == 0:\n"
        "    os.close(1); os.close(2)\n"
        "    import time; time.sleep(600)\n"
        "print(os.getpid(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    worker = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", parent], start_new_session=True, stdout=subprocess.PIPE
    )
    try:
        assert group.wait(20) == -signal.SIGKILL
    finally:
        group.kill()
        group.wait()
        worker.communicate()
        os.killpg(worker.pid, signal.SIGKILL)  # the fork that holds the pipe
