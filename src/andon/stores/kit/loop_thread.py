"""An event loop in a thread of its own, for calls that must go on while the store's loop is
blocked.

A handler that blocks the worker's loop must not cost it its lease: a store whose client needs a
loop renews here, over connections of its own. The thread is made by the first call, so that
processes which only submit have none.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from andon.model.errors import StoreUnavailable

T = TypeVar("T")

_END_S = 5.0
"""How long closing waits for the thread."""


class LoopThread:
    """Blocking calls of coroutines, from any thread. `shown` names the store in errors."""

    def __init__(self, name: str, shown: str) -> None:
        self._name = name
        self._shown = shown
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The outcome of the work, which is made and awaited on the thread's loop. Blocks. Raises
        `StoreUnavailable` once this is closed, also if that comes while it is under way."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"The store at {self._shown} is closed.")
            loop = self._loop or self._start()
            outcome = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return outcome.result()
        except CancelledError:
            raise StoreUnavailable(f"The store at {self._shown} was closed meanwhile.") from None

    def close(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let `end` close the connections, cancel what is still under way, end the thread. Blocks
        for a moment. Idempotent; without a call before there is nothing to end."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
            thread = self._thread
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_end(end), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_END_S)
            if not thread.is_alive():
                loop.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name=self._name, daemon=True)
        self._thread.start()
        return loop


async def _end(end: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        await end()
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
