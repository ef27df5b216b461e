"""Tests that are coroutine functions: how they come to run on a loop."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

Test = Callable[..., Coroutine[Any, Any, None]]
Play = Callable[[Test, dict[str, Any]], Coroutine[Any, Any, None]]
"""Awaits a test with its arguments, and whatever must be done on its loop before and after."""


def played(item: pytest.Function, play: Play) -> bool | None:
    """Run a coroutine test as `play` has it, on the loop of the fixture `runner` if the test uses
    it, else on one of its own. What `pytest_pyfunc_call` is to return: None for a plain function,
    which is left to pytest."""
    if not inspect.iscoroutinefunction(item.obj):
        return None
    names = inspect.signature(item.obj).parameters
    course = play(item.obj, {name: item.funcargs[name] for name in names})
    runner = item.funcargs.get("runner")
    if isinstance(runner, asyncio.Runner):
        runner.run(course)
    else:
        asyncio.run(course)
    return True


async def plainly(test: Test, arguments: dict[str, Any]) -> None:
    """Just the test."""
    await test(**arguments)
