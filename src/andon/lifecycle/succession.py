"""The successor of a task whose arguments were edited. Pure.

A definition is written once (docs/rulings.md, R4), so edited arguments are those of another task.
The edit's one move cancels the first and keeps the arguments in its record, until the second is
stored: a crash in between leaves a record that owes a task, and its timer pays
(`lifecycle.timers`).
"""

from hashlib import blake2b

from msgspec.structs import replace

from andon.lifecycle.admission import admit
from andon.lifecycle.parents import waits_for
from andon.lifecycle.unique import derived_key
from andon.model.errors import InvalidSubmission
from andon.model.task import Definition, Task
from andon.model.words import Event, State


def parents_of_successor(task: Task) -> tuple[str, ...]:
    """The dependencies of the successor that exist: those that its predecessor still waited for, or
    had loaded."""
    d = task.definition
    edits = [event for event in task.status.events if event.event is Event.EDIT]
    was_blocked = bool(edits) and edits[-1].source is State.BLOCKED
    return waits_for(task) if was_blocked or d.load_dependencies else ()


def successor_of(task: Task, parents: tuple[str, ...], now: int, write_id: str) -> Task:
    """The record that replaces an edited one, at `now` (ms UTC): equal except for the id and the
    arguments, at the end of its queue. Every call gives the same definition but for `parents`."""
    d, s = task.definition, task.status
    assert s.owed is not None
    needs = d.needs if d.needs is not None and d.needs < len(parents) else None
    definition = replace(
        d,
        id=s.successor,
        args=s.owed,
        priority=s.priority,
        run_at=s.run_at,
        deadline=s.deadline,
        dependencies=tuple(s.successor if parent == d.id else parent for parent in parents),
        unique_key=_key(d, s.owed),
        digest=blake2b(f"{d.digest} {d.id} ".encode() + s.owed, digest_size=12).hexdigest(),
        predecessor=d.id,
        needs=needs,  # of those that are known still
    )
    return admit(definition, now, write_id)


def _key(d: Definition, args: bytes) -> str | None:
    """The unique key: one that was made from all the arguments is made anew."""
    try:
        if d.unique_key is not None and d.unique_key == derived_key(d.name, d.args):
            return derived_key(d.name, args)
    except (InvalidSubmission, ValueError):
        pass
    return d.unique_key
