"""Calls a function at the moment a coroutine first waits."""

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def once_waiting(work: Coroutine[Any, Any, T], act: Callable[[], None]) -> Generator[Any, Any, T]:
    """The outcome of the work; `act` is called as soon as the work waits for the first time, as
    that of a request does when it has left. If it never waits, when it has ended."""
    step: Callable[[Any], Any] = work.send
    given: Any = None
    acted = False
    while True:
        try:
            awaited = step(given)
        except StopIteration as done:
            return done.value
        finally:
            if not acted:
                acted = True
                act()
        try:
            step, given = work.send, (yield awaited)
        except BaseException as error:  # a cancel
            step, given = work.throw, error
