"""Sync handlers, in threads.

The threads are daemons, and not of the standard pool: that joins its threads at exit, so that a
handler that never returns would keep the process from ending. A thread cannot be interrupted; a
handler looks at `ctx.is_cancelled` or calls `ctx.raise_if_cancelled()`.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

from andon.worker import outcomes
from andon.worker.control import Stopped
from andon.worker.executors.base import Resolved, RunInHand

IDLE_S = 30.0
"""A thread without work for so long ends."""

_Job = Callable[[], None]


class ThreadExecutor:
    """As many threads as handlers run at once; idle ones are used again."""

    interrupts = False
    kills = False

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._made = 0
        self._closed = False

    async def execute(self, run: RunInHand) -> Any:
        args, kwargs = run.arguments()
        kind = run.kind
        assert kind is not None
        handler = kind.handler
        assert handler is not None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        scope = contextvars.copy_context()

        def job() -> None:
            value, error = None, None
            try:
                value = scope.run(handler, *args, **kwargs)
            except BaseException as raised:  # handed over: SystemExit must not end the thread
                error = raised
            try:
                loop.call_soon_threadsafe(_hand_over, future, value, error)
            except RuntimeError:  # the loop is closed: an abandoned handler came to its end
                return

        self._submit(job)
        value, error = await future
        if error is None:
            return value
        if isinstance(error, asyncio.CancelledError) and run.context.stop_reason:
            raise Stopped(run.context.stop_reason)
        if isinstance(error, StopIteration | StopAsyncIteration | GeneratorExit):
            # None of these can be raised through a coroutine as what they are.
            raise RuntimeError(f"The handler raised {type(error).__name__}.") from error
        raise error

    def stop(self, run: RunInHand) -> None:
        """A thread cannot be stopped: the handler has to look at the flag in its context."""

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._jobs.put(None)

    def _submit(self, job: _Job) -> None:
        with self._lock:
            start = self._idle == 0
            if start:
                self._threads += 1
                self._made += 1
            else:
                self._idle -= 1  # reserved for this job
        if start:
            self._start(f"andon-handler-{self._made}")
        self._jobs.put(job)

    def _start(self, name: str) -> None:
        """Start a thread, before its job is queued for the others to take: a job for which no
        thread can be started is not run."""
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._threads -= 1
            raise Resolved(
                outcomes.internal(
                    f"There is no thread to be had for the handler ({error}); let the worker's "
                    "machine give more (ulimit -u, the container's limit of pids), or lower the "
                    "worker's concurrency."
                )
            ) from error

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._idle == 0:
                        continue  # a job was just reserved for this thread
                    self._idle -= 1
                    self._threads -= 1
                return
            if job is None:
                return
            job()
            del job  # its result must not live until the next one
            with self._lock:
                self._idle += 1
                if self._closed:
                    return


def _hand_over(
    future: asyncio.Future[tuple[Any, BaseException | None]],
    value: Any,
    error: BaseException | None,
) -> None:
    if not future.done():
        future.set_result((value, error))
