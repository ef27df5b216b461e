"""Flows: builds tasks that depend on one another, checks them as a whole and submits them in one
call.

A flow is the group of its id. Its tasks' ids are derived from the flow's, so that a repeated submit
of a flow is recognised.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast, overload

import msgspec
from msgspec.structs import replace

from andon.client.drafts import Draft
from andon.client.flow_arguments import encode, has_results
from andon.client.flow_handle import FlowHandle
from andon.client.flow_steps import Chain, Group, Part, Step, TakesOne
from andon.client.function import TaskFunction
from andon.client.unawaited import awaited, awaited_as
from andon.contract.queries import Query
from andon.engine.base import Submission
from andon.lifecycle.fan_out import run_header
from andon.lifecycle.flows import MOST_MEMBERS, About, about_of, circle_in
from andon.model.errors import FlowConflict, InvalidSubmission, SubmissionsRefused, TaskConflict
from andon.model.headers import FLOW_HEADER, FLOW_TAG

if TYPE_CHECKING:
    from andon.client.submitting import Submitting
    from andon.engine.base import Engine

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MOST_EDGES = 100_000
"""Pairs of tasks of one flow of which one waits for the other."""

_MOST_SHOWN = 10
_NAME = re.compile(r"[A-Za-z0-9_:-]{1,24}\Z")
_ID = re.compile(r"[A-Za-z0-9_:-]{1,57}\Z")
"""Room is left for the number of a task, within the length of an id (docs/rulings.md, R27)."""


class Flow:
    """Tasks that depend on one another, while they are put together.

    `name` says what it is for: 1 to 24 of `A-Z a-z 0-9 _ : -`. With an `id` of your own (1 to 57 of
    these) the same flow submitted again is the same flow; else it gets a new one. Nothing is
    submitted before `submit`, which refuses what can never work before anything is stored.

    A task waits for those whose results it takes (`step.result`), for those it comes after in a
    `chain` or `chord`, and for those in its own `depends_on`. If one of these does not complete, it
    ends `unreachable`, and names that one; a flow never waits for what cannot come.

    Example:
        with app.flow("billing") as flow:
            bills = flow.map(remind, ["ann", "bob", "cyd"])
            flow.chord(bills, flow.add(report))
        handle = await flow.submit()
        await handle.result(timeout=60)
        assert (await handle.progress()).percent == 100
    """

    def __init__(self, app: "Submitting", name: str, *, id: str | None = None) -> None:
        if not _NAME.match(name):
            raise InvalidSubmission(
                f"The name of a flow is 1 to 24 of A-Z a-z 0-9 _ : and -, not {name[:60]!r}.",
                field="name",
            )
        if id is not None and not _ID.match(id):
            raise InvalidSubmission(
                f"The id of a flow is 1 to 57 of A-Z a-z 0-9 _ : and -, not {id[:80]!r}.",
                field="id",
            )
        self.name = name  #: what it is for
        self.id = f"{name}-{app.new_id()}" if id is None else id
        """The id that it has or will have: the group of its tasks."""
        self.app = app  #: whose tasks they are
        self._may_be_there = id is not None
        self._steps: dict[str, Step[Any]] = {}
        self._edges = 0
        self._is_submitted = False

    def __repr__(self) -> str:
        return f"<Flow {self.id} of {len(self)} tasks>"

    def __len__(self) -> int:
        return len(self._steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.check()

    # --- putting it together ---

    def add(self, task: TaskFunction[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> Step[R]:
        """One more task. Its arguments are those of a submit; any of them may be the `result` of
        another step, or hold such results in lists. Options go with the task:
        `flow.add(charge.options(priority=2), 7, 990)`.

        Raises `InvalidSubmission` for arguments that do not fit, for a result of another flow, for
        an option that a flow sets itself (`group`, `connection`, `on_dependency_failure`), and for
        one task more than a flow may have (10,000).

        Example:
            with app.flow("billing") as flow:
                paid = flow.add(charge, 7, cents=990)
                flow.add(remind, to=paid.result)
            handle = await flow.submit()
        """
        return self._add(task, args, kwargs)

    def map(self, task: TakesOne[T, R], items: Iterable[T]) -> Group[R]:
        """A call of the task for each item, which is its first argument; they run side by side.

        Example:
            with app.flow("billing") as flow:
                reminders = flow.map(remind, (f"{name}@example.org" for name in ("ann", "bob")))
                assert len(reminders) == 2
        """
        function = cast("TaskFunction[..., R, Any]", task)
        return Group(self, [self._add(function, (item,), {}) for item in items])

    @overload
    def group(self, *parts: Step[R]) -> Group[R]: ...
    @overload
    def group(self, *parts: Part) -> Group[Any]: ...
    def group(self, *parts: Part) -> Group[Any]:
        """Steps, chains and groups that run side by side, as one part.

        Example:
            with app.flow("billing") as flow:
                both = flow.group(flow.add(charge, 7, 990), flow.add(charge, 8, 990))
                flow.chord(both, flow.add(report))
        """
        self._check_own(parts)
        return Group(self, parts)

    @overload
    def chain(self, *parts: *tuple[*tuple[Part, ...], Step[R]]) -> Chain[R]: ...
    @overload
    def chain(self, *parts: Part) -> Chain[Any]: ...
    def chain(self, *parts: Part) -> Chain[Any]:
        """Let each part wait for the one before it: steps, groups and chains, in this order.

        Example:
            with app.flow("billing") as flow:
                flow.chain(
                    flow.add(charge, 7, 990),
                    flow.map(remind, ["ann", "bob"]),
                    flow.add(report),
                )
        """
        self._check_own(parts)
        if not parts:
            raise InvalidSubmission("A chain has at least one part.")
        for before, after in pairwise(parts):
            self._join(before, after)
        return Chain(self, parts[0].firsts, parts[-1])

    def chord(self, group: Part, closing: Step[R], *, needs: int | None = None) -> Step[R]:
        """Let one step wait for all of a group; that step. It always ends: it runs when all of
        them have completed, and is `unreachable`, naming the one that failed, when one does not.
        To run it however they end give its task the option `requires="all-resolved"`. With `needs`
        it runs as soon as so many of all that it waits for have completed, and is `unreachable` as
        soon as so many cannot.

        Example:
            with app.flow("billing") as flow:
                closing = flow.add(report.options(requires="all-resolved"))
                flow.chord(flow.map(remind, ["ann", "bob"]), closing)
                flow.chord(flow.map(remind, ["cy", "di", "ed"]), flow.add(report), needs=2)
        """
        self.chain(group, closing)
        if needs is not None:
            closing.need(needs)
        return closing

    def _add(
        self, task: TaskFunction[..., R, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Step[R]:
        if self._is_submitted:
            raise InvalidSubmission(f"Flow {self.id!r} was submitted; it takes no more tasks.")
        if len(self._steps) >= MOST_MEMBERS:
            raise InvalidSubmission(
                f"A flow has at most {MOST_MEMBERS:,} tasks. Split it, or submit what need not be "
                "waited for together with app.submit_stream."
            )
        parents: tuple[str, ...] = ()
        headers: dict[str, str] = {}
        if any(map(has_results, args)) or any(map(has_results, kwargs.values())):
            payload, parents, headers = encode(task.type.codec, self, args, kwargs)
            draft = task.draft_of(payload)
        else:
            draft = task.draft_call(args, kwargs)
        step = Step(self, self._of_flow(draft, task.chosen_id, headers), parents)
        if step.id in self._steps:
            raise InvalidSubmission(f"Two tasks of the flow have the id {step.id!r}.", field="id")
        self._count(len(step.parents))
        self._steps[step.id] = step
        return step

    def _of_flow(self, draft: Draft[R], chosen: str | None, headers: dict[str, str]) -> Draft[R]:
        submission = draft.submission
        for option, given in (
            ("group", submission.group),
            ("connection", draft.connection),
            ("on_dependency_failure", submission.options.get("on_dependency_failure")),
        ):
            if given not in (None, "unreachable"):
                raise InvalidSubmission(
                    f"{submission.name} has the option {option}, which a flow sets itself.",
                    field=option,
                )
        task_id = f"{self.id}:{len(self._steps)}" if chosen is None else chosen
        fields: dict[str, Any] = {"id": task_id, "group": self.id}
        if headers:
            fields["headers"] = {**submission.headers, **headers}
        return replace(draft, submission=replace(submission, **fields))

    def _join(self, before: Part, after: Part) -> None:
        for step in after.firsts:
            for parent in before.lasts:
                if step.wait_for(parent):
                    self._count(1)

    def _count(self, edges: int) -> None:
        self._edges += edges
        if self._edges > MOST_EDGES:
            raise InvalidSubmission(
                f"More than {MOST_EDGES:,} pairs of tasks wait for one another. Put a task between "
                "groups of which each waits for all of the other."
            )

    def _check_own(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if part.flow is not self:
                raise InvalidSubmission(
                    f"{part!r} is of another flow; a chain or group joins steps of one flow."
                )

    # --- submitting it ---

    def check(self) -> None:
        """Refuse what can never work: no tasks at all, tasks that wait for one another in a circle,
        and one that needs more than it waits for. Raises `InvalidSubmission`; `submit` and the end
        of a `with` block do so too.

        Example:
            flow = app.flow("billing")
            flow.add(charge, 7, 990)
            flow.check()
        """
        if not self._steps:
            raise InvalidSubmission(f"Flow {self.id!r} has no tasks.")
        for step in self._steps.values():
            step.check()
        circle = circle_in({step.id: step.parents for step in self._steps.values()})
        if circle:
            shown = [*circle[:_MOST_SHOWN], *(["…"] if len(circle) > _MOST_SHOWN else [])]
            raise InvalidSubmission(
                f"These tasks wait for one another in a circle: {' -> '.join(shown)}.",
                field="dependencies",
            )

    @awaited
    async def submit(self) -> FlowHandle:
        """Submit all of it, in one call; repeat it if you do not know whether it arrived.

        Raises `InvalidSubmission` for what can never work and `FlowConflict` if the id is that of
        another flow, both before anything is stored; `SubmissionsRefused` if tasks were refused for
        what only the store knows (a full queue, a held key).

        Example:
            with app.flow("billing") as flow:
                flow.map(remind, ["ann", "bob"])
            handle = await flow.submit()
            print(handle.id, await handle.progress())
        """
        self.check()
        steps = list(self._steps.values())
        submissions = self._submissions(steps)
        if self._may_be_there or self._is_submitted:
            await self._check_repeat(await self.app.engine(), submissions)
        self._is_submitted = True
        drafts = [step.draft(one) for step, one in zip(steps, submissions, strict=True)]
        outcomes = await self.app.send_drafts(drafts)
        errors = {one.id: one.error for one in outcomes if one.error is not None}
        if errors and all(isinstance(error, TaskConflict) for error in errors.values()):
            raise FlowConflict(self.id)
        if errors:
            raise SubmissionsRefused(errors, tuple(o.id for o in outcomes if o.error is None))
        return FlowHandle(self.app, self.id)

    @awaited_as("Context.fan_out")
    async def fan_out(self, bearer: str, run: str) -> FlowHandle:
        """Submit all of it for a run of the task `bearer`, which `Context.fan_out` calls."""
        if self._may_be_there:
            raise InvalidSubmission(
                f"Flow {self.id!r} has an id of its own, and every run that fans it out makes "
                "another; leave id= out.",
                field="id",
            )
        if not self._is_submitted:
            self.check()
            self._tie(bearer, run_header(bearer, run))
        return await Flow.submit(self)  # the async one, also of a sync flow

    def _tie(self, bearer: str, headers: Mapping[str, str]) -> None:
        """Make the first of its tasks wait for the end of that run, and put the run into the
        headers of all tasks that any end would satisfy."""
        for step in self._steps.values():
            first = self._steps.keys().isdisjoint(step.parents)
            if first or step.takes_any_end:
                step.tie(bearer, headers, to_its_end=first)

    def _submissions(self, steps: Sequence[Step[Any]]) -> list[Submission]:
        """The drafts to submit. The first of those that wait for none has the flow's header."""
        first = next(step for step in steps if not step.parents or step is steps[0])
        plain = [step.submission() for step in steps]
        told = blake2b(digest_size=16)
        for submission in plain:
            told.update(msgspec.json.encode(submission))
        about = About(self.name, len(steps), told.hexdigest())
        header = {FLOW_HEADER: msgspec.json.encode(about).decode()}
        place = steps.index(first)
        one = plain[place]
        plain[place] = replace(one, headers={**one.headers, **header}, tags=(*one.tags, FLOW_TAG))
        return plain

    async def _check_repeat(self, engine: "Engine", submissions: Sequence[Submission]) -> None:
        """Refuse another flow of this id, before anything of this one is stored. Two submits at the
        same moment conflict task by task."""
        page = await engine.find(Query(group=self.id, limit=1))
        if not page.tasks:
            return
        first = next(one for one in submissions if FLOW_HEADER in one.headers)
        [there] = await engine.get([first.id])
        if there is None:  # it was discarded, or is about to be stored
            ours = {one.id for one in submissions}
            if page.tasks[0].id not in ours:
                raise FlowConflict(self.id)
            return
        about = about_of(there)
        mine = msgspec.json.decode(first.headers[FLOW_HEADER], type=About)
        if about is None or about.digest != mine.digest:
            raise FlowConflict(self.id)
