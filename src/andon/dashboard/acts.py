"""What the board does: each act is a form that was sent, checked against what its sender may."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from andon.dashboard.requests import Fields, Refused

if TYPE_CHECKING:
    from andon.dashboard.pages.frame import Place
    from andon.dashboard.reading import Reader
    from andon.dashboard.showing import Shown
    from andon.dashboard.tokens import TokenBook


class Done(msgspec.Struct):
    """What became of an act: something to say on the page it came from, or a page of its own."""

    said: str = ""
    to: str = ""  #: the page to go to; empty: where it came from
    page: "Shown | None" = None


Act = Callable[[Fields, "Place"], Awaitable[Done]]


class Acts:
    """All acts of a board."""

    def __init__(self, reader: "Reader", tokens: "TokenBook | None") -> None:
        self._reader = reader
        self._tokens = tokens
        self._acts: dict[str, Act] = {
            "/acts/pause": self.pause,
            "/acts/resume": self.resume,
        }

    async def do(self, path: str, form: Fields, place: "Place") -> Done:
        """Do what a path says. Raises `Refused`."""
        act = self._acts.get(path)
        if act is None:
            raise Refused(404, "Not here", "There is no such act.")
        return await act(form, place)

    # --- queues ---

    async def pause(self, form: Fields, place: "Place") -> Done:
        """Pull the cord of a queue."""
        return await self._set_paused(form, place, paused=True)

    async def resume(self, form: Fields, place: "Place") -> Done:
        """Let a queue go on."""
        return await self._set_paused(form, place, paused=False)

    async def _set_paused(self, form: Fields, place: "Place", *, paused: bool) -> Done:
        name = form.get("queue")
        need(place, f"queues:manage:{name}")
        engine = await self._reader.engine()
        known = {config.name for config, _ in await self._reader.queues()}
        if name not in known:
            raise Refused(404, "Not here", "There is no such queue.")
        await engine.configure_queue(name, {"paused": paused})
        self._reader.forget()
        said = "paused: nothing is claimed from it, what runs goes on" if paused else "goes on"
        return Done(f"Queue {name} {said}.")


def need(place: "Place", scope: str) -> None:
    """Raise `Refused` unless the visitor may."""
    if not place.may(scope):
        raise Refused(403, "Not allowed", f"This needs the scope {scope}, which you lack.")
