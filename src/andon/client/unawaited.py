"""Lets Python's warning about a coroutine that was never awaited name the sync face.

In a program that is not async `charge.submit(7)` looks as if it submitted something, but nothing
runs until it is awaited. Python warns of that by itself, and names the coroutine as its function is
named; so the name says what should have been written, and costs a submit nothing.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
X = TypeVar("X")


def awaited(method: Callable[P, Coroutine[Any, Any, X]]) -> Callable[P, Coroutine[Any, Any, X]]:
    """An async method, whose coroutines say in their name how it is called."""
    return awaited_as(method.__qualname__)(method)


def awaited_as(
    name: str,
) -> Callable[[Callable[P, Coroutine[Any, Any, X]]], Callable[P, Coroutine[Any, Any, X]]]:
    """The same for a method that users know by this name, and that a base class has."""

    def decorate(
        method: Callable[P, Coroutine[Any, Any, X]],
    ) -> Callable[P, Coroutine[Any, Any, X]]:
        method.__qualname__ = f"{name} (await it; in code that is not async, call it on .sync)"
        return method

    return decorate
