"""Warns about submits that were not awaited, with a sentence that names the sync face.

In a program that is not async `charge.submit(7)` looks as if it submitted something. Nothing runs
until it is awaited, and Python's own warning names a coroutine that the reader never wrote.
"""

import warnings
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
X = TypeVar("X")


class Call(msgspec.Struct, Generic[X], eq=False):
    """A coroutine, by its methods, that warns if it is never awaited what should have been written.
    A struct, since one is made for each submit."""

    _coroutine: Coroutine[Any, Any, X] | None
    _name: str

    def _started(self) -> Coroutine[Any, Any, X]:
        coroutine = self._coroutine
        if coroutine is None:
            raise RuntimeError(f"{self._name}(...) was awaited already; call it again.")
        return coroutine

    def __await__(self) -> Generator[Any, Any, X]:
        coroutine, self._coroutine = self._coroutine or self._started(), None
        return coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        coroutine = self._started()
        try:
            return coroutine.send(value)
        finally:
            self._name = ""

    def throw(self, *error: Any) -> Any:
        self._name = ""
        return self._started().throw(*error)

    def close(self) -> None:
        coroutine, self._coroutine = self._coroutine, None
        if coroutine is not None:
            coroutine.close()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{self._name}(...) has not been awaited, so it has no {name!r}. {_INSTEAD}"
        )

    def __del__(self) -> None:
        coroutine = self._coroutine
        if coroutine is not None:
            coroutine.close()
            if self._name:
                warnings.warn(
                    f"{self._name}(...) was never awaited, so nothing was done. {_INSTEAD}",
                    RuntimeWarning,
                    stacklevel=1,
                    source=self,
                )


_INSTEAD = "Write `await` before it, or in code that is not async call the same method of `.sync`."


def awaited(method: Callable[P, Coroutine[Any, Any, X]]) -> Callable[P, Coroutine[Any, Any, X]]:
    """An async method whose call warns when it is not awaited."""
    return awaited_as(method.__qualname__)(method)


def awaited_as(
    name: str,
) -> Callable[[Callable[P, Coroutine[Any, Any, X]]], Callable[P, Coroutine[Any, Any, X]]]:
    """The same for a method that users know by this name, and that a base class has."""

    def decorate(
        method: Callable[P, Coroutine[Any, Any, X]],
    ) -> Callable[P, Coroutine[Any, Any, X]]:
        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, X]:
            made: Any = Call(method(*args, **kwargs), name)
            return made

        return call

    return decorate
