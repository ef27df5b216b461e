"""Submissions that are not sent yet."""

from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from andon.client.handle import TaskHandle
from andon.client.unawaited import awaited
from andon.engine.base import Submission
from andon.model.headers import BEFORE_HEADER
from andon.worker.calls import Call

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class SubmitsDrafts(Protocol):
    """The application that submits a draft."""

    async def submit_draft(self, draft: "Draft[R]") -> TaskHandle[R]:
        """Submit one draft."""
        ...

    def follow_draft(self, draft: "Draft[R]") -> tuple[Submission, TaskHandle[R]]:
        """The submission that a run makes with its end, and its handle."""
        ...


class Draft(msgspec.Struct, Generic[R_co], eq=False, gc=False):
    """A submission that exists only here; its id is known, so others can depend on it already.

    Submit it alone, or many of them in one round trip with `app.submit_many`. A draft submitted
    twice is one task.

    Example:
        first = charge.draft(7, 990)
        then = report.options(depends_on=first).draft()
        await app.submit_many([first, then])
        print(first.id)
    """

    _app: SubmitsDrafts
    submission: Submission
    codec: Call
    connection: Any = None
    returns_holder: bool = False  #: if another task holds its unique key, that task is meant

    def __repr__(self) -> str:
        return f"<Draft {self.id} of {self.submission.name}>"

    @property
    def id(self) -> str:
        """The id that the task has or will have."""
        return self.submission.id

    @awaited
    async def submit(self) -> TaskHandle[R_co]:
        """Submit it. Raises like `TaskFunction.submit`.

        Example:
            handle = await charge.draft(7, 990).submit()
        """
        return await self._app.submit_draft(self)

    def follow(
        self, before: str = "", group: str | None = None
    ) -> tuple[Submission, TaskHandle[R_co]]:
        """The submission that a run makes with its end (`Context.follow_up`), and its handle.
        `before` is the id of a blocked task that is to wait for it; then it joins this group,
        unless it has one of its own."""
        if not before:
            return self._app.follow_draft(self)
        submission = self.submission
        joining = replace(
            submission,
            headers={**submission.headers, BEFORE_HEADER: before},
            group=group if submission.group is None else submission.group,
        )
        return self._app.follow_draft(replace(self, submission=joining))


def check_draft(item: object) -> None:
    """Raise `TypeError` if it is no draft: the arguments of a task, say, or a coroutine."""
    if not isinstance(item, Draft):
        raise TypeError(
            "Tasks are submitted together as drafts, such as charge.draft(7, 990); got something "
            f"of type {type(item).__name__!r}."  # its text may be a secret
        )
