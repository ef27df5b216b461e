"""The runs of a task on an axis of time."""

from collections.abc import Sequence

import msgspec

from andon.dashboard.views.looks import Tone, line_of
from andon.model.task import Run, Task
from andon.model.words import Reason


class RunBar(msgspec.Struct, frozen=True, kw_only=True):
    """One run: when it could have begun, when it did, and how it ended."""

    number: int
    worker: str
    opened: str  #: why
    ended: str  #: how it ended; empty while it goes on, or waits
    error: str
    ready_at: int
    claimed_at: int | None
    ended_at: int | None
    waited_ms: int | None
    took_ms: int | None
    tone: Tone
    left: float  #: where its wait begins on the axis, 0 to 1
    start: float  #: where it begins
    end: float  #: where it ends, or its present point


class RunAxis(msgspec.Struct, frozen=True, kw_only=True):
    """All runs that the record keeps."""

    begins_at: int
    ends_at: int
    bars: list[RunBar]
    dropped: int  #: older runs that are not kept


def axis_of(task: Task, now: int) -> RunAxis:
    """The runs of a task, the oldest first."""
    status = task.status
    runs = status.runs
    begins = min([status.created_at, *(run.scheduled_at for run in runs)])
    if status.runs_dropped and runs:
        begins = runs[0].scheduled_at
    moments = [run.resolved_at or run.claimed_at or run.scheduled_at for run in runs]
    goes_on = bool(runs) and runs[-1].resolved_at is None
    ends = max(begins + 1, now if goes_on else 0, *moments, 0)
    return RunAxis(
        begins_at=begins,
        ends_at=ends,
        bars=_bars(runs, begins, ends, now),
        dropped=status.runs_dropped,
    )


def _bars(runs: Sequence[Run], begins: int, ends: int, now: int) -> list[RunBar]:
    width = ends - begins

    def place(at: int) -> float:
        return max(0.0, min(1.0, (at - begins) / width))

    return [
        RunBar(
            number=run.number,
            worker=run.worker,
            opened=run.created_reason.value,
            ended="" if run.resolved_reason is None else run.resolved_reason.value,
            error="" if run.error is None else line_of(f"{run.error.code}: {run.error.message}"),
            ready_at=run.scheduled_at,
            claimed_at=run.claimed_at,
            ended_at=run.resolved_at,
            waited_ms=(run.claimed_at or run.resolved_at or now) - run.scheduled_at,
            took_ms=_took(run, now),
            tone=_tone(run),
            left=place(run.scheduled_at),
            start=place(run.claimed_at or run.resolved_at or now),
            end=place(run.resolved_at or now),
        )
        for run in runs
    ]


def _took(run: Run, now: int) -> int | None:
    return None if run.claimed_at is None else (run.resolved_at or now) - run.claimed_at


def _tone(run: Run) -> Tone:
    if run.resolved_at is None:
        return "waits" if run.claimed_at is None else "runs"
    if run.resolved_reason is Reason.SUCCESS:
        return "good"
    return "bad" if run.error is not None else "off"
