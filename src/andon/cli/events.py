"""`andon events`: the moves of tasks, as they were made or as they are made."""

from typing import TYPE_CHECKING

import click
import msgspec

from andon.cli.ids import one_named
from andon.cli.output import Cell, Word
from andon.cli.session import Session, common
from andon.cli.values import comma_separated
from andon.contract.topics import EVENTS_TOPIC
from andon.engine.filtering import Filters, check_queue
from andon.lifecycle.constants import SLOW_POLL_S
from andon.lifecycle.faces.fields import iso
from andon.lifecycle.rendering import event_document
from andon.model.errors import TaskNotFound
from andon.model.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from andon.engine.base import Engine
    from andon.model.task import Task, TaskEvent
    from andon.model.words import State

_PAGE = 500

_MOST_REMEMBERED = 100_000
"""Tasks whose queue is remembered while their moves are followed."""


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on.")
@click.option("--task", "task_id", metavar="ID", help="Moves of this task.")
@click.option("--queue", metavar="NAME", help="Moves of tasks of this queue.")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Moves into this state.")
@click.option("--actor", metavar="NAME", help="Moves that this one made by hand.")
@click.option("--from", "cursor", metavar="CURSOR", help="From after this cursor.")
@click.option("--since-start", is_flag=True, help="With --follow: from the oldest event kept.")
@common
async def events(
    session: Session,
    *,
    follow: bool,
    task_id: str | None,
    queue: str | None,
    states: tuple[str, ...],
    actor: str | None,
    cursor: str | None,
    since_start: bool,
) -> None:
    """Print the moves of tasks.

    All that are kept, oldest first; with --follow those from now on, until interrupted. With
    --json one object per line. The cursor to go on from is printed to stderr at the end.
    """
    if cursor is not None and since_start:
        raise click.UsageError("Give --from or --since-start, not both.")
    asked = Filters(states=comma_separated(states)).query(session.profile).states
    async with session.engine() as engine:
        if queue is not None:
            await check_queue(engine, queue)
        if task_id is not None:
            task_id = await one_named(session, engine, task_id)
        printer = _Printer(session, engine, queue, task_id, states=frozenset(asked), actor=actor)
        if task_id is not None and cursor is None and not since_start:
            await printer.history(task_id)
        if follow and cursor is None and not since_start:
            cursor = await engine.events_end()
        elif task_id is not None and cursor is None and not since_start:
            return
        await printer.log(cursor or "", follow=follow)


class _Printer:
    def __init__(
        self,
        session: Session,
        engine: "Engine",
        queue: str | None,
        task_id: str | None,
        *,
        states: "frozenset[State]",
        actor: str | None,
    ) -> None:
        self._session = session
        self._out = session.out
        self._engine = engine
        self._states = states
        self._actor = actor
        self._queue = queue
        self._task_id = task_id
        self._queues: dict[str, str] = {}  # of tasks seen while their records lived
        self._left_out = 0

    async def history(self, task_id: str) -> None:
        """Print what one task has done so far."""
        [task] = await self._engine.get([task_id])
        if task is None:
            raise TaskNotFound(task_id)
        history = await self._engine.history(task_id)
        for event in history.events:
            named = msgspec.structs.replace(event, task=task_id)
            if self._wants(named):
                self._print(named, task)

    async def log(self, cursor: str, *, follow: bool) -> None:
        """Print the log from a cursor, to its end or for ever."""
        with self._engine.listen([EVENTS_TOPIC]) as hints:
            while True:
                page = await self._engine.events(cursor, _PAGE)
                if page.gap:
                    self._out.note("Some events were lost or are not kept any more: a gap.")
                cursor = page.cursor
                wanted = [event for event in page.events if self._wants(event)]
                tasks = await self._tasks(wanted)
                for event in wanted:
                    task = tasks.get(event.task)
                    if self._queue is None or self._queue_of(event, task) == self._queue:
                        self._print(event, task)
                if not (page.events or follow):
                    self._say_what_is_left_out()
                    self._out.note(f"Go on from here: --from {cursor}")
                    return
                if not page.events:
                    await hints.wait(SLOW_POLL_S)

    def _queue_of(self, event: "TaskEvent", task: "Task | None") -> str | None:
        """The queue of the task that moved, which its record tells: as long as there is one, and
        afterwards if it was seen here."""
        if task is not None:
            self._queues[event.task] = task.definition.queue
            if len(self._queues) > _MOST_REMEMBERED:
                del self._queues[next(iter(self._queues))]
        queue = self._queues.get(event.task)
        if queue is None:
            self._left_out += 1
        return queue

    def _say_what_is_left_out(self) -> None:
        if self._left_out:
            self._out.note(
                f"{plural(self._left_out, 'move')} of tasks that are deleted by now left out: "
                "nothing tells their queue any more. Without --queue they are shown."
            )

    async def _tasks(self, events: "Sequence[TaskEvent]") -> "dict[str, Task | None]":
        if self._queue is None and self._session.profile.name == "native" and self._out.json:
            return {}
        ids = list(dict.fromkeys(event.task for event in events))
        return dict(zip(ids, await self._engine.get(ids), strict=True))

    def _wants(self, event: "TaskEvent") -> bool:
        return (
            (self._task_id is None or event.task == self._task_id)
            and (not self._states or event.target in self._states)
            and (self._actor is None or event.actor == self._actor)
        )

    def _print(self, event: "TaskEvent", task: "Task | None") -> None:
        if self._session.profile.name != "native":
            self._print_foreign(event, task)
        elif self._out.json:
            self._out.record(event_document(event))
        else:
            self._out.words(line_of(event, task))

    def _print_foreign(self, event: "TaskEvent", task: "Task | None") -> None:
        from andon.lifecycle.rendering import history_as, move_names

        profile = self._session.profile
        if self._out.json:
            for entry in history_as(profile, [event], task):
                self._out.record({"task": event.task, **entry})
            return
        name = "" if task is None else task.definition.name
        for shown in move_names(profile, event, task):
            error = None if shown.error is None else shown.error.message
            self._out.words([iso(shown.at), event.task, name, shown.name, shown.worker, error])


def by_whom(event: "TaskEvent") -> str | None:
    """Who made a move by hand, in words; nothing of any other move."""
    return f"by {event.actor}" if event.actor else None


def line_of(event: "TaskEvent", task: "Task | None") -> list[Cell]:
    """One move as a line."""
    from andon.cli.shown import native_word

    target = native_word(event.target)
    source = "" if event.source is None else event.source.value
    arrow = f"{source} → {target.text}" if source else target.text
    if event.source is event.target:
        arrow = source
    return [
        iso(event.at),
        event.task,
        "" if task is None else task.definition.name,
        event.event.value,
        Word(arrow, target.style),
        "" if event.reason is None else event.reason.value,
        event.worker,
        by_whom(event),
        None if event.error is None else event.error.message,
    ]
