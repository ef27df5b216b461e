"""A task under Choria's property names: `LastTriedAt`, `Tries`, `LastErr`."""

from andon.lifecycle.faces.fields import (
    Fields,
    Shown,
    decoded,
    given,
    iso,
    last_error,
    maybe_iso,
    newest_claim,
)
from andon.model.task import Task
from andon.model.words import State


def record(task: Task, state: str, history: list[Fields]) -> Fields:
    """The record under Choria's property names."""
    d, s = task.definition, task.status
    fields: Fields = {
        "ID": d.id,
        "Type": d.name,
        "Queue": d.queue,
        "Payload": decoded(d.args),
        "State": state,
        "CreatedAt": iso(s.created_at),
        "LastTriedAt": maybe_iso(newest_claim(task)),
        "Tries": s.runs_dropped + sum(run.claimed_at is not None for run in s.runs),
        "MaxTries": task.policy.max_retries + 1,
        "LastErr": last_error(task),
        "Deadline": maybe_iso(s.deadline),
        "Dependencies": list(d.dependencies),
        "LoadDependencies": d.load_dependencies,
        "Result": None,
    }
    if task.state is State.COMPLETED:
        fields["Result"] = {"Payload": decoded(task.result), "Completed": maybe_iso(s.finished_at)}
    return fields


def entry_of(entry: Shown) -> Fields:
    """One entry of the history."""
    error = None if entry.error is None else entry.error.message
    return given(State=entry.name, TimeStamp=iso(entry.at), LastErr=error)
