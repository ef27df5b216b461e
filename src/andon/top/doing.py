"""Acts of `andon top`: each is asked about first, saying how many tasks it touches, then done."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from rich.text import Text

from andon.dashboard import acting
from andon.dashboard.acting import MOST_CHOSEN, Meant, Said
from andon.dashboard.views.acts import MANY, ONE
from andon.dashboard.views.looks import line_of
from andon.model.wording import plural
from andon.top import texts
from andon.top.asking import Progress, Question
from andon.top.desk import Wrong

if TYPE_CHECKING:
    from andon.top.page import Page

_MOST_SHOWN = 10


async def sure(page: "Page", title: str, explains: Text | str = "") -> bool:
    """Whether the user answers yes."""
    return await page.ask(Question(title, explains)) == "yes"


async def do(page: "Page", act: Awaitable[Said]) -> Said | None:
    """Do an act, and show its outcome; None if it failed."""
    done = await page.desk.tried(act)
    page.say(f"⚠ {done}" if isinstance(done, Wrong) else done.text)
    page.action_read_again()
    return None if isinstance(done, Wrong) else done


async def to_one(page: "Page", act: str, task_id: str) -> Said | None:
    """Ask about an act on one task, and do it."""
    if not await sure(page, f"{ONE[act].label} 1 task?", texts.words("Task ", (task_id, "bold"))):
        return None
    desk = page.desk
    return await do(page, acting.act_on_task(desk.reader, desk.visitor, act, task_id))


async def to_many(page: "Page", act: str, meant: Meant) -> bool:
    """Count what an act would touch, ask about it, do it, and show how far it is. Whether it was
    begun."""
    desk = page.desk
    if len(meant.chosen) > MOST_CHOSEN:
        page.say(f"⚠ Choose {MOST_CHOSEN:,} tasks at the most.")
        return False
    at, number = "", 0
    while True:
        counted = await desk.tried(
            acting.count_meant(desk.reader, desk.visitor, act, meant, at=at, before=number)
        )
        if isinstance(counted, Wrong):
            page.say(f"⚠ {counted}")
            return False
        number, at = counted.number, counted.cursor
        if not number and counted.is_whole:
            page.say(f"There is no task to {MANY[act].label.lower()}: {meant.words}.")
            return False
        answer = await page.ask(_question(act, meant, number, whole=not at))
        if answer == "no":
            return False
        if answer == "yes":
            break
    expected = number if counted.is_whole else None
    doing = await desk.tried(acting.start(desk.reader, desk.visitor, act, meant, expected=expected))
    if isinstance(doing, Wrong):
        page.say(f"⚠ {doing}")
        return False
    await page.ask(Progress(doing))
    tally = doing.tally
    page.say(
        f"{doing.label}: {plural(tally.changed, 'task')} changed, {tally.refused:,} refused"
        + ("." if doing.is_over else "; it goes on.")
    )
    page.action_read_again()
    return True


def _question(act: str, meant: Meant, number: int, *, whole: bool) -> Question:
    how_many = plural(number, "task") if whole else f"at least {number:,} tasks"
    told = [
        texts.words("Those meant: ", (meant.words, "bold"), "."),
        texts.words((MANY[act].what, "dim")),
        texts.words(("Tasks that are submitted after you say yes are left alone.", "dim")),
    ]
    if not whole:
        told.append(
            texts.words("They are counted one by one, and counting has not come to the end.")
        )
    told += [texts.plain(f"  {line_of(one, 120)}") for one in meant.chosen[:_MOST_SHOWN]]
    if len(meant.chosen) > _MOST_SHOWN:
        told.append(texts.words((f"  and {len(meant.chosen) - _MOST_SHOWN:,} more", "dim")))
    title = f"{MANY[act].label} {how_many}?"
    return Question(title, texts.joined(told), counts_on=not whole)
