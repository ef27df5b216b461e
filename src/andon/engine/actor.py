"""Who acts: the name that goes with all that is done by hand within a block of code.

It is carried by the context, not by each call, so that a service names its caller once a request
and a program once a block, whatever they call beneath. Nothing but acts by hand looks at it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from andon.lifecycle.actors import actor_name

ACTOR: ContextVar[str] = ContextVar("andon-actor", default="")
"""The name of who acts in this context; empty where nobody said."""


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
