"""What can be looked at live: each source is read now and then, and drawn as fragments.

A topic names a source, such as `andon` or `task/ID`; a page asks for its topics by one stream.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from andon.dashboard.pages import andon as andon_page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from htpy import Renderable

    from andon.dashboard.access import Visitor
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Overview, Reader

MOST_TOPIC = 512
"""Characters of a topic."""


class Source:
    """One thing that is looked at."""

    every: ClassVar[float] = 0.5  #: seconds from one reading to the next

    def __init__(self, rest: str) -> None:
        self.rest = rest  #: what stands after the kind in its topic

    def is_for(self, visitor: "Visitor") -> bool:
        """Whether a visitor may look at it at all; what of it they see is drawn for each."""
        raise NotImplementedError

    async def read(self, reader: "Reader") -> Any:
        """What is drawn, whoever looks."""
        raise NotImplementedError

    def draw(self, place: "Place", seen: Any) -> "Iterable[Renderable]":
        """Its fragments, each an element with an id."""
        raise NotImplementedError


class AndonSource(Source):
    """The first page."""

    def is_for(self, visitor: "Visitor") -> bool:
        return visitor.may_some("queues:read:")

    async def read(self, reader: "Reader") -> "Overview":
        return await reader.overview()

    def draw(self, place: "Place", seen: "Overview") -> "Iterable[Renderable]":
        return andon_page.fragments(place, seen.seen_by(place.visitor))


class StoreSource(Source):
    """Nothing but whether the store answers: for pages that could not be made."""

    every = 1.0

    def is_for(self, visitor: "Visitor") -> bool:
        return True

    async def read(self, reader: "Reader") -> None:
        await reader.queues()

    def draw(self, place: "Place", seen: None) -> "Iterable[Renderable]":
        return ()


KINDS: dict[str, type[Source]] = {"andon": AndonSource, "store": StoreSource}


def source_of(topic: str) -> Source | None:
    """The source that a topic names; None if there is none."""
    kind, _, rest = topic.partition("/")
    made = KINDS.get(kind)
    return None if made is None or len(topic) > MOST_TOPIC else made(rest)
