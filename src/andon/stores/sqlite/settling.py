"""Settles the edges of a task in the step that writes its end (`SettlesAtOnce`).

The end of a link of a chain, its settled edge and the next link's unblocking are one transaction
then, not three, and no crash comes between them. What is not done here is left to `settle`, and
found again by the list of tasks with unsettled edges.
"""

from collections.abc import Callable

from andon.contract.edges import Settlement
from andon.contract.requests import Change
from andon.lifecycle.parents import stands
from andon.model.words import State
from andon.stores.sqlite.dependencies import dependents, settle
from andon.stores.sqlite.reading import read_task
from andon.stores.sqlite.statements import EDGES
from andon.stores.sqlite.transaction import Transaction, Unblocked

MOST_EDGES = 8
"""Edges of a task that are settled with its end; if it has more, they are settled in pages."""


def settle_with_end(
    tx: Transaction, parent: str, state: State, write: Callable[[Change], bool]
) -> bool:
    """Settle the edges of a task that has just ended in this state, if that satisfies them, and
    unblock those dependents that are free. `write` writes such a change; whether it did. Returns
    whether nothing is left to be done about any of the edges."""
    if tx.unblocked is None or not stands(state, any_end=False):
        return False
    edges = dependents(tx.db, parent, "", MOST_EDGES + 1)
    if len(edges) > min(MOST_EDGES, tx.may_settle):
        return False
    tx.may_settle -= len(edges)
    settled = [
        _settled(tx, Settlement(edge.child, parent, True), tx.unblocked, write) for edge in edges
    ]
    return all(settled)


def _settled(
    tx: Transaction, one: Settlement, unblocked: Unblocked, write: Callable[[Change], bool]
) -> bool:
    """Settle an edge that satisfies its child, and unblock that if it is free; False if that is
    left, and then the edge, too."""
    row = tx.db.execute(EDGES.fan_in, (one.child,)).fetchone()
    if row is not None and row[0] > 1:
        settle(tx, [one])
        return True
    tx.flush_events()  # the child may have moved in this transaction, and is read below
    tx.db.execute("SAVEPOINT edge")
    [left] = settle(tx, [one])
    is_done = left > 0 or _is_free(tx, one.child, unblocked, write)
    if not is_done:
        tx.db.execute("ROLLBACK TO edge")
    tx.db.execute("RELEASE edge")  # not after an error: SQLite may have dropped it with the rest
    return is_done


def _is_free(
    tx: Transaction, child: str, unblocked: Unblocked, write: Callable[[Change], bool]
) -> bool:
    """Whether a child that waits for nothing more is unblocked, or is blocked no more."""
    task = read_task(tx.db, child)
    if task is None:
        return True
    if task.state is not State.BLOCKED:
        return task.state is not State.UNKNOWN
    try:
        change = unblocked(task, tx.now)
    except Exception:
        return False  # the engine decides on it again after `settle`, and logs what it raises
    return change is not None and write(change)
