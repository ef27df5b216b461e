"""What a thing that can be looked at live has to have: how it is read, and how it is drawn."""

from typing import TYPE_CHECKING, Any

from andon.dashboard.patience import EVERY, RESTS, RESTS_LOOKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from htpy import Renderable

    from andon.dashboard.access import Visitor
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader


class Source:
    """One thing that is looked at."""

    every: float = 0.5  #: seconds from one reading to the next, if there is time for it
    rests: float = RESTS  #: how many times as long as its readings cost it is left alone

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

    def looks_on(self, *, is_over: bool) -> None:
        """Tasks are looked for, until that is over."""
        self.every = EVERY["tasks" if is_over else "looking"]
        self.rests = RESTS if is_over else RESTS_LOOKING
