"""The credentials that a run gets with its claim."""

import json
from typing import Any

from andon.model.task import Task
from andon.service.taskcluster.answers import parts_of

_SEED = "A" * 44
_NOBODY = "nobody"


def client_id_of(task: Task, taken_until: int) -> str:
    """The client id that names a run, its worker and its claim."""
    run = task.status.runs[-1]
    group, worker = parts_of(run.worker)
    return f"task-client/{task.id}/{run.number}/on/{group}/{worker}/until/{taken_until // 1000}"


def scopes_of(task: Task) -> list[str]:
    """What the run may do: speak for itself, and whatever its task was given."""
    of = f"{task.id}/{task.status.runs[-1].number}"
    return [
        f"queue:reclaim-task:{of}",
        f"queue:resolve-task:{of}",
        f"queue:create-artifact:{of}",
        *task.definition.scopes,
    ]


def unsigned(task: Task, taken_until: int, now: int) -> dict[str, Any]:
    """Credentials in the form that clients want, where nobody is asked for any. They are worth
    nothing elsewhere: they are signed by nobody."""
    certificate = {
        "version": 1,
        "scopes": scopes_of(task),
        "start": now,
        "expiry": taken_until,
        "seed": _SEED,
        "signature": _NOBODY,
        "issuer": _NOBODY,
    }
    return {
        "clientId": client_id_of(task, taken_until),
        "accessToken": _NOBODY,
        "certificate": json.dumps(certificate, separators=(",", ":")),
    }
