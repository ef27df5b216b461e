"""Dependencies: edges in the parent's partition, the count in the child's. All idempotent."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import chain

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.model.words import OVER, TERMINAL, State
from andon.stores.sqlite.rows import Row, find, write
from andon.stores.sqlite.statements import EDGES, LIFE
from andon.stores.sqlite.transaction import Transaction


def link(tx: Transaction, links: Sequence[Link]) -> list[list[Ended]]:
    """Record edges to parents that live; report, of each link, those that have ended or do not
    exist."""
    named = chain.from_iterable((wish.child, *wish.parents) for wish in links)
    known = _known(tx.db, named, tx.now - SUBMIT_WINDOW_MS)
    blocked = {wish.child for wish in links if known.get(wish.child) is State.BLOCKED}
    pairs = [(wish.child, parent) for wish in links for parent in wish.parents]
    satisfied = set(find(tx.db, EDGES.satisfied_of, [p for p in pairs if p[0] in blocked]))
    told: list[list[Ended]] = []
    live: list[Row] = []
    for wish in links:
        told.append(ended := [])
        for parent in wish.parents if wish.child in blocked else ():
            if parent == wish.child:
                continue  # it waits only to be scheduled
            edge = (parent, wish.child, wish.loads, wish.any_end)
            state = known.get(parent)
            if (wish.child, parent) in satisfied:
                # counted already, but perhaps the child was not unblocked
                ended.append(Ended(wish.child, parent, State.COMPLETED, wish.any_end))
                if wish.loads and tx.db.execute(LIFE.seq_of, (parent,)).fetchone():
                    tx.db.execute(EDGES.link_ended, edge)
            elif state is None or state in OVER:
                ended.append(Ended(wish.child, parent, state, wish.any_end))
                if state in TERMINAL:
                    tx.db.execute(EDGES.link_ended, edge)
            else:
                live.append(edge)
    write(tx.db, EDGES.link, live)
    return told


def states(db: sqlite3.Connection, ids: Sequence[str], stubs_since: int) -> list[State | None]:
    """States of records, or those that ones deleted after `stubs_since` ended in."""
    known = _known(db, ids, stubs_since)
    return [known.get(task_id) for task_id in ids]


def _known(db: sqlite3.Connection, ids: Iterable[str], stubs_since: int) -> dict[str, State]:
    """The same by id, of those that exist."""
    # No task can have an id that cannot be encoded.
    wanted = [task_id for task_id in dict.fromkeys(ids) if _is_text(task_id)]
    (found,) = db.execute(EDGES.states_of, (json.dumps(wanted), stubs_since)).fetchone()
    return {task_id: State(state) for task_id, state in json.loads(found).items() if state}


def _is_text(task_id: str) -> bool:
    try:
        task_id.encode()
    except UnicodeEncodeError:
        return False
    return True


def settle(tx: Transaction, settlements: Sequence[Settlement]) -> list[int]:
    """Settle edges and count them, once. Returns how many each child still waits for."""
    left: list[int] = []
    for s in settlements:
        tx.db.execute(EDGES.tell, (s.parent, s.child))
        left.append(_count_off(tx, s) if s.satisfied else _count_failing(tx, s))
    _edges_changed(tx, {s.parent for s in settlements})
    return left


def _count_off(tx: Transaction, s: Settlement) -> int:
    edge = (s.child, s.parent)
    if tx.db.execute(EDGES.forget_failing, edge).rowcount:
        tx.db.execute(EDGES.spare_again, (s.child,))
    if tx.db.execute(EDGES.satisfy, edge).rowcount:
        tx.db.execute(EDGES.count_off, (s.child,))
    row = tx.db.execute(EDGES.fan_in, (s.child,)).fetchone()
    if row is None:  # a child that is no longer blocked has no count: nothing remains
        tx.db.execute(EDGES.drop_satisfied, (s.child,))
        return 0
    return row[0]


def _count_failing(tx: Transaction, s: Settlement) -> int:
    if tx.db.execute(EDGES.fail, (s.child, s.parent)).rowcount:
        tx.db.execute(EDGES.spare_less, (s.child,))
    row = tx.db.execute(EDGES.fan_in, (s.child,)).fetchone()
    return -1 if row is None or row[1] is None else row[1]


def release_edges(tx: Transaction, edges: Sequence[tuple[str, str]]) -> list[None]:
    """Edges no longer keep their parents from being deleted; remove parents from the list that
    waited only for them."""
    tx.db.executemany(EDGES.release_edges, edges)
    _edges_changed(tx, {parent for parent, _ in edges})
    return [None] * len(edges)


def unlink(tx: Transaction, edges: Sequence[tuple[str, str]]) -> list[None]:
    """Remove edges, and parents from the list that waited only for them."""
    tx.db.executemany(EDGES.unlink, edges)
    _edges_changed(tx, {parent for parent, _ in edges})
    return [None] * len(edges)


def _edges_changed(tx: Transaction, parents: set[str]) -> None:
    """Edges have changed: a fan-out may be finished, a deletion put off may be due again."""
    for parent in parents:
        tx.db.execute(EDGES.clear_unsettled, (parent,))
        if not tx.db.execute(EDGES.is_put_off, (parent,)).fetchone():
            continue
        if tx.db.execute(EDGES.holding, (parent,)).fetchone() is None:
            tx.db.execute(EDGES.due_again, (parent, tx.now))
            tx.db.execute(EDGES.drop_put_off, (parent,))
            tx.hint_timer(tx.now)


def dependents(db: sqlite3.Connection, parent: str, after: str, limit: int) -> list[Edge]:
    """Edges of one parent by child."""
    return [
        Edge(parent, child, bool(loads), bool(any_end), bool(settled))
        for child, loads, any_end, settled in db.execute(EDGES.edges, (parent, after, limit))
    ]


def unsettled(db: sqlite3.Connection, after: str, limit: int) -> list[tuple[str, State]]:
    """Ended tasks whose fan-out is not finished: those after one, then those from the first."""
    rows = db.execute(EDGES.unsettled, (after, limit)).fetchall()
    if after and len(rows) < limit:
        rows += db.execute(EDGES.unsettled, ("", limit - len(rows))).fetchall()
    return [(parent, State(state)) for parent, state in dict(rows).items()]
