"""Changes with a value: a line of input is checked like a form of the board."""

import shlex
from typing import TYPE_CHECKING

import msgspec

from andon.dashboard import editing
from andon.lifecycle import payloads
from andon.lifecycle.admission import PRIORITY_NAMES
from andon.model.moments import when_of
from andon.top import doing
from andon.top.asking import Form
from andon.top.desk import Wrong

if TYPE_CHECKING:
    from andon.dashboard.views.bodies import Body
    from andon.dashboard.views.task import TaskView
    from andon.top.page import Page

_EDIT = """\
All arguments as JSON, in place of those it has. The task is cancelled, and another submitted that
is the same in all else; each names the other."""
_HIDDEN = "\nNot all of them are shown as they are, so write all of them anew."


async def reschedule(page: "Page", view: "TaskView") -> None:
    """Ask when a task is to start, and have it start then."""
    hint = "now, +5m for five minutes from now, or ISO 8601: 2030-01-31T12:00Z"
    text = await page.ask(Form("When is 1 task to start?", hint, "", when_of))
    if text is not None:
        desk = page.desk
        await doing.do(page, editing.reschedule(desk.reader, desk.visitor, view.id, text))


async def reprioritise(page: "Page", view: "TaskView") -> None:
    """Ask for a priority, and give it to a task."""
    hint = f"-4 to 5, the higher first, or {', '.join(PRIORITY_NAMES)}"
    form = Form("Which priority for 1 task?", hint, str(view.priority), editing.priority_of)
    text = await page.ask(form)
    if text is not None:
        desk = page.desk
        await doing.do(page, editing.reprioritise(desk.reader, desk.visitor, view.id, text))


async def edit(page: "Page", view: "TaskView") -> str:
    """Ask for other arguments, and submit a task with them; its id, empty if none was."""
    before = _line(view.args)
    hint = _EDIT if before else _EDIT + _HIDDEN
    text = await page.ask(Form("Other arguments for 1 task?", hint, before, _parse))
    if text is None:
        return ""
    desk = page.desk
    successor = editing.new_id(view.now)
    done = await doing.do(page, editing.edit(desk.reader, desk.visitor, view.id, text, successor))
    return "" if done is None else done.at


def _line(args: "Body | None") -> str:
    """Arguments on one line; empty where the text does not mean just what they are."""
    if args is None or not args.is_exact:
        return ""
    line = msgspec.json.encode(payloads.parse(args.text.encode())).decode()
    return line if line.isprintable() else ""


def _parse(text: str) -> None:
    try:
        payloads.parse(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise ValueError(f"That is not JSON: {error}.") from None


async def configure(page: "Page", name: str) -> None:
    """Ask for the limits of a queue, and set those that are not as they were."""
    desk = page.desk
    rows = await desk.tried(desk.reader.queues())
    if isinstance(rows, Wrong):
        page.say(f"⚠ {rows}")
        return
    config = next((config for config, _ in rows if config.name == name), None)
    if config is None:
        page.say(f"⚠ There is no queue {name}.")
        return
    before = editing.written(config)
    line = " ".join(
        f"{setting}={shlex.quote(text) if text else ''}" for setting, text in before.items()
    )
    hint = "\n".join(f"{setting}: {what}" for setting, (what, _) in editing.SETTINGS.items())
    title = f"Limits of queue {name}; nothing after = takes one away"
    text = await page.ask(Form(title, hint, line, settings_in))
    if text is None:
        return
    changed = {
        setting: said for setting, said in settings_in(text).items() if said != before[setting]
    }
    await doing.do(page, editing.configure(desk.reader, desk.visitor, name, changed))


def settings_in(text: str) -> dict[str, str]:
    """Settings from the user's text. Raises `ValueError` saying what is wrong with it."""
    found: dict[str, str] = {}
    for part in shlex.split(text):
        setting, equals, said = part.partition("=")
        if not equals or setting not in editing.SETTINGS:
            raise ValueError(f"Write {', '.join(editing.SETTINGS)}, each with = and its value.")
        found[setting] = said
        if said:
            editing.SETTINGS[setting][1](said)
    return found
