"""Dependencies: edges between tasks, counted off as their parents end."""

from collections.abc import Sequence

from andon.model.words import State
from andon.stores.base import TIMER_TOPIC, Edge, Ended, Link, Settlement
from andon.stores.postgres.names import Run
from andon.stores.postgres.statements import Statements
from andon.stores.postgres.times import ServerTime
from andon.stores.postgres.wake import Wake


class Edges:
    """The store's operations on edges; `write` counts what is on its way, `run` only asks."""

    def __init__(
        self,
        *,
        run: Run,
        write: Run,
        calls: Statements,
        sql: Statements,
        clock: ServerTime,
        wake: Wake,
    ) -> None:
        self._run = run
        self._write = write
        self._calls = calls
        self._sql = sql
        self._time = clock
        self._wake = wake

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        """Add edges; those whose parents have ended already."""
        if not links:
            return []
        rows = await self._write(
            self._calls.link,
            self._time.argument(),
            [link.child for link in links],
            [" ".join(link.parents) for link in links],
            [link.loads for link in links],
            [link.any_end for link in links],
        )
        return [_ended(links[int(row[0]) - 1], row[1], row[2]) for row in rows]

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        """Count parents off; how many each child still waits for."""
        if not settlements:
            return []
        ((remaining, due),) = await self._write(
            self._calls.settle,
            self._time.argument(),
            [s.child for s in settlements],
            [s.parent for s in settlements],
            [s.satisfied for s in settlements],
        )
        self._hint(due)
        return list(remaining)

    async def dependents(self, parent: str, after: str, limit: int) -> list[Edge]:
        """A parent's edges, by child."""
        rows = await self._run(self._sql.dependents, parent, after, limit)
        return [Edge(*row) for row in rows]

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        """Remove edges, given as parent and child."""
        if not edges:
            return
        parents, children = (list(column) for column in zip(*edges, strict=True))
        ((due,),) = await self._write(self._calls.unlink, self._time.argument(), parents, children)
        self._hint(due)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        """Ended parents of which not all edges are counted off."""
        rows = await self._run(self._sql.unsettled, limit)
        return [(parent, State(state)) for parent, state in rows]

    def _hint(self, due: bool) -> None:
        if due:
            self._wake.tell({TIMER_TOPIC}, ["timer"])


def _ended(link: Link, parent: str, state: str | None) -> Ended:
    return Ended(link.child, parent, None if state is None else State(state), link.any_end)
