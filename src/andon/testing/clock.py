"""An asyncio event loop whose time is virtual: it jumps to the next timer when nothing is ready.

`asyncio.sleep(3600)` takes no time and sleepers wake in the right order. What a thread does takes
real time: while one that the loop started is at work, virtual time stands still. While such a
thread waits for the loop itself (the sync face), time goes on.

Real sockets and child processes are noticed when they are ready, but virtual time does not wait for
them: put a test that needs them inside `loop.outside()`.
"""

import asyncio
import functools
import math
import selectors
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START = datetime(2030, 1, 1, tzinfo=UTC)
"""When virtual time begins, for clocks that show a date."""


_START_MS = round(START.timestamp() * 1000)
_NOISE_MS = 1e-6


class NothingLeft(RuntimeError):
    """Everything waits for ever: no timer, thread or callback is left to wake a coroutine.

    Example:
        import asyncio
        from andon.testing import NothingLeft, run_virtual

        async def wait_for_nothing():
            await asyncio.Event().wait()

        try:
            run_virtual(wait_for_nothing())
        except NothingLeft as error:
            print(error)
        else:
            raise AssertionError("something has happened")
    """


class _JumpingSelector(selectors.DefaultSelector):
    """Asks the loop what to do instead of waiting."""

    def __init__(self, wait: Callable[[float | None], float | None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        return super().select(self._wait(timeout))


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop. `time()` starts at 0 and moves only when nothing is ready.

    Example:
        import asyncio
        from andon.testing import VirtualLoop, run_virtual

        async def a_year():
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            await asyncio.sleep(365 * 86_400)
            with loop.outside():  # a socket or a child process is waited for in here
                pass
            await loop.quiet()

        run_virtual(a_year())
    """

    def __init__(self) -> None:
        self._virtual = 0.0
        self._outside = 0
        self._quiet: list[asyncio.Future[None]] = []
        self._moved: list[asyncio.Future[None]] = []
        super().__init__(_JumpingSelector(self._nothing_ready))
        # What asyncio takes for "now": more than the last digit of a float after thirty years.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual

    def wall_ms(self) -> int:
        """Virtual ms since 1970 UTC, beginning with `START`.

        Rounded up, so that a sleep until some ms, begun between two of them, is never too short.
        """
        return _START_MS + math.ceil(self._virtual * 1000 - _NOISE_MS)

    async def quiet(self) -> None:
        """Wait until every coroutine waits for time to pass, and no thread works. Passes no
        time."""
        future = self.create_future()
        self._quiet.append(future)
        await future

    async def moved(self) -> None:
        """Wait until time has moved to the next timer."""
        future = self.create_future()
        self._moved.append(future)
        await future

    @contextmanager
    def outside(self) -> Generator[None]:
        """Time stands still inside: what is waited for happens outside of this loop."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    @contextmanager
    def thread_waits(self) -> Generator[None]:
        """Time goes on inside: a thread that was started here waits for this loop."""
        self._outside -= 1
        try:
            yield
        finally:
            self._outside += 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As in asyncio; time stands still until the call has returned."""
        future = super().run_in_executor(executor, func, *args)
        self._outside += 1
        future.add_done_callback(self._back)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """As in asyncio; its threads are waited for in real time."""
        with self.outside():
            await super().shutdown_default_executor(*args, **kwargs)

    def _back(self, future: "asyncio.Future[Any]") -> None:
        self._outside -= 1

    def _nothing_ready(self, timeout: float | None) -> float | None:
        """Called when nothing is ready: how long to wait for real, after what was done here."""
        if self._outside > 0:
            return None  # a thread at work wakes the loop when it is done
        if self._quiet:
            self._quiet = _wake(self._quiet)
            return 0
        if timeout is None:
            raise NothingLeft(
                "Every coroutine waits for something that cannot happen any more: there is no "
                "timer and no thread left. A task may be blocked, or its worker not be running."
            )
        self._virtual += timeout
        self._moved = _wake(self._moved)
        return 0


def _wake(waiting: list[asyncio.Future[None]]) -> list[asyncio.Future[None]]:
    for future in waiting:
        if not future.done():
            future.set_result(None)
    return []


def virtual_time(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, T]:
    """Make an async test one that every test runner can call: it runs in virtual time.

    Example:
        import asyncio
        from andon.testing import virtual_time

        @virtual_time
        async def test_an_hour_passes_at_once():
            await asyncio.sleep(3600)

        test_an_hour_passes_at_once()
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtual(function(*args, **kwargs))

    return run


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time, as `asyncio.run` does in real time.

    Example:
        import asyncio
        from andon.testing import run_virtual

        assert run_virtual(asyncio.sleep(3600, "an hour later")) == "an hour later"
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
