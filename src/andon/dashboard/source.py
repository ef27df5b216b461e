"""What each live source must define: how it is read, and how it is drawn."""

from typing import TYPE_CHECKING, Any

from andon.dashboard.patience import EVERY, RESTS, RESTS_LOOKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from htpy import Renderable

    from andon.dashboard.access import Visitor
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader


class Source:
    """One live source."""

    every: float = 0.5  #: seconds from one reading to the next, if there is time for it
    rests: float = RESTS  #: rest after a reading, as a multiple of its cost

    def __init__(self, rest: str) -> None:
        self.rest = rest  #: the part of its topic after the kind

    def is_for(self, visitor: "Visitor") -> bool:
        """Whether a visitor may see it at all; the parts that they may see are drawn for each."""
        raise NotImplementedError

    async def read(self, reader: "Reader") -> Any:
        """Read what is drawn, for every visitor."""
        raise NotImplementedError

    def draw(self, place: "Place", seen: Any) -> "Iterable[Renderable]":
        """Its fragments, each an element with an id."""
        raise NotImplementedError

    def looks_on(self, *, is_over: bool) -> None:
        """Whether tasks are still being searched."""
        self.every = EVERY["tasks" if is_over else "looking"]
        self.rests = RESTS if is_over else RESTS_LOOKING
