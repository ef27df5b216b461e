"""Calls a callback with an outcome, for callers that do not wait for it in an asyncio task."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from andon.model.words import State

Completion = Callable[[State | None, BaseException | None], None]
"""A callback: gets the state that follows a report (None: the record was discarded), or the
error."""


class CompletionTaker(msgspec.Struct, eq=False):
    """Takes the outcome of one item of a batch, and calls `then` with the state that follows from
    it, or with the error. A subclass has `set_result`."""

    then: Completion

    def done(self) -> bool:
        return False

    def set_exception(self, exception: BaseException, /) -> None:
        self.then(None, exception)


class Completions:
    """Runs work in asyncio tasks of its own, and calls back when each has ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, work: Coroutine[Any, Any, State | None], then: Completion) -> None:
        """Begin the work; `then` is called with its outcome after this has returned."""
        task = asyncio.ensure_future(_carry(work, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _carry(work: Coroutine[Any, Any, State | None], then: Completion) -> None:
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
