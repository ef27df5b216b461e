"""The record and the history of a task in each system's own fields and units (docs/rulings.md, R1).
Pure.

`rendering` decides the names of states; the files here add the fields around them, one file per
system. Everything returned is plain data, ready to be encoded as JSON.
"""

from collections.abc import Callable

from andon.lifecycle.faces import asynq, cbintel, choria, jobbers, native, taskcluster
from andon.lifecycle.faces.fields import Fields, Shown
from andon.model.task import Task

RECORDS: dict[str, Callable[[Task, str, list[Fields]], Fields]] = {
    "native": native.record,
    "jobbers": jobbers.record,
    "asynq": asynq.record,
    "cbintel": cbintel.record,
    "choria": choria.record,
    "taskcluster": taskcluster.record,
}
"""By profile: the record, given the name of its state and its history in the system's shape."""

HISTORIES: dict[str, Callable[[Shown], Fields]] = {
    "native": native.entry_of,
    "jobbers": jobbers.entry_of,
    "asynq": asynq.entry_of,
    "cbintel": cbintel.entry_of,
    "choria": choria.entry_of,
    "taskcluster": taskcluster.entry_of,
}
"""By profile: one entry of a history."""

SCHEDULES: dict[str, Callable[[Fields], Fields]] = {
    "jobbers": jobbers.schedule,
    "asynq": asynq.schedule,
    "choria": choria.schedule,
}
"""By profile that has schedules of its own: one of them, given as it is shown natively."""


def schedule_as(profile: str, shown: Fields) -> Fields:
    """A schedule, given as it is shown natively, in the fields of the profile of this name; one
    that has no schedules shows it natively."""
    face = SCHEDULES.get(profile)
    return shown if face is None else face(shown)
