"""Schedules from Python: declared beside the task that they submit, made by hand, and acted on.

    @app.task(cron="0 2 * * *", tz="Europe/Berlin")
    async def report() -> None: ...

    await app.schedules.pause("shop-report")

A declaration is applied when a worker of the application starts, and only where the code says
something that it has not said before: edits by hand hold until then. An older release of the
application never overwrites what a newer one has declared, whichever starts last.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack

from msgspec.structs import replace

from andon.client.options import Moment, to_ms
from andon.client.recurring import NO_TIMES, ScheduleOptions, recurrence_of
from andon.client.release import application_name, release_of
from andon.engine.schedule_requests import (
    Backfilled,
    HasSchedules,
    ScheduleKeeper,
    ScheduleOutcome,
    ScheduleRequest,
)
from andon.engine.schedule_views import changed, next_times
from andon.model.errors import ConfigurationError, TaskNotFound
from andon.model.recurrence import ExplainedTime, Recurrence
from andon.model.task import Task
from andon.model.words import State

if TYPE_CHECKING:
    from andon.client.declaring import Declaring
    from andon.client.drafts import Draft
    from andon.engine.base import ActionResult, Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule as it stood when it was read. Times are aware, in UTC, by the store's clock.

    Example:
        await app.schedules.add("hourly", report.draft(), cron="@hourly")
        hourly = await app.schedules.get("hourly")
        assert hourly is not None and not hourly.paused
        print(hourly.next_due, hourly.fired, hourly.last_id)
        await app.schedules.delete("hourly")
    """

    name: str  #: unique among schedules and tasks
    state: State  #: `recurring`; `completed` once no time is left, or `cancelled`
    recurrence: Recurrence  #: when it fires
    task: str  #: name of the task type that it submits
    queue: str  #: of its tasks
    args: bytes  #: of its tasks, as JSON
    overlap: str  #: what becomes of an occurrence while the one before has not ended
    pause_after: int | None  #: so many failures in a row pause it
    paused_at: datetime | None  #: since when it is paused
    next_due: datetime | None  #: when it fires next; None if it is paused or has ended
    fired: int  #: occurrences so far
    failures: int  #: occurrences in a row that failed
    last_id: str  #: task id of the newest occurrence; empty if there was none
    application: str  #: whose code declares it; empty if it was made by hand
    release: str  #: of that application, when it declared it last

    @property
    def paused(self) -> bool:
        """Whether it fires no more until it is resumed."""
        return self.paused_at is not None

    @classmethod
    def of(cls, record: Task) -> "ScheduleView":
        """The view of a record that is a schedule."""
        s = record.status.schedule
        if s is None:
            raise TaskNotFound(record.id)
        fires = record.state is State.RECURRING and s.paused_at is None
        return cls(
            name=record.id,
            state=record.state,
            recurrence=s.recurrence,
            task=s.template.name,
            queue=s.template.queue,
            args=s.template.args,
            overlap=s.overlap,
            pause_after=s.pause_after,
            paused_at=_moment(s.paused_at),
            next_due=_moment(s.next_due) if fires else None,
            fired=s.fired,
            failures=s.failures,
            last_id=s.last_id,
            application=s.application,
            release=s.release,
        )


