"""Commands: a program per run, spoken to by stdin, stdout, stderr and its exit status.

| | |
|---|---|
| stdin | the payload, JSON |
| stdout | the result: JSON if it parses, else a string; nothing is null |
| stderr | log lines |
| environment | `ANDON_TASK_ID`, `_RUN`, `_FENCE`, `_HEADERS`, and what `environment` allows |
| `ANDON_FOLLOW_UPS` | the file for follow-ups, a line of JSON each (`command_follow_ups`) |
| exit 0 | completed |
| exit 64 | terminate: given up, whatever the budget |
| exit 65 | malformed payload |
| exit 75 | failed, retried while the budget lasts |
| exit 85 | snoozed for the seconds that stdout says, else a minute |
| any other | failed |

It runs in a process group of its own, and is stopped by SIGTERM to the group, then SIGKILL. The
group is killed when the worker dies, even by force (`guard`): the process waits for a line on its
stdin until the guardian knows of it, and executes the program only then.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from andon.lifecycle.commands import Command, Fail, Reject, Snooze, Terminate
from andon.model.errors import InvalidSubmission
from andon.model.task import TaskError
from andon.model.text import storable
from andon.model.words import Reason
from andon.worker import environment, outcomes
from andon.worker.context import Context
from andon.worker.control import Stopped
from andon.worker.executors.base import Resolved, RunInHand
from andon.worker.executors.command_follow_ups import VARIABLE, FollowUpFiles
from andon.worker.executors.guard import Guard
from andon.worker.executors.killing import KILL_AFTER_S, signal_group, stop_group
from andon.worker.executors.lines import each_line

SNOOZE_S = 60.0
_PIPES_S = 1.0
"""How long pipes may stay open after the exit: a daemon left behind must not hold the run."""

_LOOK_S = 0.25
_MOST_HEADERS = 65_536
"""Bytes. Linux starts no program that is given a variable of twice as many."""

_TAIL_LINES = 50


_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@"', "andon-command")
"""Executes the program once a line has come on stdin, or exits if stdin ends: `read` takes that
line and no more. So no program ever runs that the guardian would not kill."""

_GO = b"go\n"

_STARTING = object()
"""The `where` of a run whose process may have begun, though its pipes are not connected yet."""


class _Running:
    __slots__ = ("process", "timer")

    def __init__(self, process: Process) -> None:
        self.process = process
        self.timer: asyncio.TimerHandle | None = None


class CommandExecutor:
    """Starts one process per run."""

    interrupts = True
    kills = True

    def __init__(
        self, *, max_payload: int, pass_env: Sequence[str] = (), guard: Guard | None = None
    ) -> None:
        """`pass_env`: variables of the worker's environment that every command gets."""
        self._max_payload = max_payload
        self._pass_env = tuple(pass_env)
        self._guard = guard or Guard()
        has_gate = os.access(_GATE[0], os.X_OK)  # some containers have no shell
        self._gate, self._go = (_GATE, _GO) if has_gate else ((), b"")
        self._running: set[_Running] = set()
        self._follow_ups = FollowUpFiles()

    async def execute(self, run: RunInHand) -> Any:
        run_id = run.task.status.run
        try:
            value = await self._execute(run)
            run.context.follow_ups = await self._follow_ups.read(run_id)
        except InvalidSubmission as error:
            raise Resolved(outcomes.invalid_result(str(error))) from None
        finally:
            self._follow_ups.forget(run_id)
        return value

    async def _execute(self, run: RunInHand) -> Any:
        kind, context = run.kind, run.context
        assert kind is not None
        variables = environment.of_command(
            environment.worker_environment(),
            (*self._pass_env, *kind.pass_env),
            {
                **kind.env,
                "ANDON_TASK_ID": context.task_id,
                "ANDON_RUN": str(context.run),
                "ANDON_FENCE": str(context.fence),
                "ANDON_HEADERS": _headers(context),
                VARIABLE: str(self._follow_ups.path(run.task.status.run)),
            },
        )
        run.where = _STARTING
        try:
            _check_program(kind.argv[0], variables)
            process = await asyncio.create_subprocess_exec(
                *self._gate,
                *kind.argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=variables,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            message = f"Cannot start {kind.argv[0]!r}: {error}"
            raise Resolved(outcomes.internal(message)) from None
        self._guard.hold(process.pid)
        running = run.where = _Running(process)
        self._running.add(running)
        try:
            if context.stop_reason:  # it was asked to stop while the process started
                self.stop(run)
            return await self._converse(run, process)
        finally:
            self._running.discard(running)
            if running.timer is not None:
                running.timer.cancel()
            if process.returncode is None or context.stop_reason:
                signal_group(process.pid, signal.SIGKILL)  # and whatever it left behind
            self._guard.release(process.pid)

    async def _converse(self, run: RunInHand, process: Process) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        output = bytearray()
        tail: deque[str] = deque(maxlen=_TAIL_LINES)

        def log(line: str) -> None:
            tail.append(line)
            run.context.log.info("%s", line)

        talks = {
            asyncio.ensure_future(_feed(process.stdin, self._go, run.handed.definition.args)),
            asyncio.ensure_future(self._collect(process, process.stdout, output)),
            asyncio.ensure_future(each_line(process.stderr, log)),
        }
        try:
            status = await _exit_of(process)
            _, left = await asyncio.wait(talks, timeout=_PIPES_S)
            if left:
                signal_group(process.pid, signal.SIGKILL)  # what it left behind holds the pipes
        finally:
            for talk in talks:
                talk.cancel()
            await asyncio.gather(*talks, return_exceptions=True)
        return self._outcome(run, status, bytes(output), list(tail))

    async def _collect(
        self, process: Process, reader: asyncio.StreamReader, output: bytearray
    ) -> None:
        """Read stdout; kill the process once it is more than a result may take."""
        while chunk := await reader.read(65_536):
            output += chunk
            if len(output) > self._max_payload:
                signal_group(process.pid, signal.SIGKILL)
                return

    def _outcome(self, run: RunInHand, status: int, output: bytes, tail: list[str]) -> Any:
        if run.context.stop_reason and status < 0:
            raise Stopped(run.context.stop_reason)
        if len(output) > self._max_payload:
            message = f"The command printed more than the {self._max_payload:,} bytes allowed."
            raise Resolved(outcomes.invalid_result(message))
        if status == 0:
            return _parsed(output)
        raise Resolved(_failure(status, output, tail))

    def stop(self, run: RunInHand) -> None:
        running = run.where
        if running is None and run.handle is not None:
            run.handle.cancel()  # middleware has not let it start
        if not isinstance(running, _Running) or running.timer is not None:
            return  # one that is being started is stopped as soon as it can be

        def killed() -> None:
            run.killed = True

        within = min(KILL_AFTER_S, run.task.policy.cancel_grace)
        running.timer = stop_group(running.process.pid, within=within, killed=killed)

    async def close(self) -> None:
        for running in list(self._running):
            signal_group(running.process.pid, signal.SIGKILL)
        self._follow_ups.close()


def _headers(context: Context) -> str:
    """The task's headers as a JSON object; none if they are more than a variable may hold."""
    headers = msgspec.json.encode(dict(context.headers)).decode()
    if len(headers.encode()) <= _MOST_HEADERS:
        return headers
    context.log.warning("The task's headers are too large for ANDON_HEADERS, and left out.")
    return "{}"


def _check_program(program: str, variables: Mapping[str, str]) -> None:
    """Raise `OSError` for a program that cannot be started, before a shell fails with a message of
    its own."""
    if shutil.which(program, path=variables.get("PATH")) is None:
        if os.path.dirname(program):  # noqa: PTH120
            os.stat(program)  # noqa: PTH116 - says what is wrong, if it is not there
            raise PermissionError("it may not be executed")
        raise FileNotFoundError("it is in no folder of PATH")


async def _exit_of(process: Process) -> int:
    """The exit status, also while a process left behind holds the pipes: asyncio's own `wait`
    waits for those too."""
    exited = asyncio.ensure_future(process.wait())
    try:
        while process.returncode is None:
            await asyncio.wait((exited,), timeout=_LOOK_S)
        return process.returncode
    finally:
        exited.cancel()


def _failure(status: int, output: bytes, tail: list[str]) -> Command:
    how = f"status {status}"
    code = f"EXIT_{status}"
    if status < 0:
        with contextlib.suppress(ValueError):
            how, code = signal.Signals(-status).name, signal.Signals(-status).name
    last = next((line for line in reversed(tail) if line.strip()), "")
    message = f"The command ended with {how}{': ' + last if last else '.'}"
    error = TaskError(
        message=storable(message)[: outcomes.MOST_ERROR],
        code=code,
        traceback=storable("\n".join(tail))[-outcomes.MOST_TRACEBACK :],
    )
    if status == os.EX_USAGE:
        return Terminate(error=error)
    if status == os.EX_DATAERR:
        return Reject(error=error, reason=Reason.MALFORMED_PAYLOAD)
    if status == os.EX_TEMPFAIL:
        return Fail(error=error, reason=Reason.INTERMITTENT_TASK, retryable=True)
    if status == 85:
        value = _parsed(output)
        seconds = value if isinstance(value, int | float) and value >= 0 else SNOOZE_S
        return Snooze(delay=round(min(seconds, 10 * 365 * 86_400) * 1000))
    return Fail(error=error)


def _parsed(output: bytes) -> Any:
    if not output.strip():
        return None
    try:
        return msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return output.decode("utf-8", "replace")


async def _feed(writer: asyncio.StreamWriter, go: bytes, payload: bytes) -> None:
    with contextlib.suppress(OSError):  # a program need not read its input
        writer.write(go + payload)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
        await writer.wait_closed()
