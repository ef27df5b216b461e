"""Runs coroutines for sync code on the event loop of its application.

One background thread per application runs a loop of its own, started by the first call. Sync
methods are made from the async ones by `blocking`, so there is one implementation of each.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextvars import ContextVar
from importlib import import_module
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from andon.model.errors import AndonError

if TYPE_CHECKING:
    from andon.client.connections import Connections

P = ParamSpec("P")
S = TypeVar("S")
X = TypeVar("X")
Y = TypeVar("Y")

_at_exit: Callable[[Callable[[], None]], object] = getattr(
    threading, "_register_atexit", atexit.register
)
"""Registers what is to run when the process ends. `atexit` alone comes too late: by then
`concurrent.futures`, which stores may close themselves with, takes no more work."""

CLOSE_S = 10.0
"""How long the end of the process waits for the background loop to flush and close."""


_ERRANDS: ContextVar[SimpleQueue[Callable[[], None] | None] | None] = ContextVar(
    "errands", default=None
)
"""The work that a coroutine hands to the thread that waits for it."""


def is_called_blocking() -> bool:
    """Whether a thread without an event loop waits for the calling coroutine."""
    return _ERRANDS.get() is not None


async def in_calling_thread(work: Callable[[], X]) -> X:
    """Do something in the thread that called the sync face, which is the one that may use the
    caller's database connection; here and now where the caller is this loop itself."""
    errands = _ERRANDS.get()
    if errands is None:
        return work()
    done: Future[X] = Future()

    def errand() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # the coroutine raises it
            done.set_exception(error)

    errands.put(errand)
    return await asyncio.wrap_future(done)


class Bridge:
    """Runs coroutines of one application for threads that have no event loop."""

    def __init__(self, connections: "Callable[[], Connections]") -> None:
        self._connections = connections
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._closes_at_exit = False

    def run(self, coroutine: Coroutine[Any, Any, X]) -> X:
        """Run it to its end and return its result; interrupting the caller cancels it.

        Raises `AndonError` in a thread whose event loop is running: that loop would stand still.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            coroutine.close()
            raise AndonError(
                "The sync face was called where an event loop runs, which would stop that loop. "
                "Await the async method instead, or call this in asyncio.to_thread."
            )
        errands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        token = _ERRANDS.set(errands)  # the coroutine runs in a copy of this context
        try:
            future = asyncio.run_coroutine_threadsafe(_hosted(coroutine), self._target())
        finally:
            _ERRANDS.reset(token)
        try:
            future.add_done_callback(lambda _: errands.put(None))
            while (errand := errands.get()) is not None:
                errand()
            return future.result()
        except FutureCancelled:
            raise AndonError("The application was closed while this call was under way.") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Flush, disconnect and end the background thread. Idempotent; a later call starts anew."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or not thread.is_alive():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._connections().close(), loop).result(CLOSE_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(CLOSE_S)

    def _target(self) -> asyncio.AbstractEventLoop:
        home = self._connections().home
        if home is not None and home.is_running():
            return home
        with self._lock:
            if self._pid != os.getpid():  # a fork copies no threads
                self._pid, self._loop = os.getpid(), None
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="andon-sync", daemon=True
                )
                self._thread.start()
                if not self._closes_at_exit:
                    self._closes_at_exit = True
                    # Last registered is first called: futures' own end must be registered before.
                    import_module("concurrent.futures.thread")
                    _at_exit(self.close)
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_give_up())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _give_up() -> None:
    """End what is under way, so that no thread waits for it for ever."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _hosted(coroutine: Coroutine[Any, Any, X]) -> X:
    # A loop with virtual time waits for threads at work; this one now waits for the loop.
    loop: Any = asyncio.get_running_loop()
    waits = getattr(loop, "thread_waits", None)
    if waits is None:
        return await coroutine
    with waits():
        return await coroutine


class SyncFace(Protocol):
    """What `blocking` needs of the object it is used in."""

    @property
    def bridge(self) -> Bridge:
        """The way to the loop."""
        ...

    @property
    def inner(self) -> Any:
        """The async object behind."""
        ...


class Blocking(Generic[P, Y]):
    """A sync method made from an async one."""

    def __init__(self, method: Callable[..., Any], finish: Callable[[Any], Any] | None) -> None:
        self._method = method
        self._finish = finish
        self.__doc__ = method.__doc__

    def __get__(self, face: SyncFace, owner: type | None = None) -> Callable[P, Y]:
        def call(*args: Any, **kwargs: Any) -> Any:
            value = face.bridge.run(self._method(face.inner, *args, **kwargs))
            return value if self._finish is None else self._finish(value)

        call.__doc__ = self._method.__doc__
        call.__name__ = self._method.__name__
        return call


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, X]]) -> Blocking[P, X]:
    """The sync face of an async method."""
    return Blocking(method, None)


def blocking_then(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, X]], finish: Callable[[X], Y]
) -> Blocking[P, Y]:
    """The sync face of an async method, whose result `finish` gives a sync face too."""
    return Blocking(method, finish)


class Iterating(Generic[P, Y]):
    """A sync generator made from an async one."""

    def __init__(self, method: Callable[..., AsyncIterator[Any]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, face: SyncFace, owner: type | None = None) -> Callable[P, Iterator[Y]]:
        def call(*args: Any, **kwargs: Any) -> Iterator[Any]:
            source: Any = self._method(face.inner, *args, **kwargs)
            end = object()

            async def step() -> Any:
                return await anext(source, end)

            async def finish() -> None:
                await source.aclose()

            try:
                while (item := face.bridge.run(step())) is not end:
                    yield item
            finally:
                face.bridge.run(finish())

        call.__doc__ = self._method.__doc__
        return call


def iterating(method: Callable[Concatenate[S, P], AsyncIterator[X]]) -> Iterating[P, X]:
    """The sync face of an async generator."""
    return Iterating(method)
