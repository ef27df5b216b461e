"""Decides which dependencies added to blocked tasks count: those of runs that completed
(docs/decisions/members-added.md)."""

from collections.abc import Collection, Mapping, Sequence

from andon.contract.edges import Ended, Link
from andon.contract.limits import in_batches
from andon.contract.store import Store
from andon.lifecycle.joins import Standing, fails, standing
from andon.lifecycle.parents import stands, waits_anew
from andon.model.task import Added, Task, Tombstone
from andon.model.words import LIVE, State


async def lacking(store: Store, child: Task, states: Mapping[str, State | None]) -> Collection[str]:
    """Of these dependencies that are not satisfied now, those that the extended task waits for:
    without those that satisfied it before (that is for good, docs/rulings.md, R8, and their records
    may be gone), and without those added by a run that did not complete."""
    if not states or not LIVE.isdisjoint(states.values()):
        return states
    d = child.definition
    left = set(states)
    named = tuple(p for p in d.dependencies if p in left)
    if named and not waits_anew(child):
        any_end = d.requires == "all-resolved"
        ends = await store.link([Link(d.id, named, d.load_dependencies, any_end)])
        left -= {end.parent for end in ends if stands(end.state, any_end=end.any_end)}
    if left.isdisjoint(named):
        standings = await _standings(store, [child])
        left -= {p for p in left if _is_void(p, child, standings)}
    return left


async def unless_void(
    store: Store, waiting: Sequence[tuple[Ended, Task]]
) -> list[tuple[Ended, Task]]:
    """Of these ends, those that do fail their dependent. Left out are the ends of tasks that were
    added by a run which did not complete, has not stored them yet, or was made anew: their edges
    may exist all the same."""
    named = {c.id: frozenset(c.definition.dependencies) for _, c in waiting}
    others = {c.id: c for end, c in waiting if end.parent not in named[c.id]}
    if not others:
        return list(waiting)
    standings = await _standings(store, list(others.values()))
    return [
        (end, child)
        for end, child in waiting
        if end.parent in named[child.id]
        or any(
            fails(standings[one], end.state)
            for one in child.status.added
            if end.parent in one.tasks
        )
    ]


async def _standings(store: Store, children: Sequence[Task]) -> dict[Added, Standing]:
    """What the additions to these tasks amount to now."""
    added = {one: None for child in children for one in child.status.added}
    ids = list({one.bearer: None for one in added})
    bearers: dict[str, Task | None] = {}
    left: dict[str, Tombstone | None] = {}
    for some in in_batches(ids):
        bearers.update(zip(some, await store.get(some), strict=True))
    for some in in_batches([bearer for bearer in ids if bearers[bearer] is None]):
        left.update(zip(some, await store.tombstones(some), strict=True))
    return {one: standing(one, bearers[one.bearer], left.get(one.bearer)) for one in added}


def _is_void(parent: str, child: Task, standings: Mapping[Added, Standing]) -> bool:
    """Whether a task was added, and none of the runs that added it completed."""
    of = [standings[one] for one in child.status.added if parent in one.tasks]
    return bool(of) and all(now is Standing.VOID for now in of)
