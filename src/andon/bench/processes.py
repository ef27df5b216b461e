"""The worker process of a measurement."""

import asyncio
import json
import os
import signal
import sys
from types import TracebackType

from andon.model.errors import AndonError

_START_S = 30.0
_STOP_S = 30.0


class WorkerFailed(AndonError):
    """The worker process ended, or did not get ready, and the measurement with it."""


class WorkerProcess:
    """`async with WorkerProcess(...)`: a worker that is running, stopped at the end.

    `before` and `after` are what it had used (see `usage`) when its imports were done and when
    it had left.
    """

    def __init__(self, url: str, queue: str, *, concurrency: int) -> None:
        self._arguments = ("-m", "andon.bench.worker", queue, str(concurrency))
        self._environment = {**os.environ, "ANDON_URL": url}
        self._process: asyncio.subprocess.Process | None = None
        self.before: dict[str, float] = {}
        self.after: dict[str, float] = {}

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> "WorkerProcess":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # an interrupt of the measurement stops it in order
        )
        try:
            self.before = await self._said(_START_S)
        except BaseException:
            self._process.kill()
            raise
        return self

    def check(self) -> None:
        """Raise `WorkerFailed` if the process has ended."""
        assert self._process is not None
        if self._process.returncode is not None:
            raise WorkerFailed(f"The worker ended with code {self._process.returncode}.")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            self.after = await self._said(_STOP_S)
        except WorkerFailed:
            if error is None:
                raise
        finally:
            if process.returncode is None:
                try:
                    await asyncio.wait_for(process.wait(), _STOP_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()

    async def _said(self, timeout: float) -> dict[str, float]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), timeout)
        except TimeoutError:
            raise WorkerFailed(f"The worker said nothing for {timeout:.0f} s.") from None
        if not line:
            raise WorkerFailed(f"The worker ended with code {await self._process.wait()}.")
        return json.loads(line)
