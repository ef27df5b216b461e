"""Flows over a local or remote engine: read, counted, cancelled, rerun.

A flow is read by one list of its group, in pages, and little is kept in memory of each member.
Nothing else of the store is read.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.queries import EventPage, Page, Query
from andon.engine.base import ActionResult
from andon.engine.bulk import Tally
from andon.lifecycle.commands import Command, Rerun
from andon.lifecycle.flows import (
    MOST_MEMBERS,
    About,
    FlowDocument,
    FlowMember,
    FlowNode,
    FlowProgress,
    about_of,
    counted,
    to_rerun,
    tree,
)
from andon.model.errors import FlowNotFound
from andon.model.headers import FLOW_TAG
from andon.model.task import Task, TaskEvent
from andon.model.words import OVER, State

_PAGE = 200
_EVENTS = 500
_MOST_PAGES = 20
"""Pages that are looked at for flows, each of them the first tasks of some."""


class Reads(Protocol):
    """The part of an `Engine` that reads a flow."""

    async def find(self, query: Query) -> Page:
        """A page of tasks."""
        ...

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        """Whole records, in the order asked for."""
        ...


class Acts(Reads, Protocol):
    """The part of an `Engine` that also acts on its members."""

    async def cancel(self, ids: Sequence[str], *, force: bool = False) -> list[ActionResult]:
        """Cancel waiting tasks, ask running ones to stop."""
        ...

    async def act(
        self, ids: Sequence[str], command: Command, *, force: bool = False
    ) -> list[ActionResult]:
        """Any other act of control."""
        ...


class Follows(Protocol):
    """The part of an `Engine` that reads events."""

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        """Events after a cursor."""
        ...


class FlowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A flow, as its first task describes it.

    Example:
        for flow in await app.flows.list():
            print(flow.id, flow.name, flow.members, flow.created_at)
    """

    id: str  #: the group of its tasks
    name: str  #: what it is for
    members: int  #: tasks that it was submitted with
    created_at: int  #: ms UTC


class Flow(msgspec.Struct, kw_only=True):
    """A flow as it was read."""

    id: str
    about: (
        About | None
    )  #: None for a group that was not submitted as a flow, or whose first is gone
    members: dict[str, FlowMember]
    is_whole: bool  #: False: it has more members than are read

    @property
    def progress(self) -> FlowProgress:
        """How far it is."""
        total = 0 if self.about is None else self.about.members
        return counted((member.state for member in self.members.values()), total)

    @property
    def tree(self) -> list[FlowNode]:
        """Its nodes, each after those it waits for."""
        return tree(list(self.members.values()))

    @property
    def document(self) -> FlowDocument:
        """The flow as it is shown."""
        return FlowDocument(
            id=self.id,
            name=None if self.about is None else self.about.name,
            is_whole=self.is_whole,
            progress=self.progress,
            nodes=self.tree,
        )

    @property
    def is_over(self) -> bool:
        """Whether all of its members have ended."""
        return all(member.is_over for member in self.members.values())

    def note(self, event: TaskEvent) -> bool:
        """Take in a move of a member; False if it is none of this flow, or a deletion."""
        member = self.members.get(event.task)
        if member is None or event.target is None:
            return False
        self.members[event.task] = msgspec.structs.replace(
            member,
            state=event.target,
            reason=event.reason,
            error=None if event.target is State.COMPLETED else event.error or member.error,
            ended_at=event.at if event.target in OVER else None,
        )
        return True


async def read_flow(engine: Reads, flow_id: str, *, bare: bool = False) -> Flow:
    """The flow as it stands. `bare`: errors and progress of its members may be left out, which is
    less to read. Raises `FlowNotFound`."""
    flow = Flow(id=flow_id, about=None, members={}, is_whole=True)
    async for task in members_of(engine, flow_id, bare=bare):
        if len(flow.members) == MOST_MEMBERS:
            flow.is_whole = False
            break
        flow.members[task.id] = FlowMember.of(task)
        flow.about = flow.about or about_of(task)
        if flow.about is None and bare and FLOW_TAG in task.definition.tags:
            [whole] = await engine.get([task.id])
            flow.about = None if whole is None else about_of(whole)
    if not flow.members:
        raise FlowNotFound(flow_id)
    return flow


async def members_of(engine: Reads, flow_id: str, *, bare: bool = False) -> AsyncIterator[Task]:
    """The records of a group, in the order in which they were created."""
    query = Query(group=flow_id, limit=_PAGE, bare=bare)
    while True:
        page = await engine.find(query)
        for task in page.tasks:
            yield task
        if not page.cursor:
            return
        query = msgspec.structs.replace(query, cursor=page.cursor)


async def list_flows(engine: Reads, *, limit: int) -> list[FlowSummary]:
    """The newest flows, by the list of their first tasks that every store keeps."""
    found: list[FlowSummary] = []
    query = Query(tag=FLOW_TAG, newest_first=True, limit=min(limit, _PAGE))
    for _ in range(_MOST_PAGES):
        page = await engine.find(query)
        for task in page.tasks:
            about, group = about_of(task), task.definition.group
            if about is not None and group is not None:
                created = task.status.created_at
                found.append(
                    FlowSummary(
                        id=group, name=about.name, members=about.members, created_at=created
                    )
                )
        if not page.cursor or len(found) >= limit:
            break
        query = msgspec.structs.replace(query, cursor=page.cursor)
    return found[:limit]


async def news(engine: Follows, flow: Flow, cursor: str) -> tuple[str, bool]:
    """Apply the events since. Returns the cursor after them, and whether some were lost, so that
    the flow has to be read again."""
    while True:
        page = await engine.events(cursor, _EVENTS)
        for event in page.events:
            flow.note(event)
        if page.gap or not page.events:
            return page.cursor, page.gap
        cursor = page.cursor


async def cancel_flow(engine: Acts, flow: Flow, *, force: bool = False) -> Tally:
    """Cancel what has not ended, dependents before their dependencies: so nothing starts meanwhile
    because its dependencies are satisfied, or ends `unreachable` where it was to be cancelled."""
    live = [member.id for member in flow.members.values() if not member.is_over]
    tally = Tally()
    for some in in_batches(live[::-1], MAX_BATCH):
        tally.count(await engine.cancel(some, force=force))
    return tally


async def rerun_flow(engine: Acts, flow: Flow, *, failed_only: bool = True) -> Tally:
    """Run members again, each after those it depends on, so that none finds one that has not been
    started again. Cut short anywhere, it is finished by another call."""
    tally = Tally()
    for some in _turns(flow, to_rerun(list(flow.members.values()), failed_only=failed_only)):
        tally.count(await engine.act(some, Rerun(waits=True)))
    return tally


def _turns(flow: Flow, ids: Sequence[str]) -> list[list[str]]:
    """The ids in calls of which none has a task and one that it depends on: those of a call are
    acted on at once."""
    turns: list[list[str]] = []
    turn_of: dict[str, int] = {}
    for task_id in ids:
        parents = (turn_of.get(p, -1) for p in flow.members[task_id].dependencies if p != task_id)
        turn = turn_of[task_id] = max(parents, default=-1) + 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(task_id)
    return [list(some) for turn in turns for some in in_batches(turn, MAX_BATCH)]
