"""Calls a callback with an outcome, for callers that do not wait for it in an asyncio task."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from andon.model.words import State

Outcome = TypeVar("Outcome")
Then = Callable[[State | None, BaseException | None], None]
"""A callback: gets the state that follows a report (None: the record was discarded), or the
error."""


class Told(Generic[Outcome]):
    """Takes the outcome of one item of a batch, and calls `_then` with the state that follows from
    it, or with what `follows` raises. A subclass sets `_then`."""

    __slots__ = ("_then",)

    _then: Then

    def follows(self, outcome: Outcome) -> State | None:
        """The state that follows."""
        raise NotImplementedError

    def done(self) -> bool:
        return False

    def set_result(self, result: Outcome, /) -> None:
        try:
            state = self.follows(result)
        except Exception as error:
            self._then(None, error)
        else:
            self._then(state, None)

    def set_exception(self, exception: BaseException, /) -> None:
        self._then(None, exception)


class Telling:
    """Runs work in asyncio tasks of its own, and calls back when each has ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, work: Coroutine[Any, Any, State | None], then: Then) -> None:
        """Begin the work; `then` is called with its outcome after this has returned."""
        task = asyncio.ensure_future(_carry(work, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _carry(work: Coroutine[Any, Any, State | None], then: Then) -> None:
    try:
        state = await work
    except GeneratorExit:  # closed with the loop
        raise
    except BaseException as error:
        then(None, error)
        if not isinstance(error, Exception):
            raise
    else:
        then(state, None)
