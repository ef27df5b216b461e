"""A task under Choria's property names: `LastTriedAt`, `Tries`, `LastErr`."""

from andon.lifecycle.faces.fields import (
    Fields,
    Shown,
    decoded,
    given,
    iso,
    last_error,
    max_retries_in,
    maybe_iso,
    newest_claim,
    robfig,
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


def schedule(shown: Fields) -> Fields:
    """A schedule under the property names of its scheduled tasks."""
    task = shown["task"]
    return {
        "Name": shown["name"],
        "Schedule": robfig(shown),
        "Queue": task["queue"],
        "TaskType": task["name"],
        "Payload": task["args"],
        "Deadline": task["deadline_in"],
        "MaxTries": max_retries_in(task) + 1,
        "CreatedAt": shown["created_at"],
    }
