"""Tasks of the face, read from the engine: by id, and many at a time."""

from collections.abc import Sequence
from typing import NamedTuple

from andon.engine.local import LocalEngine
from andon.model.task import Task
from andon.service.taskcluster.answers import absent
from andon.service.taskcluster.document import Kept, kept_of

_AT_ONCE = 100
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of documents in one answer; a page that comes to more ends early."""


class Found(NamedTuple):
    """A task of the face."""

    task: Task
    kept: Kept


async def find(engine: LocalEngine, task_id: str) -> Found:
    """The task. Raises `ApiError` (404)."""
    [task] = await engine.get([task_id])
    kept = None if task is None else kept_of(task)
    if task is None or kept is None:
        raise absent(task_id)
    return Found(task, kept)


async def find_some(engine: LocalEngine, ids: Sequence[str]) -> tuple[list[Found], int]:
    """Those of these tasks that there are, in the order of the ids, and how many ids were looked
    at: fewer than all where the documents come to `MOST_BYTES`."""
    found: list[Found] = []
    looked_at = size = 0
    while looked_at < len(ids) and size < MOST_BYTES:
        some = ids[looked_at : looked_at + _AT_ONCE]
        for task in await engine.get(some):
            kept = None if task is None else kept_of(task)
            if task is not None and kept is not None:
                found.append(Found(task, kept))
                size += len(task.definition.args)
        looked_at += len(some)
    return found, looked_at
