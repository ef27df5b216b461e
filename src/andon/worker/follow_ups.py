"""The interfaces of what a run may submit with its end: follow-ups, and a flow that it fans out."""

from typing import Protocol, TypeVar, runtime_checkable

from andon.engine.base import Submission

H_co = TypeVar("H_co", covariant=True)


@runtime_checkable
class HasId(Protocol):
    """A handle or a draft.

    Example:
        first = await charge.submit(7, 990)  # a handle is one, a draft another
        second = charge.draft(8, 990)
        then = report.options(depends_on=[first, second]).draft()
        await app.submit_many([second, then])
    """

    @property
    def id(self) -> str:
        """The task's id."""
        ...


class FollowUp(Protocol[H_co]):
    """A task that a run may bear (`Context.follow_up`): every `Draft` is one.

    Example:
        submission, handle = charge.draft(7, 990).follow()
        assert submission.id == handle.id  # nothing is submitted yet
    """

    def follow(self, before: str = "", group: str | None = None) -> tuple[Submission, H_co]:
        """The submission made with the run, and its handle. `before` is the id of a blocked task
        that is to wait for it; then it joins this group, unless it has one of its own.
        """
        ...


class FansOut(Protocol[H_co]):
    """A flow that a run may fan out (`Context.fan_out`): every `Flow` is one.

    Example:
        from andon import Context

        @app.task
        async def remind_all(ctx: Context, names: list[str]) -> str:
            with app.flow("reminders") as flow:
                flow.map(remind, names)
            return (await ctx.fan_out(flow)).id

        handle = await remind_all.submit(["ann", "bob"])
        flow = app.flows.handle(await handle.result(timeout=60))
        assert await flow.result(timeout=60) == ["ann reminded", "bob reminded"]
    """

    def fan_out(self, bearer: str, run: str) -> H_co:
        """Submit it for this run of the task `bearer`."""
        ...
