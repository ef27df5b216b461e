"""Carries out acts by hand through the engine, and checks them against the visitor's scopes.

The forms of the board and the keys of `andon top` both call this module, so that both give the same
messages and refuse the same acts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.contract.limits import in_batches
from andon.dashboard import reading_letters
from andon.dashboard.bulk import MOST_NAMED, Counted, Doing, act_named, count, new_id
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.dashboard.views.acts import MANY, OF_SCHEDULES, ONE
from andon.dashboard.views.tasks import TaskFilter, total_of
from andon.engine.flows import cancel_flow, read_flow, rerun_flow
from andon.engine.schedule_requests import HasSchedules
from andon.engine.schedule_views import queues_of
from andon.lifecycle.commands import Archive, Delete
from andon.model.errors import TaskNotFound
from andon.model.words import State

if TYPE_CHECKING:
    from andon.contract.queries import Query
    from andon.dashboard.access import Visitor
    from andon.dashboard.bulk import Keep
    from andon.dashboard.reading import Reader
    from andon.engine.base import ActionResult, Engine
    from andon.engine.schedule_requests import ScheduleAct
    from andon.model.task import Task

MOST_CHOSEN = 1_000
"""Tasks that are chosen one by one."""


class Said(msgspec.Struct, frozen=True):
    """The outcome of an act on one thing."""

    text: str
    is_gone: bool = False  #: it no longer exists
    at: str = ""  #: the id of the task that has taken its place


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of an act on many: all that a filter finds, or those that are named."""

    asked: TaskFilter = TaskFilter()
    letters: bool = False  #: only dead letters
    fingerprint: str = ""  #: only those of this group
    chosen: tuple[str, ...] = ()  #: ids; empty: all that the filter finds

    @property
    def words(self) -> str:
        """The filter in words, for a sentence about tasks."""
        if self.chosen:
            return f"the {len(self.chosen):,} chosen"
        if not self.letters:
            return self.asked.words
        words = "dead letters" + (f" of queue {self.asked.queue}" if self.asked.queue else "")
        return words + (f" of the cause {self.fingerprint}" if self.fingerprint else "")


def need(visitor: "Visitor", scope: str) -> None:
    """Raise `Refused` unless the visitor may do this."""
    if not visitor.may(scope):
        raise Refused(403, "Not allowed", f"This needs the scope {scope}, which you lack.")


# --- queues ---


async def set_paused(reader: "Reader", visitor: "Visitor", name: str, *, paused: bool) -> Said:
    """Pause a queue, or resume it. Raises `Refused` if there is no such queue."""
    need(visitor, f"queues:manage:{name}")
    engine = await reader.engine()
    known = {config.name for config, _ in await reader.queues()}
    if name not in known:
        raise Refused(404, "Not here", "There is no such queue.")
    await within(engine.configure_queue(name, {"paused": paused}))
    reader.forget()
    said = "paused: nothing is claimed from it, what runs goes on" if paused else "goes on"
    return Said(f"Queue {name} {said}.")


# --- one task ---


async def act_on_task(reader: "Reader", visitor: "Visitor", act: str, task_id: str) -> Said:
    """Do one of the acts `views.acts.ONE` to one task. Raises `TaskNotFound` and `Refused`."""
    engine = await reader.engine()
    [task] = await within(engine.get([task_id]))
    if task is None:
        raise TaskNotFound(task_id[:100])
    need(visitor, f"{ONE[act].scope}{task.definition.queue}")
    [acted] = await within(_one(engine, act, task_id))
    if acted.error is not None:
        return Said(f"⚠ {acted.error}")
    reader.forget()
    if not acted.changed:
        return Said("There was nothing to do.")
    return Said(f"Task {task_id} {ONE[act].past}.", is_gone=acted.state is None)


async def _one(engine: "Engine", act: str, task_id: str) -> "list[ActionResult]":
    match act:
        case "cancel":
            return await engine.cancel([task_id])
        case "cancel-by-force":
            return await engine.cancel([task_id], force=True)
        case "rerun" | "run-now":
            return await engine.retry([task_id])
        case "archive":
            return await engine.act([task_id], Archive())
        case _:
            return await engine.act([task_id], Delete())


# --- schedules and flows ---


async def act_on_schedule(
    reader: "Reader", visitor: "Visitor", act: "ScheduleAct", name: str
) -> Said:
    """Pause, resume or run a schedule. Raises `Refused` if there is no such schedule."""
    engine = await reader.engine()
    if not isinstance(engine, HasSchedules):
        raise Refused(404, "Not here", "There are no schedules here.")
    [task] = await within(engine.get([name]))
    if task is None or task.status.schedule is None:
        raise Refused(404, "Not here", "There is no such schedule.")
    for queue in sorted(queues_of(task)):
        need(visitor, f"tasks:change:{queue}")
    [acted] = await within(engine.schedules.act([name], act))
    if acted.error is not None:
        return Said(f"⚠ {acted.error}")
    return Said(f"Schedule {name} {OF_SCHEDULES[act]}.")


