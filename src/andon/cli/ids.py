"""Finds tasks by ids as users give them: whole, by a prefix, as a table has shortened them, or `-`.

An id that a task has always means that task. What begins an id that Andon made can be nothing else:
such ids are all of one length. The prefix of an id that a user made up may be another such id, of a
task that is deleted by now (`order-1` begins `order-10`): that is a guess, and a command that
changes tasks asks first.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from andon.cli import people
from andon.cli.errors import CommandFailed
from andon.cli.last import last_id
from andon.cli.patience import Patience
from andon.contract.queries import Query
from andon.lifecycle.admission import is_id
from andon.model.errors import PermissionRefused

if TYPE_CHECKING:
    from andon.cli.session import Session
    from andon.engine.base import Engine

CUT = "…"
"""What a table leaves out of an id is marked so; an id pasted from there is found again."""

_MADE = re.compile(r"(job_)?[0-9a-f]{32}\Z")
"""Ids that `client.ids` makes, and those of cbintel's face."""

_CANDIDATES = 5
"""Ids named when several begin alike."""


class Named(NamedTuple):
    """The id that is meant."""

    id: str
    guessed: bool = False  #: the user has to confirm it


async def one_named(session: "Session", engine: "Engine", given: str) -> str:
    """The task to show. A guess is printed to stderr."""
    named = await named_ids(session, engine, [given])
    if len(named) != 1:
        raise click.UsageError(f"One id is needed here; on stdin there were {len(named)}.")
    [(task_id, guessed)] = named
    if guessed:
        session.out.note(f"{given}: {task_id}")
    return task_id


async def sure_ids(session: "Session", engine: "Engine", given: Sequence[str]) -> list[str]:
    """The tasks to wait for: a guess counts only where a person sees it, as for a script the id of
    a task that is gone must not turn into another one's."""
    found: list[str] = []
    for text in given:
        for task_id, guessed in await named_ids(session, engine, [text]):
            if guessed and people.person_present():
                session.out.note(f"{text}: {task_id}")
            found.append(text if guessed and not people.person_present() else task_id)
    return list(dict.fromkeys(found))


async def named_ids(session: "Session", engine: "Engine", given: Sequence[str]) -> list[Named]:
    """The ids meant, each once; those of no task as they were given.

    `-` stands for those on stdin, the first word of each line, which have to be whole; on a
    terminal for the last id that was submitted or shown. Raises `CommandFailed` for what begins
    the ids of several tasks.
    """
    found: dict[str, bool] = {}
    typed = [text for text in given if text != "-"]
    tasks = dict(zip(typed, await engine.get(typed), strict=True)) if typed else {}
    for text in given:
        if text != "-":
            named = Named(text) if tasks[text] is not None else await _begun(session, engine, text)
            found.setdefault(*named)
        elif people.person_present():
            found.setdefault(last_id(session.url), True)
        else:
            found.update({line.split()[0]: False for line in sys.stdin if line.strip()})
    return [Named(*each) for each in found.items()]


async def _begun(session: "Session", engine: "Engine", text: str) -> Named:
    from andon.engine.paging import full_page

    head, cut, tail = text.partition(CUT)
    if not is_id(head) or _MADE.match(text):
        return Named(text)
    query = Query(id_prefix=head, newest_first=True, limit=_CANDIDATES + 1)
    try:
        page = await full_page(
            engine,
            query,
            # a service of an older release knows no prefixes, and finds everything
            keep=lambda task: task.id.startswith(head) and task.id.endswith(tail),
            goes_on=Patience(session.out, "task"),
        )
    except PermissionRefused:  # whose token is good for some queues cannot look through all
        return Named(text)
    ids = [task.id for task in page.tasks]
    if not ids:
        return Named(text)
    if len(ids) > 1:
        more = " and more" if len(ids) > _CANDIDATES else ""
        these = ", ".join(ids[:_CANDIDATES])
        raise CommandFailed(f"{text!r} begins the ids of several tasks: {these}{more}. Give more.")
    return Named(ids[0], guessed=not cut and not _MADE.match(ids[0]))