class Schedules:
    """The schedules of an application's store. Methods raise `TaskNotFound` for a schedule that
    does not exist.

    Example:
        await app.schedules.add("nightly", report.draft(), cron="0 2 * * *", tz="Europe/Berlin")
        for time in await app.schedules.next("nightly", count=3):
            print(time.local, time.utc, *time.notes)
        await app.schedules.pause("nightly")
        await app.schedules.resume("nightly")
        handle = await app.schedules.run("nightly")
        await app.schedules.delete("nightly")
    """

    def __init__(self, app: "Declaring") -> None:
        self._app = app

    def __repr__(self) -> str:
        return f"<Schedules of {self._app!r}>"

    async def add(
        self, name: str, draft: "Draft[Any]", **options: Unpack[ScheduleOptions]
    ) -> ScheduleView:
        """Make a schedule by hand; each occurrence is what the draft is. Raises
        `InvalidSubmission` if it could never work, or the name is taken.

        Example:
            made = await app.schedules.add("weekly", report.draft(), cron="0 8 * * MON")
            assert made.task == "report" and made.next_due is not None
            await app.schedules.delete("weekly")
        """
        request = ScheduleRequest(
            name=name,
            recurrence=recurrence_of(options),
            task=self._sent(draft.submission),
            overlap=options.get("overlap", "allow"),
            pause_after=options.get("pause_after"),
        )
        return await self._put(request, "add")

    async def edit(
        self, name: str, draft: "Draft[Any] | None" = None, **options: Unpack[ScheduleOptions]
    ) -> ScheduleView:
        """Give a schedule other options, or another task; what is not given stays as it is. One
        that has ended begins anew. Where an application declares the schedule, this holds until its
        code says something new. A concurrent change of another part holds too; raises
        `InvalidTransition` if the same part was changed (its times, its task, `overlap` or
        `pause_after`).

        Example:
            await app.schedules.add("tidy", report.draft(), every=3600)
            tidy = await app.schedules.edit("tidy", every=7200, overlap="skip")
            assert (tidy.recurrence.every, tidy.overlap) == (7200, "skip")
            await app.schedules.delete("tidy")
        """
        record = await self._record(name)
        times = recurrence_of(options)
        changes: dict[str, Any] = {
            k: v if k in NO_TIMES else getattr(times, k) for k, v in options.items()
        }
        if draft is not None:
            changes["task"] = self._sent(draft.submission)
        return await self._put(changed(record, changes), "edit")

    async def list(self) -> "list[ScheduleView]":
        """All live schedules, by name.

        Example:
            for schedule in await app.schedules.list():
                print(schedule.name, schedule.next_due)
        """
        return [ScheduleView.of(record) for record in await (await self._keeper()).live()]

    async def get(self, name: str) -> ScheduleView | None:
        """One schedule, also after its end; None if there is none.

        Example:
            assert await app.schedules.get("no-such-schedule") is None
        """
        engine = await self._app.engine()
        [record] = await engine.get([name])
        return None if record is None or record.status.schedule is None else ScheduleView.of(record)

    async def next(self, name: str, *, count: int = 20) -> "list[ExplainedTime]":
        """The next times of a schedule, by the clocks of its zone and in UTC, and what changes of
        the clocks do to them.

        Example:
            await app.schedules.add("early", report.draft(), cron="0 6 * * *", tz="Asia/Tokyo")
            [time] = await app.schedules.next("early", count=1)
            assert "T06:00" in time.local and "T21:00" in time.utc
            await app.schedules.delete("early")
        """
        now = (await self._app.engine()).now()
        return next_times(await self._record(name), now, count)

    async def pause(self, name: str) -> ScheduleView:
        """Let it fire no more until it is resumed. Tasks that it has submitted run."""
        return await self._act(name, "pause")

    async def resume(self, name: str) -> ScheduleView:
        """Let it fire again. What fell into the pause was not missed; `backfill` submits it."""
        return await self._act(name, "resume")

    async def run(self, name: str) -> str:
        """Submit one occurrence now, beside those of its times; the id of its task."""
        return (await self._act(name, "run")).last_id

    async def cancel(self, name: str) -> ScheduleView:
        """End it, and keep its record; `rerun` begins it anew.

        Example:
            await app.schedules.add("once", report.draft(), every=60)
            assert (await app.schedules.cancel("once")).next_due is None
            assert (await app.schedules.rerun("once")).next_due is not None
            await app.schedules.delete("once")
        """
        return await self._act(name, "cancel")

    async def rerun(self, name: str) -> ScheduleView:
        """Begin one that has ended anew, its count at nought.

        Example:
            await app.schedules.add("twice", report.draft(), every=60, count=2)
            await app.schedules.cancel("twice")
            assert (await app.schedules.rerun("twice")).fired == 0
            await app.schedules.delete("twice")
        """
        return await self._act(name, "rerun")

    async def delete(self, name: str) -> None:
        """End it and remove its record; its tasks stay. Its name can be taken again ten minutes
        later."""
        [acted] = await (await self._keeper()).act([name], "delete")
        if acted.error is not None:
            raise acted.error

    async def backfill(
        self, name: str, start: Moment, end: Moment, *, yes: bool = False, dry_run: bool = False
    ) -> Backfilled:
        """Submit the occurrences from `start` to before `end`, whatever their overlap rule. Those
        that have run are not run again. Raises `ConfigurationError` with their number for more than
        a thousand, unless `yes`; with `dry_run` they are only counted.

        Example:
            from datetime import UTC, datetime

            await app.schedules.add("daily", report.draft(), cron="@daily")
            first, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC)
            would_be = await app.schedules.backfill("daily", first, end, dry_run=True)
            assert would_be.range.count == 7
            await app.schedules.delete("daily")
        """
        keeper = await self._keeper()
        times = to_ms("start", start), to_ms("end", end)
        return await keeper.backfill(name, *times, yes=yes, dry_run=dry_run)

    async def declare(self) -> "list[ScheduleOutcome]":
        """Apply what the application declares; how each ended. None is raised for.

        A starting worker does this by itself, and its log names those that were refused; a program
        that only submits may call it.

        Example:
            for outcome in await app.schedules.declare():
                print(outcome.name, outcome.error or outcome.result)
        """
        requests = self._declared()
        return await (await self._keeper()).put(requests, "declare") if requests else []

    async def prune(self, *, dry_run: bool = False) -> "list[ActionResult]":
        """Delete the live schedules that this application declared once and does not any more; with
        `dry_run` they are only listed.

        Example:
            for gone in await app.schedules.prune(dry_run=True):
                print(gone.id)
        """
        declared = {request.name for request in self._declared()}
        keeper = await self._keeper()
        return await keeper.prune(application_name(self._app), declared, dry_run=dry_run)

    def _declared(self) -> "list[ScheduleRequest]":
        application, release = application_name(self._app), release_of(self._app)
        return [
            ScheduleRequest(
                name=name,
                recurrence=one.recurrence,
                task=self._sent(function.draft_call(one.args, one.kwargs).submission),
                overlap=one.overlap,
                pause_after=one.pause_after,
                application=application,
                release=release,
            )
            for function, name, one in self._app.declared_schedules
        ]

    def _sent(self, submission: "Submission") -> "Submission":
        """The submission as middleware leaves it, without an id."""
        return replace(self._app.as_sent(submission), id="")

    async def _put(self, request: ScheduleRequest, how: Literal["add", "edit"]) -> ScheduleView:
        [outcome] = await (await self._keeper()).put([request], how)
        if outcome.error is not None:
            raise outcome.error
        return ScheduleView.of(await self._record(request.name))

    async def _act(
        self, name: str, act: Literal["pause", "resume", "run", "cancel", "rerun"]
    ) -> ScheduleView:
        [acted] = await (await self._keeper()).act([name], act)
        if acted.error is not None:
            raise acted.error
        return ScheduleView.of(await self._record(name))

    async def _record(self, name: str) -> Task:
        engine = await self._app.engine()
        [record] = await engine.get([name])
        if record is None or record.status.schedule is None:
            raise TaskNotFound(name)
        return record

    async def _keeper(self) -> ScheduleKeeper:
        engine: Any = await self._app.engine()
        if isinstance(engine, HasSchedules):
            return engine.schedules
        raise ConfigurationError(
            "This way to the store knows no schedules; name the store itself, or a service that "
            "has them."
        )


def _moment(at: int | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at / 1000, UTC)
