"""Committing: a decided move or a deletion, written if its guard holds."""

from andon.contract.outcomes import APPLIED, HAS_DEPENDENTS, Changed, ChangeKind
from andon.contract.requests import Change
from andon.lifecycle.effects import of_change
from andon.model.task import Status, Task
from andon.model.words import TERMINAL, State
from andon.stores.memory.records import Records
from andon.stores.memory.row import Row

_ACTIVE = State.ACTIVE  # see `lifecycle.admission`


def commit(records: Records, change: Change, now: int) -> Changed:
    """Write one change, or say what is in its way."""
    task_id = change.before.definition.id
    row = records.rows.get(task_id)
    if row is None:
        stub = records.stub(task_id, now)
        repeated = stub is not None and stub.wrote(change.event)
        return APPLIED if repeated else Changed(ChangeKind.GONE)
    if change.before.status.created_at != row.task.status.created_at:
        return Changed(ChangeKind.GONE)  # decided on an earlier task of this id
    if row.wrote(change.event):
        return _applied(records, row)
    moved = change.before.status.revision != row.task.status.revision
    cell = row.task.cell
    lease = None if cell is None else cell.lease_until
    renewed = change.seen_lease is not None and lease != change.seen_lease
    if moved or renewed:
        return Changed(ChangeKind.CONFLICT, current=row.copy())
    if change.after is not None:
        return _change(records, row, change, change.after, now)
    if not change.force and records.held(row):
        return Changed(ChangeKind.CONFLICT, current=row.copy())
    records.delete(row, change.event, now)
    return APPLIED


def _change(records: Records, row: Row, change: Change, after: Status, now: int) -> Changed:
    task = row.task
    new = Task(
        definition=task.definition,
        status=after,
        cell=task.cell if after.state is _ACTIVE else None,
        result=change.result if change.sets_result else task.result,
    )
    effects = of_change(change, old=row.entry)
    holder = None
    if effects.takes_key is not None:
        holder = records.holder(row.id, effects.key_to_reserve(now), now)
    if holder is not None:
        return Changed(ChangeKind.KEY_HELD, holder=holder)
    records.write(row, new, effects, change.event, now)
    outcome = _applied(records, row)
    if change.discard is not None and not records.held(row):
        records.delete(row, change.discard, now)
    return outcome


def _applied(records: Records, row: Row) -> Changed:
    has_dependents = row.entry.state in TERMINAL and records.edges.any_of(row.id)
    return HAS_DEPENDENTS if has_dependents else APPLIED
