"""Acts on many tasks: counts the tasks first, then acts in the background, with a page that shows
the progress.

Tasks are counted when the act is requested, not when the list was drawn. An act that is cut short,
as by the end of the process, has been done to some tasks: it is safe to repeat it.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from andon.contract.limits import MAX_BATCH
from andon.contract.queries import Query
from andon.dashboard.patience import within
from andon.dashboard.requests import Refused
from andon.dashboard.views.looks import line_of
from andon.engine.base import ActionResult
from andon.engine.bulk import Act, Tally, act_on_found, act_on_ids
from andon.lifecycle.commands import Archive, Delete
from andon.model.errors import AndonError
from andon.model.task import Task

if TYPE_CHECKING:
    from andon.engine.base import Engine

log = logging.getLogger("andon.board")

MOST_JOBS = 100
MOST_NAMED = 20
"""How many refused tasks are named one by one."""

AT_ONCE = 2
"""How many acts on many run at a time; the others wait."""

COUNT_S = 1.5
"""How long counting may take before it shows its progress."""

Keep = Callable[[Task], bool]


class Doing(msgspec.Struct, kw_only=True):
    """One act on many, and its progress."""

    id: str
    label: str  #: the act
    words: str  #: on which tasks
    expected: int | None  #: how many were counted before; None: not all were
    back: str  #: the page on which it was requested
    tally: Tally = msgspec.field(default_factory=Tally)
    refused: list[tuple[str, str]] = []  #: the first ids, and why
    state: str = "waits"  #: then `runs`, `done` or `failed`
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Whether it is over."""
        return self.state in ("done", "failed")


def act_named(engine: "Engine", name: str) -> Act:
    """The act on tasks of that name. Raises `Refused` if there is none."""
    match name:
        case "cancel":
            return engine.cancel
        case "retry":
            return engine.retry
        case "archive":
            return lambda ids: engine.act(ids, Archive())
        case "delete":
            return lambda ids: engine.act(ids, Delete())
        case _:
            raise Refused(404, "Not here", "There is no such act.")


class Bulk:
    """The acts on many of one process."""

    def __init__(self) -> None:
        self._jobs: dict[str, Doing] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(AT_ONCE)

    def find(self, job_id: str) -> Doing | None:
        """An act that was begun here; None if there is none (any more)."""
        return self._jobs.get(job_id)

    @property
    def is_busy(self) -> bool:
        """Whether any is under way."""
        return bool(self._running)

    def stop(self) -> None:
        """End all acts: the process is about to stop."""
        for task in self._running:
            task.cancel()

    def start(
        self, doing: Doing, engine: "Engine", act: Act, which: "Query | Sequence[str]", keep: Keep
    ) -> None:
        """Begin an act. Raises `Refused` if too many are under way."""
        over = [job.id for job in self._jobs.values() if job.is_over]
        for job_id in over[: max(0, len(self._jobs) - MOST_JOBS + 1)]:
            del self._jobs[job_id]
        if len(self._jobs) >= MOST_JOBS:
            raise Refused(503, "Too much at once", "Too many acts are under way; try again later.")
        self._jobs[doing.id] = doing
        task = asyncio.ensure_future(self._run(doing, engine, act, which, keep))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(
        self, doing: Doing, engine: "Engine", act: Act, which: "Query | Sequence[str]", keep: Keep
    ) -> None:
        async def progress(_: Sequence[Task | None], acted: Sequence[ActionResult]) -> None:
            doing.tally.count(acted)
            for one in acted:
                if one.error is not None and len(doing.refused) < MOST_NAMED:
                    doing.refused.append((one.id, line_of(str(one.error))))

        try:
            async with self._turn:
                doing.state = "runs"
                if isinstance(which, Query):
                    await act_on_found(engine, which, act, keep=keep, progress=progress)
                else:
                    await act_on_ids(engine, which, act, progress=progress)
            doing.state = "done"
        except asyncio.CancelledError:
            doing.state, doing.error = "failed", "The board was stopped meanwhile."
            raise
        except (AndonError, OSError) as error:
            log.warning("An act on many tasks (%s) ended early: %s", doing.label, error)
            doing.state, doing.error = "failed", line_of(str(error))
        except Exception:
            log.exception("An act on many tasks (%s) ended early", doing.label)
            doing.state, doing.error = "failed", "Something went wrong; the board's log says what."


def new_id() -> str:
    """A name for an act that cannot be guessed."""
    return secrets.token_urlsafe(16)


class Counted(msgspec.Struct, frozen=True):
    """How many tasks an act would touch, as far as they were counted."""

    number: int
    cursor: str = ""  #: the cursor at which counting goes on; empty: these are all

    @property
    def is_whole(self) -> bool:
        """Whether these are all."""
        return not self.cursor


async def count(engine: "Engine", query: Query, keep: Keep, before: int = 0) -> Counted:
    """Count the tasks that a query finds, on from `before`, for a moment at most."""
    loop = asyncio.get_running_loop()
    until = loop.time() + COUNT_S
    query = msgspec.structs.replace(query, limit=MAX_BATCH)
    number = before
    while True:
        page = await within(engine.find(query))
        number += sum(keep(task) for task in page.tasks)
        if not page.cursor:
            return Counted(number)
        if loop.time() >= until:
            return Counted(number, page.cursor)
        query = msgspec.structs.replace(query, cursor=page.cursor)
        await asyncio.sleep(0)
