"""`andon top` on a terminal of 80 x 24 that is not there: keys are pressed, and its lines read."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from andon import Andon
from andon.client.services import is_service, service_at
from andon.engine.base import Engine, Submission
from andon.engine.local import LocalEngine
from andon.engine.opening import open_store
from andon.top.app import Top

PATIENCE_S = 60.0


class Seen:
    """What somebody sees who looks at it."""

    def __init__(self, top: Top, pilot: Pilot[None], engine: Engine) -> None:
        self.top = top
        self.pilot = pilot
        self.engine = engine

    @property
    def lines(self) -> list[str]:
        """The lines of the terminal."""
        return [strip.text.rstrip() for strip in self.top.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        """All of them."""
        return "\n".join(self.lines)

    def line(self, part: str) -> str:
        """The first line that has this in it."""
        return next(line for line in self.lines if part in line)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        await self.pilot.press(*keys)

    async def write(self, text: str) -> None:
        """Write a text into the line that is asked for, and send it."""
        await self.until(lambda: bool(self.top.screen.query("Form #line")))
        line: Any = self.top.screen.query_one("#line")
        line.value = text
        await self.press("enter")

    async def until(self, what: str | Callable[[], Any], *, gone: str = "") -> str:
        """Wait until this is seen; and until `gone` is not."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            await self.pilot.pause()
            text = self.text
            seen = what in text if isinstance(what, str) else bool(what())
            if seen and not (gone and gone in text):
                return text
            assert time.monotonic() < deadline, f"{what!r} was never seen:\n{text}"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def looking(
    url: str,
    *,
    size: tuple[int, int] = (80, 24),
    token: str | None = None,
    light: bool = False,
    artifacts: str | None = None,
    seen_as: str = "native",
) -> AsyncIterator[Seen]:
    """Look at what is at a URL for as long as the block lasts."""
    engine: Engine = (
        service_at(url, token)
        if is_service(url)
        else LocalEngine(open_store(url), artifacts=artifacts)
    )
    await engine.open()
    try:
        top = Top(engine, location="where the tasks are", actor="ann", light=light, seen_as=seen_as)
        async with top.run_test(size=size) as pilot:
            yield Seen(top, pilot, engine)
    finally:
        await engine.close()


def charges(*orders: int) -> list[Submission]:
    """Orders to charge; those below zero fail."""
    return [
        Submission(
            id=f"c{order}",
            name="shop.charge",
            queue="billing",
            args=b'{"order": %d, "card_token": "tok-4242"}' % order,
        )
        for order in orders
    ]


def mails(count: int, **fields: Any) -> list[Submission]:
    """Mails that wait."""
    return [
        Submission(id=f"m{n}", name="shop.remind", queue="mail", args=b'["ann"]', **fields)
        for n in range(count)
    ]


async def ended(app: Andon, *ids: str) -> None:
    """With a worker, until they have ended."""
    async with app.working():
        engine = await app.engine()
        for task_id in ids:
            await engine.wait_end(task_id, PATIENCE_S)
