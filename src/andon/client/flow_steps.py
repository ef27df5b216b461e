"""The parts of a flow that is being built: steps, groups and chains."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from msgspec.structs import replace

from andon.client.drafts import Draft
from andon.client.flow_arguments import Result
from andon.engine.base import Submission
from andon.model.errors import InvalidSubmission
from andon.worker.follow_ups import HasId

if TYPE_CHECKING:
    from andon.worker.calls import Call

T_contra = TypeVar("T_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class TakesOne(Protocol[T_contra, R_co]):
    """A task that can be submitted with one argument: what `Flow.map` maps.

    Example:
        with app.flow("billing") as flow:
            flow.map(remind.options(priority=2), ["ann", "bob"])
    """

    def draft(self, item: T_contra, /) -> Draft[R_co]:
        """A call with it.

        Example:
            draft = remind.draft("ann")
        """
        ...


class Part(Protocol):
    """Steps of a flow that others can be put before or after: a step, a group or a chain.

    Example:
        with app.flow("billing") as flow:
            step = flow.add(charge, 7, 990)
            flow.chain(step, flow.group(flow.chain(flow.add(remind, "ann")), flow.add(report)))
    """

    @property
    def flow(self) -> HasId:
        """The flow that it is part of."""
        ...

    @property
    def firsts(self) -> "Sequence[Step[Any]]":
        """The steps that wait for none of the part."""
        ...

    @property
    def lasts(self) -> "Sequence[Step[Any]]":
        """The steps that none of the part waits for."""
        ...


class Step(Generic[R_co]):
    """One task of a flow that is not submitted yet.

    Example:
        with app.flow("billing") as flow:
            paid = flow.add(charge, 7, 990)
            flow.add(remind, paid.result)  # runs when `paid` has, with what that returned
        handle = await flow.submit()
        assert await handle.result(timeout=60) == "order 7 paid reminded"
        print(paid.id, await app.handle(paid.id).status())
    """

    def __init__(self, flow: HasId, draft: Draft[R_co], parents: Sequence[str]) -> None:
        self.flow = flow  #: the flow that it is part of
        self.codec: Call = draft.codec  #: of its arguments and result
        self._draft = draft
        self._takes_results = bool(parents)
        self._parents = dict.fromkeys((*parents, *draft.submission.dependencies))
        self._needs = draft.submission.needs

    def __repr__(self) -> str:
        return f"<Step {self.id} of {self._draft.submission.name}>"

    @property
    def id(self) -> str:
        """The id that the task has or will have."""
        return self._draft.submission.id

    @property
    def name(self) -> str:
        """The task's name."""
        return self._draft.submission.name

    @property
    def result(self) -> R_co:
        """What the task will return, as an argument of another task of the flow. That one waits for
        it, and is called with the result; until then it is a placeholder, fit for nothing else."""
        return cast("R_co", Result([self], is_list=False))

    @property
    def firsts(self) -> "Sequence[Step[R_co]]":
        """Itself."""
        return (self,)

    @property
    def lasts(self) -> "Sequence[Step[R_co]]":
        """Itself."""
        return (self,)

    @property
    def parents(self) -> Sequence[str]:
        """The ids of the tasks that it waits for."""
        return tuple(self._parents)

    @property
    def takes_any_end(self) -> bool:
        """Whether it runs however those end that it waits for."""
        return self._draft.submission.requires == "all-resolved"

    def wait_for(self, step: "Step[Any]") -> bool:
        """Let it wait for another step, too; False if it does so already."""
        if step.id in self._parents:
            return False
        self._parents[step.id] = None
        return True

    def need(self, count: int) -> None:
        """Let it wait for so many of its parents only."""
        self._needs = count

    def check(self) -> None:
        """Raise `InvalidSubmission` if it needs more steps than it waits for."""
        needs, count = self._needs, len(self._parents)
        if needs is not None and not 1 <= needs <= count:
            raise InvalidSubmission(
                f"{self!r} needs {needs} of the {count:,} tasks that it waits for; give 1 to "
                "their number.",
                field="needs",
            )

    def tie(self, bearer: str, headers: Mapping[str, str], *, to_its_end: bool) -> None:
        """Mark it as fanned out by a run, which `headers` name; `to_its_end`: wait for the end of
        that run."""
        draft = self._draft
        merged = {**draft.submission.headers, **headers}
        self._draft = replace(draft, submission=replace(draft.submission, headers=merged))
        if not to_its_end:
            return
        if self._needs is not None:
            raise InvalidSubmission(
                f"{self!r} waits for tasks of other flows and needs some of them only; in a flow "
                "that a run fans out, let a task of this flow wait for those.",
                field="needs",
            )
        self._parents[bearer] = None

    def submission(self, **fields: Any) -> Submission:
        """The submission of this step."""
        submission = self._draft.submission
        fields["needs"] = self._needs
        if self._parents:
            fields["options"] = {**submission.options, "on_dependency_failure": "unreachable"}
            fields["dependencies"] = tuple(self._parents)
        if self._takes_results:
            fields["load_dependencies"] = True
        return replace(submission, **fields)

    def draft(self, submission: Submission) -> Draft[R_co]:
        """The draft of this step, for the application."""
        return replace(self._draft, submission=submission)


class Group(Generic[R_co]):
    """Steps of a flow that run side by side.

    Example:
        with app.flow("billing") as flow:
            reminders = flow.map(remind, ["ann", "bob"])
            flow.chord(reminders, flow.add(report))
        handle = await flow.submit()
        assert await handle.result(timeout=60) == ["ann reminded", "bob reminded"]
        assert len(reminders) == 2
        print([step.id for step in reminders])
    """

    def __init__(self, flow: HasId, parts: Sequence[Part]) -> None:
        self.flow = flow  #: the flow that it is part of
        self._parts = parts

    def __repr__(self) -> str:
        return f"<Group of {len(self)} steps>"

    def __len__(self) -> int:
        return len(self.lasts)

    def __iter__(self) -> Iterator[Step[R_co]]:
        return iter(self.lasts)

    @property
    def firsts(self) -> Sequence[Step[Any]]:
        """The steps that it begins with."""
        return [step for part in self._parts for step in part.firsts]

    @property
    def lasts(self) -> Sequence[Step[R_co]]:
        """The steps that it ends with."""
        return [step for part in self._parts for step in part.lasts]

    @property
    def results(self) -> list[R_co]:
        """What the steps it ends with will return, in their order, as an argument of another task
        of the flow."""
        return cast("list[R_co]", Result(self.lasts, is_list=True))


class Chain(Generic[R_co]):
    """Steps of a flow that run one after the other.

    Example:
        with app.flow("billing") as flow:
            line = flow.chain(flow.add(charge, 7, 990), flow.add(remind, "ann"))
            flow.add(remind, line.result)
        handle = await flow.submit()
        assert await handle.result(timeout=60) == "ann reminded reminded"
    """

    def __init__(self, flow: HasId, firsts: Sequence[Step[Any]], last: Part) -> None:
        self.flow = flow  #: the flow that it is part of
        self.firsts = firsts  #: the steps that it begins with
        self._last = last

    @property
    def lasts(self) -> Sequence[Step[Any]]:
        """The steps that it ends with."""
        return self._last.lasts

    @property
    def result(self) -> R_co:
        """What its last step will return, as an argument of another task of the flow."""
        lasts = self.lasts
        return cast("R_co", Result(lasts, is_list=len(lasts) != 1 or isinstance(self._last, Group)))
