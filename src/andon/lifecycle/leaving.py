"""Decides whether a run may still upload files: while it holds its task, and a while after an end
that was not its own report. Pure.

A run that reports has uploaded before. A run that was cancelled, lost or skipped has not, and its
log says why. What counts as such an end is what Taskcluster calls an exception.
"""

from andon.lifecycle.faces.taskcluster import RESOLVED
from andon.model.task import Run
from andon.model.words import Reason

ARTIFACT_GRACE_S = 25 * 60.0
"""How long after such an end a run may leave files behind, unless told otherwise."""

EXCEPTIONAL = frozenset(RESOLVED) - {Reason.SUCCESS}
"""Reasons of ends that are no run's own completion or failure."""


def may_leave(run: Run, now: int, grace_ms: int) -> bool:
    """Whether a run that was claimed may leave files behind at `now` (ms UTC)."""
    if run.claimed_at is None:
        return False
    if run.resolved_at is None:
        return True
    return run.resolved_reason in EXCEPTIONAL and run.resolved_at + grace_ms >= now
