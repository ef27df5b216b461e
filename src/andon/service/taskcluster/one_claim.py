"""Repeats lost answers to workers that have one claim at a time.

A worker of the face sends no token with its claim, so the request does not show whether it is a
repeat. Where workers are known to claim nothing more before they have begun with what they have,
the record shows it: if a worker has neither reclaimed nor reported a task that it got within the
last half minute, it has not received it.
"""

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from andon.model.errors import WorkerNotFound
from andon.model.task import Task
from andon.model.words import State
from andon.service.taskcluster.claims import lease_of
from andon.service.taskcluster.document import kept_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from andon.engine.local import LocalEngine

REPEATED_MS = 30_000
"""For so long after a claim the next one of the same worker counts as its repeat."""


class Turns:
    """The claims that are being answered: one of each worker, which a later one replaces."""

    def __init__(self) -> None:
        self._now: dict[tuple[str, str], _Turn] = {}

    @asynccontextmanager
    async def turn(self, queue: str, worker: str) -> "AsyncGenerator[asyncio.Event]":
        """Answer a claim of a worker, once an earlier one of it has ended, which is asked to. The
        event is set when a later one asks for that: what was claimed by then is left to it."""
        before = self._now.get((queue, worker))
        mine = self._now[queue, worker] = _Turn()
        try:
            if before is not None:
                before.superseded.set()
                await before.over.wait()
            yield mine.superseded
        finally:
            mine.over.set()
            if self._now.get((queue, worker)) is mine:
                del self._now[queue, worker]


class _Turn:
    """One claim that is being answered."""

    def __init__(self) -> None:
        self.superseded = asyncio.Event()
        self.over = asyncio.Event()


async def unheard_of(
    engine: "LocalEngine", queue: str, worker: str, limit: int, lease_s: float
) -> list[Task]:
    """Up to so many tasks that the worker got last, and of which nothing was heard since: whose
    claim still ends `lease_s` seconds after it began."""
    try:
        known = await engine.claiming_worker(queue, worker)
    except WorkerNotFound:
        return []
    newest = {run.task: run.run for run in known.recent[-limit:]}
    since, lease_ms = engine.now() - REPEATED_MS, round(lease_s * 1000)
    return [
        task
        for task in await engine.get(list(newest))
        if task is not None
        and _is_held(task, newest[task.id], worker)
        and since <= (claimed_at := task.status.runs[-1].claimed_at or 0)
        and lease_of(task) <= claimed_at + lease_ms
    ]


def _is_held(task: Task, number: int, worker: str) -> bool:
    """Whether the worker holds the task by its run of that number."""
    if task.state is not State.ACTIVE or kept_of(task) is None:
        return False
    run = task.status.runs[-1]
    return (run.number, run.worker) == (number, worker)