async def act_on_flow(reader: "Reader", visitor: "Visitor", flow_id: str, *, cancels: bool) -> Said:
    """Cancel the tasks of a flow that have not ended, or rerun those that failed. Raises
    `FlowNotFound`."""
    need(visitor, "tasks:cancel:*" if cancels else "tasks:change:*")
    engine = await reader.engine()
    flow = await within(read_flow(engine, flow_id))
    tally = await (cancel_flow(engine, flow) if cancels else rerun_flow(engine, flow))
    refused = f", {tally.refused:,} refused" if tally.refused else ""
    what = "cancelled, or asked to stop" if cancels else "started again"
    return Said(f"{tally.changed:,} of {tally.found:,} tasks {what}{refused}.")


# --- many tasks ---


def check_act(act: str) -> str:
    """The act on many of that name. Raises `Refused` if there is none."""
    if act not in MANY:
        raise Refused(404, "Not here", "There is no such act.")
    return act


async def count_meant(
    reader: "Reader", visitor: "Visitor", act: str, meant: Meant, *, at: str = "", before: int = 0
) -> Counted:
    """How many tasks an act would touch; counting goes on from `before` at the cursor `at`. Raises
    `Refused`."""
    if meant.chosen:
        return Counted(len(meant.chosen))
    asked = meant.asked
    need(visitor, f"{MANY[act].scope}{asked.queue or '*'}")
    need(visitor, f"tasks:read:{asked.queue or '*'}")
    reader.forget()
    queues = await reader.queues()
    if meant.letters and not meant.fingerprint:
        return Counted(await reading_letters.total(reader, asked.queue))
    by_counters = None if meant.letters else total_of(asked, queues)
    if by_counters is not None:
        return Counted(by_counters)
    query, keep = _query_of(meant)
    if at:
        query = msgspec.structs.replace(query, cursor=at)
    return await count(await reader.engine(), query, keep, before if at else 0)


async def start(
    reader: "Reader",
    visitor: "Visitor",
    act: str,
    meant: Meant,
    *,
    words: str = "",
    expected: int | None = None,
    back: str = "/",
) -> Doing:
    """Begin an act on many, in the background. Raises `Refused`."""
    engine = await reader.engine()
    doing = Doing(
        id=new_id(),
        label=MANY[act].label,
        words=words or meant.words,
        expected=expected,
        back=back,
    )
    do = act_named(engine, act)
    if meant.chosen:
        allowed, refused = await _allowed(engine, meant.chosen[:MOST_CHOSEN], act, visitor)
        doing.refused = refused[:MOST_NAMED]
        doing.tally.found = doing.tally.refused = len(refused)
        reader.bulk.start(doing, engine, do, allowed, _any)
    else:
        need(visitor, f"{MANY[act].scope}{meant.asked.queue or '*'}")
        query, keep = _query_of(meant)
        reader.bulk.start(doing, engine, do, query, keep)
    reader.forget()
    return doing


async def _allowed(
    engine: "Engine", ids: Sequence[str], act: str, visitor: "Visitor"
) -> tuple[list[str], list[tuple[str, str]]]:
    """The tasks on which the visitor may act; the others; and the ids that do not exist."""
    scope_of_act = MANY[act].scope
    if visitor.may(f"{scope_of_act}*"):
        return list(ids), []
    allowed: list[str] = []
    refused: list[tuple[str, str]] = []
    for some in in_batches(ids):
        for task_id, task in zip(some, await within(engine.get(some)), strict=True):
            scope = "" if task is None else f"{scope_of_act}{task.definition.queue}"
            if scope and not visitor.may(scope):
                refused.append((task_id, f"it needs the scope {scope}"))
            else:
                allowed.append(task_id)
    return allowed, refused


def _query_of(meant: Meant) -> "tuple[Query, Keep]":
    """The query of all tasks of the act, in order of creation, and which of those that it finds are
    meant."""
    asked = meant.asked
    query = msgspec.structs.replace(asked.query(), newest_first=False, due_first=False, cursor="")
    if meant.letters:
        query = msgspec.structs.replace(query, dead_letters=True)
        return query, lambda task: reading_letters.is_of(meant.fingerprint, task)
    if asked.states:
        return query, _any
    return query, lambda task: task.state is not State.RECURRING


def _any(task: "Task") -> bool:
    return True
