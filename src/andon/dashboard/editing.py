"""Changes values by hand: arguments, start time, priority, settings of queues.

Texts come as a person wrote them, from a form of the board or a line of `andon top`. An invalid one
is refused with a sentence, and nothing is changed.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from andon.dashboard.acting import Said, need
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.lifecycle import payloads
from andon.lifecycle.admission import PRIORITY_NAMES, check_moment, check_priority
from andon.lifecycle.commands import Reprioritise, Reschedule
from andon.model.errors import ConfigurationError, InvalidSubmission, TaskNotFound
from andon.model.moments import when_of
from andon.model.rates import rate_of, rate_text
from andon.model.scopes import needed_to_submit

if TYPE_CHECKING:
    from andon.dashboard.access import Visitor
    from andon.dashboard.reading import Reader
    from andon.engine.base import Engine
    from andon.lifecycle.commands import Command
    from andon.model.fleet import QueueConfig
    from andon.model.task import Task


def new_id(now: int) -> str:
    """An id for a task that is submitted by a form: ids sort by time, as other ids do."""
    return f"{now:012x}{secrets.token_hex(10)}"


# --- one task ---


async def edit(
    reader: "Reader", visitor: "Visitor", task_id: str, text: str, successor: str
) -> Said:
    """Give a task that has not begun other arguments: it is cancelled, and a successor submitted,
    each naming the other. A repeat with the successor's id changes nothing. Raises `TaskNotFound`
    and `Refused`."""
    engine = await reader.engine()
    task = await _changeable(engine, visitor, task_id)
    for scope in needed_to_submit(task.definition, task.definition.queue):
        need(visitor, scope)
    args = text.strip().encode("utf-8", "surrogatepass")
    try:
        if not isinstance(payloads.parse(args), dict | list):
            return _wrong("Arguments are a JSON object of named ones, or a list.")
    except ValueError as error:
        return _wrong(f"The arguments are not JSON: {error}.")
    done = await within(engine.edit(task_id, args, successor or new_id(engine.now())))
    if done.error is not None:
        return _wrong(str(done.error))
    reader.forget()
    later = "" if done.state is not None else " It is not stored yet; it will be."
    return Said(f"Task {done.id} has the new arguments, in place of {task_id}.{later}", at=done.id)


async def reschedule(reader: "Reader", visitor: "Visitor", task_id: str, text: str) -> Said:
    """Give a waiting task another start time: `now`, `+5m`, ISO 8601. Raises `TaskNotFound` and
    `Refused`."""
    engine = await reader.engine()
    await _changeable(engine, visitor, task_id)
    try:
        run_at = when_of(text.strip()).on(engine.now())
        check_moment(run_at, field="run_at")
    except (ValueError, OverflowError, InvalidSubmission) as error:
        return _wrong(str(error))
    return await _done(reader, task_id, Reschedule(run_at=run_at), "has another start")


async def reprioritise(reader: "Reader", visitor: "Visitor", task_id: str, text: str) -> Said:
    """Give a task another priority: -4 to 5, or one of the names. Raises `TaskNotFound` and
    `Refused`."""
    engine = await reader.engine()
    await _changeable(engine, visitor, task_id)
    try:
        priority = priority_of(text.strip())
        check_priority(priority)
    except (ValueError, InvalidSubmission) as error:
        return _wrong(str(error))
    return await _done(reader, task_id, Reprioritise(priority=priority), f"has priority {priority}")


def priority_of(text: str) -> int:
    """A priority as a number. Raises `ValueError` if the text is none."""
    if text in PRIORITY_NAMES:
        return PRIORITY_NAMES[text]
    try:
        return int(text)
    except ValueError:
        names = ", ".join(PRIORITY_NAMES)
        raise ValueError(
            f"{text[:40]!r} is no priority; write a number from -4 to 5, or one of {names}."
        ) from None


async def _changeable(engine: "Engine", visitor: "Visitor", task_id: str) -> "Task":
    [task] = await within(engine.get([task_id]))
    if task is None:
        raise TaskNotFound(task_id[:100])
    need(visitor, f"tasks:change:{task.definition.queue}")
    return task


async def _done(reader: "Reader", task_id: str, command: "Command", past: str) -> Said:
    engine = await reader.engine()
    [acted] = await within(engine.act([task_id], command))
    if acted.error is not None:
        return _wrong(str(acted.error))
    reader.forget()
    if not acted.changed:
        return Said("There was nothing to do.")
    return Said(f"Task {task_id} {past}.")


def _wrong(text: str) -> Said:
    return Said(f"⚠ {text}")


# --- queues ---


def _count_of(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number.") from None


SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "max_concurrent": ("runs at once", _count_of),
    "max_concurrent_per_key": ("runs at once per key", _count_of),
    "rate_limit": ("claims: 5, 5/s, 300/m", rate_of),
    "rate_burst": ("claims in one go", _count_of),
    "max_size": ("most pending tasks", _count_of),
    "on_full": ("when full: reject, discard-old", str),
    "weight": ("share of claims", _count_of),
}
"""Settings that are written as a text: what each means, and how it is parsed."""

NEVER_NONE = {"on_full": "reject", "weight": "1"}
"""Settings that always have a value, and the value that an empty text means."""


def written(config: "QueueConfig") -> dict[str, str]:
    """The settings of a queue as texts; empty: none."""
    shown: dict[str, str] = {}
    for name in SETTINGS:
        value = getattr(config, name)
        text = "" if value is None else f"{value}"
        shown[name] = rate_text(value) if name == "rate_limit" and value is not None else text
    return shown


async def configure(
    reader: "Reader", visitor: "Visitor", name: str, texts: Mapping[str, str]
) -> Said:
    """Change settings of a queue; an empty text removes one. Raises `Refused` if there is no such
    queue."""
    need(visitor, f"queues:manage:{name}")
    engine = await reader.engine()
    if name not in {config.name for config, _ in await reader.queues()}:
        raise Refused(404, "Not here", "There is no such queue.")
    changes: dict[str, Any] = {}
    for setting, text in texts.items():
        said = text.strip() or NEVER_NONE.get(setting, "")
        try:
            changes[setting] = SETTINGS[setting][1](said) if said else None
        except ValueError as error:
            return _wrong(f"{setting}: {error}")
    if not changes:
        return Said("There was nothing to do.")
    try:
        await within(engine.configure_queue(name, changes))
    except (ConfigurationError, InvalidSubmission) as error:
        return _wrong(str(error))
    reader.forget()
    return Said(f"Queue {name} has other settings: {', '.join(changes)}.")
