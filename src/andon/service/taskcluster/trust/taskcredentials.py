"""The credentials of a run: issued with every claim and reclaim, for as long as that claim. Pure.

They are a named certificate. Its issuer is a client id that no client can have, whose key is
derived from the keys that sign run tokens: so they outlive one rotation of those keys and not two.
The name contains task, run, worker and the end of the claim.
"""

import hmac
import re
from collections.abc import Iterable
from functools import lru_cache

from andon.model.task import Task
from andon.model.words import State
from andon.service.taskcluster.trust import certificates
from andon.service.taskcluster.trust.caller import Caller, RunOf
from andon.service.taskcluster.trust.certificates import Credentials
from andon.service.taskcluster.trust.clients import TASK_CLIENT, TASKS_ISSUER, text_of
from andon.service.taskcluster.trust.hawk import READING
from andon.service.trust.runtokens import Keys

GRACE_MS = 5 * 60 * 1000
"""How long after its end a run may still do what its task's scopes allow."""

_NAME = re.compile(
    rf"{TASK_CLIENT}([A-Za-z0-9_-]+)/([0-9]{{1,9}})/on/([^/]+/[^/]+)/until/([0-9]{{1,12}})\Z"
)


def issue(
    keys: Keys,
    *,
    task_id: str,
    run_id: int,
    worker: str,
    taken_until: int,
    scopes: Iterable[str],
    now: int,
) -> Credentials:
    """Credentials for one claim of a run. `worker` is `<workerGroup>/<workerId>`; times are ms UTC.

    They carry the scopes to reclaim and resolve the run and to make its artifacts, then the task's.
    """
    issuer = f"{TASKS_ISSUER}{keys.keys[0].id}"
    return certificates.issue(
        name=f"{TASK_CLIENT}{task_id}/{run_id}/on/{worker}/until/{taken_until // 1000}",
        issuer=issuer,
        key=issuer_key(keys, issuer) or "",
        scopes=(*own_scopes(task_id, run_id), *scopes),
        start=now,
        expiry=taken_until,
    )


def issuer_key(keys: Keys, issuer: str) -> str | None:
    """The key that an issuer of task credentials signs with; None if that key was turned away."""
    for key in keys.keys:
        if issuer == f"{TASKS_ISSUER}{key.id}":
            return _issuer_key(key.secret, keys.namespace, issuer)
    return None


@lru_cache(maxsize=16)
def _issuer_key(secret: bytes, namespace: str, issuer: str) -> str:
    """Cached, since every claim and every report needs it; it depends only on its arguments."""
    stated = f"taskcluster\n{namespace}\n{issuer}".encode()
    return text_of(hmac.digest(secret, stated, "sha256"))


def own_scopes(task_id: str, run_id: int) -> tuple[str, str, str]:
    """The scopes of a run on itself."""
    return (
        f"queue:reclaim-task:{task_id}/{run_id}",
        f"queue:resolve-task:{task_id}/{run_id}",
        f"queue:create-artifact:{task_id}/{run_id}",
    )


def run_named(client_id: str) -> RunOf | None:
    """The run that the name of task credentials says; None for any other name."""
    found = _NAME.match(client_id)
    return found and RunOf(found[1], int(found[2]), found[3], int(found[4]))


def is_own_route(run: RunOf, method: str, path: str) -> bool:
    """Whether a request is about the run itself: to reclaim it, to report, to make its artifacts.
    Such a route checks the record itself."""
    return method not in READING and f"/task/{run.task_id}/runs/{run.run_id}/" in path


def has_left(run: RunOf, task: Task | None, now: int) -> bool:
    """Whether a run has ended so long ago that its task's scopes are no longer its own."""
    if task is None:
        return True
    for one in task.status.runs:
        if one.number == run.run_id and one.worker == run.worker:
            if one.resolved_at is not None:
                return one.resolved_at + GRACE_MS < now
            return task.state is not State.ACTIVE
    return True


def after_its_end(caller: Caller, run: RunOf) -> Caller:
    """The caller of a run that has left its task: of its scopes those on the run itself remain,
    since a repeated report is answered as the first."""
    own = own_scopes(run.task_id, run.run_id)
    kept = tuple(scope for scope in caller.scopes if scope in own)
    return Caller(caller.client_id, kept, run=run)


def may_speak_for(caller: Caller, task_id: str, run_id: int, worker: str) -> bool:
    """Whether a caller that has the scopes for a run is the one that holds it, `worker` being the
    run's: task credentials of another worker's claim are not. Others than a run's may."""
    run = caller.run
    return run is None or (run.task_id, run.run_id, run.worker) == (task_id, run_id, worker)
