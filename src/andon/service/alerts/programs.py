"""Runs programs that receive alerts: once for each, with little of the service's environment. A
program is killed with all that it started, also when the service dies."""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Mapping, Sequence

from andon.model.text import one_line, storable
from andon.worker import environment
from andon.worker.executors.guard import Guard
from andon.worker.executors.killing import signal_group

_MOST_READ = 64 * 1024
_MOST_SHOWN = 500
_PIPES_S = 1.0
"""How long pipes may stay open after the exit: a process left behind must not hold the delivery."""

_NOT_STARTED = 127
"""The exit statuses of shells for a program that cannot be started."""


class Programs:
    """Runs programs."""

    def __init__(self) -> None:
        self._guard = Guard()

    def close(self) -> None:
        """End the process that watches over them."""
        self._guard.close()

    async def run(
        self, argv: Sequence[str], stdin: bytes, variables: Mapping[str, str]
    ) -> tuple[int, str]:
        """Run a program to its end. Returns its exit status, and the end of its output in one line.
        Cancelling this kills it."""
        said = {name: value.replace("\0", "") for name, value in variables.items()}
        given = environment.of_command(environment.worker_environment(), (), said)
        if shutil.which(argv[0], path=given.get("PATH", os.defpath)) is None:
            return _NOT_STARTED, f"{argv[0]} is no program that can be run here."
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=given, start_new_session=True
            )
        except OSError as error:
            return _NOT_STARTED, f"{argv[0]} cannot be started: {error.strerror}."
        self._guard.hold(process.pid)
        output = bytearray()
        pipes = [
            asyncio.create_task(_tail(process, output)),
            asyncio.create_task(_feed(process, stdin)),
        ]
        try:
            code = await process.wait()
            await asyncio.wait(pipes, timeout=_PIPES_S)
        finally:
            signal_group(process.pid, signal.SIGKILL)  # it, and whatever it left behind
            self._guard.release(process.pid)
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(process.wait(), *pipes, return_exceptions=True)
        text = storable(one_line(output.decode("utf-8", "replace").strip()))
        return code, text[-_MOST_SHOWN:]


async def _feed(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    pipe = process.stdin
    assert pipe is not None
    try:
        pipe.write(stdin)
        await pipe.drain()
        pipe.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # it does not read its input


async def _tail(process: asyncio.subprocess.Process, kept: bytearray) -> None:
    """The end of its output."""
    pipe = process.stdout
    assert pipe is not None
    while some := await pipe.read(_MOST_READ):
        kept += some
        del kept[:-_MOST_READ]
