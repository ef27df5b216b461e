"""Keeps the numbers of names and lanes, remembered for good: they never change and are never used
again.

New ones are made in a transaction of their own, never in that of a task: two users' transactions
that both use a new queue do not wait for each other.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from andon.stores.postgres.statements import Statements

Run = Callable[..., Awaitable[list[Any]]]
Lane = tuple[int, int, int, int, int]
"""Queue number, partition, level (minus the priority), number of the kind, and of its task type."""


class Names:
    """Names of queues, task types and kinds, and lanes, by number."""

    def __init__(self, run: Run, calls: Statements) -> None:
        self.ids: dict[str, int] = {}
        self.names: dict[int, str] = {}
        self.lanes: dict[Lane, int] = {}
        self._run = run
        self._calls = calls

    async def know(self, names: Iterable[str]) -> bool:
        """Make sure that these have numbers. Returns whether one had none here yet."""
        new = set(names).difference(self.ids)
        if new:
            self._learn(await self._run(self._calls.name_ids, sorted(new)))
        return bool(new)

    async def know_if_there(self, names: Iterable[str]) -> None:
        """Look up the names that are not known here; they need not exist."""
        new = set(names).difference(self.ids)
        if new:
            self._learn(await self._run(self._calls.find_names, sorted(new)))

    async def know_lanes(self, lanes: Iterable[Lane]) -> None:
        """Make sure that these lanes have numbers."""
        new = set(lanes).difference(self.lanes)
        if new:
            columns = [list(column) for column in zip(*sorted(new), strict=True)]
            rows = await self._run(self._calls.lane_ids, *columns)
            self.lanes.update({tuple(row)[1:]: row[0] for row in rows})

    async def named(self, numbers: Iterable[int]) -> list[str]:
        """Names of queues that another process may have numbered."""
        wanted = set(numbers)
        if not wanted <= self.names.keys():
            self._learn(await self._run(self._calls.all_names))
        return [self.names[number] for number in wanted]

    def _learn(self, rows: list[Any]) -> None:
        for row in rows:
            self.ids[row[1]] = row[0]
            self.names[row[0]] = row[1]
