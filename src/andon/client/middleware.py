"""Checks the middleware and hooks of an application where they are given, because a hook with a
misspelt name would silently never be called.
"""

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Protocol

from andon.contract.instruments import Instruments
from andon.engine.base import Submission
from andon.model.errors import ConfigurationError

HOOKS = ("on_submit", "around", "instruments")
"""The names of the hooks that middleware may have."""

_CALLED = ("on_submit", "around")


class Middleware(Protocol):
    """Sees every submission before it is sent. May also have the worker's hooks.

    Example:
        from msgspec.structs import replace
        from andon import Andon

        class Stamp:
            def on_submit(self, submission):
                return replace(submission, headers={**submission.headers, "from": "the shop"})

        app = Andon("memory://", middleware=[Stamp()])
        async with app:
            handle = await app.submit("charge", {"order": 7, "cents": 990})
            assert (await handle.get()).headers == {"from": "the shop"}
    """

    def on_submit(self, submission: Submission) -> Submission:
        """The submission to send instead; raise to refuse it."""
        ...


class Measuring(Protocol):
    """Middleware that counts what passes through the application's engines."""

    @property
    def instruments(self) -> Instruments:
        """The instruments it counts with."""
        ...


def checked_middleware(given: Iterable[object]) -> tuple[object, ...]:
    """The middleware as given. Raises `ConfigurationError` for what has none of the hooks, or one
    whose name is misspelt."""
    middleware = tuple(given)
    for one in middleware:
        _check(one)
    return middleware


def _check(one: object) -> None:
    if isinstance(one, type):
        raise ConfigurationError(
            f"Middleware {one.__name__} is a class; give an instance of it: {one.__name__}()."
        )
    public = [name for name in dir(one) if not name.startswith("_")]
    missing = [hook for hook in HOOKS if hook not in public]
    for name in public:
        if name not in HOOKS and (near := _slip_of(name, missing)):
            raise ConfigurationError(
                f"Middleware {one!r} has {name!r}, which nobody calls. Did you mean {near!r}?"
            )
    if len(missing) == len(HOOKS):
        raise ConfigurationError(f"{one!r} is no middleware: it has none of {', '.join(HOOKS)}.")
    for hook in _CALLED:
        if hook in public and not callable(getattr(one, hook)):
            raise ConfigurationError(f"Middleware {one!r}: {hook} cannot be called.")


def _slip_of(name: str, hooks: Iterable[str]) -> str:
    """The hook of which this is a slip, a letter more or less at the most; "" if none."""
    near = get_close_matches(name, hooks, n=1, cutoff=0.75)
    return near[0] if near and abs(len(near[0]) - len(name)) <= 1 else ""


def check_hook(hook: Any, where: str) -> None:
    """Raise `ConfigurationError` for what cannot be called without arguments. `where` names what it
    was given to."""
    if not callable(hook):
        raise ConfigurationError(f"{where} takes a function, not {hook!r}.")
    try:
        inspect.signature(hook).bind()
    except TypeError as error:
        raise ConfigurationError(
            f"{where}: {hook!r} is called without arguments: {error}."
        ) from error
    except ValueError:  # one of C, which does not tell
        return


def check_lifespan(lifespan: Any) -> None:
    """Raise `ConfigurationError` for what makes no context manager for a worker."""
    if lifespan is None:
        return
    check_hook(lifespan, "lifespan=")
    if inspect.isasyncgenfunction(lifespan) or inspect.isgeneratorfunction(lifespan):
        raise ConfigurationError(
            f"lifespan={lifespan.__name__} is a generator; decorate it with "
            "contextlib.asynccontextmanager."
        )
