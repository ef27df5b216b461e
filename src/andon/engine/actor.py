"""The actor: the name recorded with everything that is done by hand within a block of code.

A context variable holds it, not each call's arguments: a service sets it once per request, a
program once per block. Only acts by hand read it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from andon.lifecycle.actors import actor_name

ACTOR: ContextVar[str] = ContextVar("andon-actor", default="")
"""The name of the actor in this context; empty if none was set."""


@contextmanager
def acting_as(name: str) -> Generator[None]:
    """Within the block, acts by hand are `name`'s: their events say so, and the audit list does.

    A name is one line of at most 100 characters; what is longer is cut. A service that asks for
    tokens names the caller by its token instead.

    Example:
        from andon import acting_as

        handle = await remind.submit_in(3600, "ann@example.org")
        with acting_as("ann"):
            await handle.cancel()
        assert (await handle.history())[-1].actor == "ann"
    """
    token = ACTOR.set(actor_name(name))
    try:
        yield
    finally:
        ACTOR.reset(token)
