"""Tasks that a run fans out: they wait for the end of that very run, however many runs their bearer
needs to complete. Pure.

A flow that a run submits exists at once, and runs if and only if that run completes. The first
tasks of it depend on the bearer, and a header names the run. When a dependent with that header is
free, the bearer's record says whether that run is the one that completed: the tasks of a run that
was lost and retried must not run, because the next run has made its own.
"""

from collections.abc import Mapping

from andon.model.headers import RUN_HEADER
from andon.model.task import Task, Tombstone
from andon.model.words import Event, State


def run_header(bearer: str, run: str) -> dict[str, str]:
    """The header of a task that this run (its random id) of that task fans out."""
    return {RUN_HEADER: f"{bearer}/{run}"}


def fanned_out_by(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """The task and the run that fanned a task out; None if none did."""
    named = headers.get(RUN_HEADER)
    if not named:
        return None
    bearer, _, run = named.partition("/")
    return bearer, run


def has_completed(run: str, bearer: Task | None, left: Tombstone | None) -> bool:
    """Whether that run of the bearer completed; asked when the tasks it fanned out are free
    otherwise. `left` is the tombstone of a deleted bearer. If nothing is known of it any more, the
    run is taken to have completed: its tasks had waited for its end."""
    if bearer is None:
        return left is None or (left.run == run and left.state is State.COMPLETED)
    if bearer.state is State.UNKNOWN:
        return True
    return any(one.id == run and one.resolved_event is Event.COMPLETE for one in bearer.status.runs)
