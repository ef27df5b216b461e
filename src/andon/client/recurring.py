"""Schedules declared in code: when they fire, and their task types."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

from andon.client.options import Moment, check_names, to_ms
from andon.engine.schedule_requests import Overlap
from andon.lifecycle.schedules import check_overlap
from andon.model.errors import ConfigurationError, InvalidSubmission
from andon.model.recurrence import Recurrence


class ScheduleOptions(TypedDict, total=False):
    """When a schedule fires, and how.

    Example:
        from andon.client.schedules import ScheduleOptions

        nightly = ScheduleOptions(cron="0 2 * * *", tz="Europe/Berlin", overlap="skip")
        await app.schedules.add("nightly", report.draft(), **nightly)
        await app.schedules.delete("nightly")
    """

    cron: str | Iterable[str]
    """A cron expression, or several; a time that several name counts once."""
    every: int  #: seconds from one time to the next, instead of `cron`
    anchor: Moment  #: with `every`: a time from which is counted
    tz: str  #: the zone whose clocks `cron` and `exclude` go by; UTC if none is given
    exclude: str | Iterable[str]  #: local times that are left out, as docs/recurrence.md says
    start: Moment  #: no time before it
    end: Moment  #: no time at it or after it
    count: int  #: so many occurrences at the most
    jitter: float  #: occurrences fall due up to so many seconds after their times
    catch_up: Literal["latest", "none", "all"]
    """Which of the occurrences that were missed in an outage are made up for."""
    catch_up_window: float  #: seconds after which one is not made up for
    overlap: Overlap
    """What becomes of an occurrence while the one before has not ended: it runs beside it
    (`allow`), is left out (`skip`), waits for its end (`queue`), or takes its place (`replace`):
    that one is cancelled, and if it is active, it is asked to cancel and waited for."""
    pause_after: int  #: so many failures in a row pause the schedule


_OPTIONS = frozenset(ScheduleOptions.__annotations__)
_TIMES = ("anchor", "start", "end")
NO_TIMES = ("overlap", "pause_after")
"""Options that say nothing of the times."""
_NO_LETTER = re.compile(r"[^A-Za-z0-9_:-]+")


def recurrence_of(options: ScheduleOptions) -> Recurrence:
    """The times that the options name. Raises `InvalidSubmission` and `TypeError`."""
    check_names(options, _OPTIONS, "A schedule")
    fields: dict[str, Any] = {k: v for k, v in options.items() if k not in NO_TIMES}
    for field in ("cron", "exclude"):
        if field in fields:
            given = fields[field]
            fields[field] = (given,) if isinstance(given, str) else tuple(given)
    for field in _TIMES:
        if field in fields:
            fields[field] = to_ms(field, fields[field])
    return Recurrence(**fields)


class Schedule:
    """A schedule declared in code, for the task type that it is given to.

    `name` is by default that of the task type, with `-` for what a name cannot have; of several
    each needs its own. `args` and `kwargs` are the arguments of each occurrence. Raises
    `ConfigurationError` for times that cannot be.

    Example:
        from andon import Andon, Schedule

        app = Andon("memory://")

        @app.task(
            name="report",
            schedules=[
                Schedule("report-nightly", cron="0 2 * * *", tz="Europe/Berlin", args=["all"]),
                Schedule("report-often", every=300, overlap="skip", kwargs={"what": "sales"}),
            ],
        )
        async def report(what: str) -> None: ...
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        from andon.lifecycle.recurrence.checking import check
        from andon.lifecycle.recurrence.occurrences import check_name

        try:
            if name is not None:
                check_name(name)
            self.recurrence = recurrence_of(options)
            check(self.recurrence)
            check_overlap(options.get("overlap", "allow"))
        except InvalidSubmission as error:
            raise ConfigurationError(f"Schedule {name or ''}: {error}") from error
        self.name = name  #: None: that of the task type
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.overlap: Overlap = options.get("overlap", "allow")
        self.pause_after = options.get("pause_after")

    def __repr__(self) -> str:
        return f"Schedule({self.name!r}, {self.recurrence!r})"


def schedules_given(
    task: str, schedules: Iterable[Schedule], options: ScheduleOptions
) -> tuple[tuple[str, Schedule], ...]:
    """The schedules of a task type by their names, as its declaration gives them: some, or the
    options of one. Raises `ConfigurationError`."""
    some = [*schedules, Schedule(**options)] if options else [*schedules]
    named: dict[str, Schedule] = {}
    for one in some:
        name = one.name or _NO_LETTER.sub("-", task).strip("-")
        if name in named:
            raise ConfigurationError(
                f"Task type {task!r} has two schedules of the name {name!r}; give each its own."
            )
        if one.name is None:
            Schedule(name, every=1)  # says so if the name is too long
        named[name] = one
    return tuple(named.items())
