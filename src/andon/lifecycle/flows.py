"""Flows: tasks of one group that depend on one another, seen as one. Pure.

A flow is the group of its id. Its tree, its progress and the members of a rerun are computed here
from its members, as they were read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

import msgspec

from andon.lifecycle.parents import waits_for
from andon.model.headers import FLOW_HEADER
from andon.model.task import Task, TaskError
from andon.model.words import OVER, TERMINAL, Reason, State

MOST_MEMBERS = 10_000
"""Tasks of one flow: so many can be read, and waited for by one, in a few seconds."""

_MOST_NAMED = 10
"""Members of one node that are named one by one."""

_STUCK = TERMINAL - {State.COMPLETED}


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """The description of a flow in the header `andon-flow` of its first task."""

    name: str
    members: int
    digest: str  #: of all that was submitted, to recognise a repeat


class FlowMember(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parts of one task that a flow is computed from."""

    id: str
    name: str  #: of the task type
    version: int  #: of the task type
    queue: str
    state: State
    dependencies: tuple[str, ...]
    reason: Reason | None
    progress: int  #: percent
    error: TaskError | None
    began_at: int | None  #: newest entry into pending, ms UTC
    ended_at: int | None
    rerun: bool  #: it was started again by hand
    needs: int | None = None  #: how many dependencies it needs; None: all

    @classmethod
    def of(cls, task: Task) -> "FlowMember":
        """The member that a record is."""
        d, status, cell = task.definition, task.status, task.cell
        return cls(
            id=d.id,
            name=d.name,
            version=d.version,
            queue=d.queue,
            state=status.state,
            dependencies=waits_for(task),
            reason=status.reason,
            progress=status.progress if cell is None else cell.progress,
            error=None if status.state is State.COMPLETED else status.last_error,
            began_at=status.submitted_at,
            ended_at=status.finished_at,
            rerun=status.rerun_by_hand,
            needs=d.needs,
        )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in OVER


def about_of(task: Task) -> About | None:
    """The description of the flow in the record of its first task; None for another task."""
    header = task.definition.headers.get(FLOW_HEADER)
    if header is None:
        return None
    try:
        return msgspec.json.decode(header.encode(), type=About)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def circle_in(parents: Mapping[str, Iterable[str]]) -> list[str]:
    """Tasks that depend on one another in a circle, each followed by one that waits for it; empty
    if there are none."""
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def in_order(members: Sequence[FlowMember]) -> list[FlowMember]:
    """The members, each after those of the flow that it depends on."""
    known = {member.id: member for member in members}
    sorter = TopologicalSorter[str]()
    for member in members:
        sorter.add(member.id, *(p for p in member.dependencies if p in known and p != member.id))
    try:
        return [known[task_id] for task_id in sorter.static_order()]
    except CycleError:  # no store holds one; a group made by hand is shown all the same
        return list(members)


# --- how far it is ---


class FlowProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a flow is.

    Example:
        with app.flow("billing") as flow:
            flow.map(remind, ["ann", "bob"])
        progress = await (await flow.submit()).progress()
        assert (progress.total, progress.ended, progress.states) == (2, 0, {"pending": 2})
    """

    total: int  #: tasks it has, those among them whose records are gone already
    ended: int  #: that run no more, however they ended
    completed: int  #: that ended well, or whose records are gone
    failed: int  #: that ended otherwise
    percent: int  #: how much has ended, 0 to 100; 100 only when all has
    states: dict[str, int]  #: tasks by state, in the order in which a task goes through them


def counted(states: Iterable[State], total: int = 0) -> FlowProgress:
    """How far a flow is whose members are in these states; `total` as it was submitted."""
    by_state = Counter(states)
    listed = by_state.total()
    total = max(total, listed)
    gone = total - listed
    failed = sum(by_state[state] for state in _STUCK | {State.UNKNOWN})
    completed = by_state[State.COMPLETED] + gone
    ended = completed + failed
    return FlowProgress(
        total=total,
        ended=ended,
        percent=100 if ended >= total else 100 * ended // total,
        completed=completed,
        failed=failed,
        states={state.value: by_state[state] for state in State if by_state[state]},
    )


# --- its tree ---


class FlowFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a flow that did not complete.

    Example:
        with app.flow("billing") as flow:
            flow.add(charge, 7, -1)
        handle = await flow.submit()
        async for _ in handle.results():
            pass
        [node] = await handle.tree()
        assert (node.stuck[0].state, node.stuck[0].message) == ("failed", "nothing to charge")
    """

    id: str  #: of the task
    state: str  #: in which it ended
    reason: str  #: why; empty if that is not known
    message: str  #: the error of its newest failed run; empty if none failed


