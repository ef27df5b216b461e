"""Names, arguments, errors and logs of whoever: of them only letters reach the terminal."""

import logging
import re
from pathlib import Path

import msgspec
from rich.segment import Segment

from andon import Andon
from andon.engine.base import Submission
from andon.model.fleet import WorkerInfo

from .kit import Seen, ended, looking

MARKUP = "[bold red]x[/] [@click=app.bell]y[/] [link=http://a]z[/link] [/nothing] $text [[ \\["
SEQUENCES = "\x1b[31mred\x1b]0;title\x07\x1b]52;c;AAAA\x07\x9b2J\x00\r\b\x7f"
BIDI = "\u202egnp.exe\u2066\u2067\u2028\u200f"
HOSTILE = f"{MARKUP}{SEQUENCES}{BIDI}"

_BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def drawn(seen: Seen) -> list[Segment]:
    """All that would be written to the terminal."""
    return [one for strip in seen.top.screen._compositor.render_strips() for one in strip]


def check(seen: Seen, *, width: int = 80) -> None:
    """Letters only, no link, no colour that a text has asked for, and nothing wider than it may."""
    for segment in drawn(seen):
        assert not _BAD.search(segment.text), repr(segment.text)
        assert segment.style is None or not segment.style.link
    assert all(len(line) <= width for line in seen.lines)


async def test_hostile_tasks_change_nothing(url: str, tmp_path: Path) -> None:
    kept = f"file://{tmp_path}/kept"
    app = Andon(url, artifacts=kept)

    @app.task(name="shop.hostile", queue="hostile", max_retries=0)
    async def hostile(text: str) -> None:
        logging.getLogger("shop").error("%s", HOSTILE)
        logging.getLogger("shop").error("%s", "x" * 1_000_000)
        raise ValueError(HOSTILE + "y" * 1_000_000)

    async with app:
        engine = await app.engine()
        await engine.submit(
            [
                Submission(
                    id="hostile-1",
                    name="shop.hostile",
                    queue="hostile",
                    key=HOSTILE.replace("\0", ""),
                    group="[red]group[/red]",
                    args=msgspec.json.encode({"text": HOSTILE}),
                    tags=("[b]", *(f"tag-{n}" for n in range(10_000))),
                    headers={"x": MARKUP},
                )
            ]
        )
        await ended(app, "hostile-1")
        await engine.put_worker(WorkerInfo(id="w-[red]1[/]", host=HOSTILE, queues=("hostile",)))
        async with looking(url, artifacts=kept) as seen:
            await seen.until("hostile")
            for key, part in (
                ("1", "hostile"), ("2", "hostile-1"), ("3", "[bold red]"), ("4", "hostile"),
                ("5", "w-[red]"),
            ):  # fmt: skip
                await seen.press(key)
                await seen.until(part)
                check(seen)
            await seen.press("2")
            await seen.until("[bold red]x[/]")
            await seen.press("enter")
            await seen.until("shop.hostile")
            for _ in range(12):
                await seen.press("pagedown")
                check(seen)
            await seen.press("home")
            await seen.until("[red]group[/red]")
            await seen.press("l")
            await seen.until("xxxx")
            check(seen)
            await seen.press("home")
            await seen.until("[@click=app.bell]")
            check(seen)
            await seen.press("escape")
            await seen.press("g")
            await seen.write(MARKUP)
            await seen.until("No task was found that has '[bold red]")
            check(seen)
