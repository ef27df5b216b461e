"""The record and its history under Andon's own names (docs/rulings.md, R1)."""

import msgspec

from andon.lifecycle.births import owed_ids
from andon.lifecycle.faces.fields import (
    Fields,
    Shown,
    bytes_of,
    decoded,
    given,
    heartbeat_of,
    iso,
    maybe_iso,
    progress_of,
)
from andon.lifecycle.parents import waits_for
from andon.model.task import Run, Task


def record(task: Task, state: str, history: list[Fields]) -> Fields:
    """The record under Andon's own names."""
    d, s = task.definition, task.status
    progress, message = progress_of(task)
    args, result = decoded(d.args), decoded(task.result)
    return {
        "id": d.id,
        "name": d.name,
        "version": d.version,
        "queue": d.queue,
        "priority": s.priority,
        "args": args,
        **bytes_of("payload_base64", d.args, args),
        "policy": msgspec.to_builtins(task.policy),
        "scopes": list(d.scopes),
        "dependencies": list(waits_for(task)),
        "requires": d.requires,
        "load_dependencies": d.load_dependencies,
        "unique_key": d.unique_key,
        "key": d.key,
        "group": d.group,
        "tags": list(d.tags),
        "headers": dict(d.headers),
        "created_at": iso(s.created_at),
        "submitted_at": maybe_iso(s.submitted_at),
        "run_at": maybe_iso(s.run_at),
        "started_at": maybe_iso(s.started_at),
        "retried_at": maybe_iso(s.retried_at),
        "heartbeat_at": maybe_iso(heartbeat_of(task)),
        "finished_at": maybe_iso(s.finished_at),
        "deadline": maybe_iso(s.deadline),
        "expires_at": maybe_iso(s.expires_at),
        "state": state,
        "reason": s.reason,
        "tries": s.tries,
        "runs": [_run(run) for run in s.runs],
        "fence": s.fence,
        "worker": s.worker,
        "lease_until": maybe_iso(None if task.cell is None else task.cell.lease_until),
        "progress": progress,
        "progress_message": message,
        "result": result,
        **bytes_of("result_base64", task.result, result),
        "last_error": None if s.last_error is None else msgspec.to_builtins(s.last_error),
        "cancel_requested_at": maybe_iso(s.cancel_requested_at),
        "predecessor": d.predecessor or None,
        "successor": s.successor or None,
        **given(needs=d.needs, bearer=d.bearer or None, owes=list(owed_ids(s)) or None),
        "revision": s.revision,
    }


def _run(run: Run) -> Fields:
    return given(
        number=run.number,
        created_reason=run.created_reason,
        scheduled_at=iso(run.scheduled_at),
        worker=run.worker,
        claimed_at=maybe_iso(run.claimed_at),
        fence=run.fence or None,
        lease_until=maybe_iso(run.lease_until),
        resolved_at=maybe_iso(run.resolved_at),
        resolved_reason=run.resolved_reason,
        error=None if run.error is None else msgspec.to_builtins(run.error),
    )


def entry_of(entry: Shown) -> Fields:
    """One entry of the history."""
    return given(
        state=entry.name,
        at=iso(entry.at),
        reason=entry.reason,
        run=entry.run,
        worker=entry.worker,
        error=None if entry.error is None else entry.error.message,
    )