class FlowNode(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of a flow that are alike: of one type, after the same nodes. A chain of one type is one
    node too.

    Example:
        with app.flow("billing") as flow:
            flow.chord(flow.map(remind, ["ann", "bob"]), flow.add(report))
        for node in await (await flow.submit()).tree():
            print(node.name, node.count, node.states, node.after)
    """

    name: str  #: of the task type
    count: int  #: how many they are
    states: dict[str, int]  #: how many are in each state
    after: tuple[int, ...]  #: places, in the tree, of the nodes it waits for, all before its own
    ids: tuple[str, ...]  #: the first of its tasks
    stuck: tuple[FlowFailure, ...]  #: the first of those that did not complete
    progress: int  #: percent, the mean of its tasks
    needs: tuple[int, int] | None = None
    """How many of how many dependencies each of its tasks needs; None: all, or they differ."""


class _Growing:
    """A node while its members are being counted."""

    def __init__(self, name: str, after: tuple[int, ...]) -> None:
        self.name, self.after = name, after
        self.states = Counter[State]()
        self.ids: list[str] = []
        self.stuck: list[FlowFailure] = []
        self.percents = 0
        self.needs = set[tuple[int, int] | None]()

    def add(self, member: FlowMember) -> None:
        self.states[member.state] += 1
        needs = member.needs
        self.needs.add(None if needs is None else (needs, len(member.dependencies)))
        self.percents += 100 if member.is_over else member.progress
        if len(self.ids) < _MOST_NAMED:
            self.ids.append(member.id)
        if member.state in _STUCK and len(self.stuck) < _MOST_NAMED:
            self.stuck.append(
                FlowFailure(
                    id=member.id,
                    state=member.state.value,
                    reason="" if member.reason is None else member.reason.value,
                    message="" if member.error is None else member.error.message,
                )
            )

    def node(self) -> FlowNode:
        count = self.states.total()
        return FlowNode(
            name=self.name,
            count=count,
            states={state.value: self.states[state] for state in State if self.states[state]},
            after=self.after,
            ids=tuple(self.ids),
            stuck=tuple(self.stuck),
            progress=self.percents // count,
            needs=next(iter(self.needs)) if len(self.needs) == 1 else None,
        )


def tree(members: Sequence[FlowMember]) -> list[FlowNode]:
    """The nodes of a flow, each after those it waits for."""
    growing: list[_Growing] = []
    places: dict[tuple[str, tuple[int, ...]], int] = {}
    node_of: dict[str, int] = {}
    for member in in_order(members):
        parents = {node_of[p] for p in member.dependencies if p in node_of}
        after = tuple(sorted(parents))
        alike = len(after) == 1 and growing[after[0]].name == member.name
        place = after[0] if alike else places.get((member.name, after))
        if place is None:
            place = places[member.name, after] = len(growing)
            growing.append(_Growing(member.name, after))
        growing[place].add(member)
        node_of[member.id] = place
    return [node.node() for node in growing]


class FlowDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A flow as it is shown."""

    id: str
    name: str | None  #: None for a group that was not submitted as a flow
    is_whole: bool  #: False: it has more tasks than are counted here
    progress: FlowProgress
    nodes: list[FlowNode]


# --- what a rerun takes ---


def to_rerun(members: Sequence[FlowMember], *, failed_only: bool) -> list[str]:
    """The members that a rerun takes, each after those it depends on.

    With `failed_only` those that did not complete, and what follows them: what was rerun, and has
    ended anew or is about to, makes what it led to before out of date. So a rerun that was cut
    short is finished by the next one.
    """
    known = {member.id: member for member in members}
    taken: dict[str, None] = {}
    for member in in_order(members):
        if member.state not in TERMINAL:
            continue
        parents = [known[p] for p in member.dependencies if p in known and p != member.id]
        if (
            not failed_only
            or member.state in _STUCK
            or any(p.id in taken or _is_newer(p, member) for p in parents)
        ):
            taken[member.id] = None
    return list(taken)


def _is_newer(parent: FlowMember, child: FlowMember) -> bool:
    """Whether a rerun of the parent goes on, or has ended after the child began."""
    if not parent.rerun:
        return False
    if not parent.is_over:
        return True
    return (parent.ended_at or 0) > (child.began_at or 0)
