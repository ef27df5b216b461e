"""Lanes: where ready tasks stand, one for each place (queue and partition) and kind of task.

A lane with nothing to claim is asleep, and claims do not read it. A lane that is awake has a bound:
no entry in it is before the bound. A bound may be too low, and an awake lane empty: keeping both
exact would cost each claim and each submit a write. A claim that finds a bound too low raises it,
and puts a lane that it finds empty to sleep.
"""

from collections.abc import Iterable, Iterator, Mapping

from andon.stores.sqlite.statements import LANES
from andon.stores.sqlite.transaction import Transaction

MOST_REMEMBERED = 10_000
"""How many lanes' numbers are cached; an application with more kinds looks some of them up."""

MOST_PLACES, MOST_PER_PLACE = 256, 2_000
"""How many places' lanes are cached, and how many lanes of one place."""

Lane = tuple[int, str, int, int]
"""Number, kind, and bound: level and order."""

Bound = tuple[int, int]
"""Level and order."""


def lane_of(tx: Transaction, place: int, kind: str) -> int:
    """The lane of a kind, which is made with its first task."""
    known = tx.memory.lanes
    found = known.get((place, kind))
    if found is None:
        row = tx.db.execute(LANES.find, (place, kind)).fetchone()
        if row is None:
            found = tx.db.execute(LANES.add, (place, kind)).lastrowid
            assert found is not None
        else:
            found = int(row[0])
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[place, kind] = found
    return found


def wake(tx: Transaction, firsts: Mapping[int, Bound]) -> None:
    """Entries were added to these lanes, each lane's first at the bound given."""
    known = tx.memory.bounds
    for lane, bound in firsts.items():
        if (at_most := known.get(lane)) is not None and at_most <= bound:
            continue
        tx.db.execute(LANES.wake, (lane, *bound))
        if len(known) >= MOST_REMEMBERED:
            known.clear()
        known[lane] = bound
        tx.memory.awake.clear()


def raise_bound(tx: Transaction, lane: int, bound: Bound) -> None:
    """A lane's first entry stands at this bound."""
    tx.db.execute(LANES.raise_bound, (*bound, lane))
    tx.memory.bounds[lane] = bound
    tx.memory.awake.clear()


def sleep(tx: Transaction, lane: int) -> None:
    """A lane was found empty."""
    tx.db.execute(LANES.sleep, (lane,))
    tx.memory.bounds.pop(lane, None)
    tx.memory.awake.clear()


def awake(tx: Transaction, place: int) -> Iterable[Lane]:
    """The lanes of a place that may hold something, in the order of their bounds. Nothing may be
    written while it is read."""
    known = tx.memory.awake.get(place)
    return _looked_up(tx, place) if known is None else known


def _looked_up(tx: Transaction, place: int) -> Iterator[Lane]:
    found: list[Lane] = []
    for row in tx.db.execute(LANES.awake, (place,)):
        found.append(row)
        yield row
    known = tx.memory.awake  # it was read to its end, so it is all
    if len(known) >= MOST_PLACES:
        known.clear()
    if len(found) <= MOST_PER_PLACE:
        known[place] = found
