"""Chooses the event loop of a process: uvloop's where it is installed, else asyncio's.

For processes that are Andon's own (`andon worker`, `andon serve`), like `tuning`; an application
that runs a worker in its own process chooses its own loop.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from andon.model.errors import ConfigurationError

Loop = Literal["auto", "asyncio", "uvloop"]

Outcome = TypeVar("Outcome")


def loop_factory(choice: Loop = "auto") -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop that was chosen, None being asyncio's own way.

    Raises `ConfigurationError` where uvloop is asked for and not installed.
    """
    if choice == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if choice == "auto":
            return None
        raise ConfigurationError(
            "There is no uvloop here. Install it with: pip install 'andon[fast]', "
            "or leave --loop out."
        ) from None
    return uvloop.new_event_loop


def run_on(choice: Loop, work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Run a coroutine to its end on a loop as chosen, as `asyncio.run` does on asyncio's."""
    try:
        factory = loop_factory(choice)
    except BaseException:
        work.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)
