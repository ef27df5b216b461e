"""Shared by all pages of `andon top`: the engine, the user, and the name of the store."""

from collections.abc import Awaitable
from typing import TypeVar

from andon.dashboard.access import Visitor
from andon.dashboard.reading import Reader
from andon.dashboard.requests import Refused
from andon.dashboard.views.bodies import Redaction
from andon.engine.actor import acting_as
from andon.engine.base import Engine
from andon.model.errors import AndonError

T = TypeVar("T")


class Desk:
    """One session of `andon top`.

    The user may do all that their access to the store, or their token at the service, allows: a
    service refuses the rest.
    """

    def __init__(self, engine: Engine, *, location: str, actor: str, seen_as: str) -> None:
        async def opened() -> Engine:
            return engine

        self.reader = Reader(opened, Redaction(), location)
        self.visitor = Visitor(name=actor, actor=actor)
        self.location = location
        self.seen_as = seen_as  #: the profile under which a task is shown first

    async def tried(self, act: Awaitable[T]) -> "T | Wrong":
        """Do an act in the name of the user. Returns its result, or the error as text."""
        with acting_as(self.visitor.actor):
            try:
                return await act
            except Refused as refused:
                return Wrong(refused.detail)
            except Exception as error:
                return Wrong(sentence(error))


def sentence(error: Exception) -> str:
    """The text of an error. An error that is not one of Andon's is a defect, and is shown with its
    type; the session goes on."""
    if isinstance(error, AndonError | OSError) and str(error):
        return str(error)
    return f"This should not have happened: {type(error).__name__}: {str(error)[:300]}"


class Wrong(str):
    """Why an act was refused, as a sentence."""

    __slots__ = ()
