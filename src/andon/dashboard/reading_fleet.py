"""Reads for the pages of workers, schedules and flows."""

import asyncio
from typing import TYPE_CHECKING

from andon.contract.queries import Query
from andon.dashboard.patience import within
from andon.dashboard.views.fleet import Workers, workers_of
from andon.engine import flows
from andon.engine.looking import BesideStore
from andon.model.words import State

if TYPE_CHECKING:
    from andon.dashboard.access import Visitor
    from andon.dashboard.reading import Reader
    from andon.engine.base import Engine
    from andon.lifecycle.flows import FlowDocument
    from andon.model.task import Task

_MOST_WORKERS = 100
"""For how many workers runs are listed; of a larger fleet only numbers are shown."""

_RUNS = 11
SCHEDULES_PAGE = 100
MOST_FLOWS = 50
_FLOW_S = 20.0
"""How long a flow may be read: a large one takes some time."""


async def workers(reader: "Reader") -> Workers:
    """Workers with their runs."""
    engine = await reader.engine()
    alive = await reader.workers()
    codes = None
    if isinstance(engine, BesideStore):
        codes = await within(engine.code_lists({one.code for one in alive if one.code}))
    # The number of runs that a worker reported may be ten seconds old, so the runs of each are
    # read.
    busy = [one.id for one in alive][:_MOST_WORKERS]
    runs = await asyncio.gather(*(_runs_of(engine, worker) for worker in busy))
    waits = await reader.waits()
    return workers_of(alive, codes, dict(zip(busy, runs, strict=True)), waits, engine.now())


def seen_by(visitor: "Visitor", view: Workers) -> Workers:
    """The same as far as a visitor may see it: tasks of queues that they may read."""
    if visitor.may("tasks:read:*") and visitor.may("queues:read:*"):
        return view
    from msgspec.structs import replace

    rows = [replace(row, runs=[]) for row in view.rows]
    lacking = [one for one in view.lacking if visitor.may(f"queues:read:{one.queue}")]
    return replace(view, rows=rows, lacking=lacking)


async def _runs_of(engine: "Engine", worker: str) -> "list[Task]":
    query = Query(worker=worker, states=(State.ACTIVE,), limit=_RUNS)
    return list((await within(engine.find(query))).tasks)


async def schedules(reader: "Reader", cursor: str) -> "tuple[list[Task], str]":
    """A page of live schedules, and the cursor of the next."""
    engine = await reader.engine()
    query = Query(states=(State.RECURRING,), limit=SCHEDULES_PAGE, cursor=cursor)
    page = await within(engine.find(query))
    return [task for task in page.tasks if task.status.schedule is not None], page.cursor


async def flow(reader: "Reader", flow_id: str) -> "FlowDocument":
    """One flow. Raises `FlowNotFound`."""
    engine = await reader.engine()
    return (await within(flows.read_flow(engine, flow_id), _FLOW_S)).document
