"""The demo's worker processes: started, replaced when one dies, stopped together.

Worker processes are the point of the demo, so killing one is part of it: another takes its place,
and what it had in hand goes on when its lease has run out.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from andon.model.errors import AndonError

STOP_S = 8.0
"""How long workers may take to stop before they are killed."""

_SHORT_LIFE_S = 3.0
_SHORT_LIVES = 3
"""So many lives in a row, each this short: they will not work, and the demo says so."""


class Crew:
    """`size` worker processes on one queue of one store."""

    def __init__(self, *, url: str, queue: str, size: int, concurrency: int, log: Path) -> None:
        self._env = {**os.environ, "ANDON_URL": url}
        self._args = ("--queue", queue, "--concurrency", str(concurrency))
        self._size = size
        self._log = log
        self._processes: dict[int, Process] = {}
        self._tending: list[asyncio.Task[None]] = []
        self._stopping = False
        self.lost = 0  #: workers that died and were replaced
        self.killed: list[int] = []  #: process ids of those that the demo itself has killed
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with `AndonError` when workers cannot be kept alive."""

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers alive."""
        return sorted(p.pid for p in self._processes.values() if p.returncode is None)

    def start(self) -> None:
        """Start them all."""
        self._tending = [asyncio.create_task(self._tend(slot)) for slot in range(self._size)]

    async def stop(self) -> None:
        """Ask them to stop, and kill those that do not."""
        self._stopping = True
        alive = [p for p in self._processes.values() if p.returncode is None]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        if alive:
            await asyncio.wait([asyncio.create_task(p.wait()) for p in alive], timeout=STOP_S)
        self.kill()
        for task in self._tending:
            task.cancel()
        await asyncio.gather(*self._tending, return_exceptions=True)
        self.failure.cancel()

    def kill(self) -> None:
        """End those that are still there at once."""
        self._stopping = True
        for process in self._processes.values():
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    def kill_one(self) -> int | None:
        """Kill a worker with SIGKILL, as from outside: another takes its place. Its process id, or
        None if there is none."""
        for process in self._processes.values():
            if process.returncode is None and process.pid not in self.killed:
                process.kill()
                self.killed.append(process.pid)
                return process.pid
        return None

    async def _tend(self, slot: int) -> None:
        short = 0
        while not self._stopping:
            born = time.monotonic()
            process = self._processes[slot] = await self._start_one()
            status = await process.wait()
            if self._stopping:
                return
            self.lost += 1
            short = short + 1 if time.monotonic() - born < _SHORT_LIFE_S else 0
            if short == _SHORT_LIVES:
                self._fail(status)
                return

    async def _start_one(self) -> Process:
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "andon.demo.worker",
                *self._args,
                stdin=PIPE,
                stdout=log,
                stderr=log,
                env=self._env,
                start_new_session=True,  # a Ctrl-C at the terminal is the demo's to handle
            )

    def _fail(self, status: int) -> None:
        if not self.failure.done():
            self.failure.set_exception(
                AndonError(
                    f"The worker processes end as soon as they start (status {status}). "
                    f"What they said is in {self._log}."
                )
            )
