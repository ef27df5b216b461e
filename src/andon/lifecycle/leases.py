"""Whether a run still has its lease, by the store's clock. Pure."""

from andon.model.task import Task
from andon.model.words import State


def is_orphaned(task: Task, now: int) -> bool:
    """Whether the lease of the task's run has expired and no timekeeper has ended the run yet: its
    worker is gone, or cannot reach the store.

    It may still renew and report (docs/rulings.md, R3); the timekeeper ends the run otherwise.
    `now` is ms UTC.
    """
    return task.state is State.ACTIVE and task.cell is not None and task.cell.lease_until < now
