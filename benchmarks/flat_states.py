"""What calls of a store cost beside few and beside many tasks that are pending, scheduled, blocked
and failed, a quarter each. It should be the same.

    python benchmarks/flat_states.py KIND [--few N] [--many N] [--rounds N]

KIND is sqlite, redis, postgres or nats. The pending ones are of a type that the worker has no code
for, and older than all that it claims; the blocked ones wait for one of them, 1,000 for each; the
failed ones are dead letters. (`flatness.py` does the same with completed ones.)

Both stores are filled, then measured in turn. Figures are medians of the processor time of this
process and of the server: on a machine that is busy with other things it tells more than the clock.
"""

import argparse
import asyncio
import itertools
import os
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import blocks
import store_servers
from limits.life import claiming, completions, counted, new_tasks
from meter import Meter
from msgspec.structs import replace

from andon.contract.edges import Link
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.queries import Query
from andon.engine.control import change_of
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Reject
from andon.lifecycle.daily import first_day
from andon.model.code import Code
from andon.model.task import Definition, Task, TaskError
from andon.model.words import State
from andon.stores.registry import open_store

if TYPE_CHECKING:
    from andon.contract.store import Store

STATES = (State.PENDING, State.SCHEDULED, State.BLOCKED, State.FAILED)
QUEUE = "bench"
CHILDREN = 1_000
"""Blocked tasks that wait for the same."""

EVENTS = 5_000
"""Events that the log keeps, so that each round has as many to drop as it has written."""

BATCH = 100
IN_A_YEAR_MS = 365 * 86_400_000
HAS_CODE_FOR = Code.of([("bench.noop", 0)])
FILLING = 4
"""Batches under way at once while a store is filled."""


class Filled:
    """A store with tasks in all those states."""

    def __init__(self, url: str, server: int | None) -> None:
        self.store: Store = open_store(url)
        self.used: dict[str, list[float]] = {}
        self._meter = Meter(server)
        self._tokens = itertools.count()

    async def fill(self, n: int) -> None:
        """Let `n` tasks be there, a quarter in each state."""
        each = n // len(STATES)
        await self._at_once(self._fail(size) for size in _sizes(each))
        await self._at_once(self._create(State.PENDING, some) for some in _numbers(each))
        await self._at_once(self._create(State.SCHEDULED, some) for some in _numbers(each))
        await self._at_once(self._create(State.BLOCKED, some) for some in _numbers(each))
        while await self.store.trim(MAX_BATCH):
            pass
        for state in STATES:
            there = await counted(self.store, state)
            assert there == each, f"{there:,} are {state}, not {each:,}"

    async def _at_once(self, work: Iterator[Awaitable[None]]) -> None:
        async def some() -> None:
            for one in work:
                await one

        await asyncio.gather(*(some() for _ in range(FILLING)))

    async def _create(self, state: State, numbers: Sequence[int]) -> None:
        now = self.store.now()
        write_id = f"fill-{state}-{numbers[0]}"
        tasks = [admit(_definition(state, n, now), now, write_id) for n in numbers]
        assert all(task.state is state for task in tasks)
        await self.store.create(tasks)
        if state is State.BLOCKED:
            await self.store.link([Link(t.id, t.definition.dependencies) for t in tasks])

    async def _fail(self, size: int) -> None:
        await self.store.create(new_tasks(size, self.store.now()))
        claimed = await self._claim(size)
        now, command = self.store.now(), Reject(error=TaskError("It cannot be done."))
        await self.store.commit(
            [change_of(t, apply(t, command, now=now, random=lambda: 0.5)) for t in claimed]
        )

    async def _claim(self, size: int) -> list[Task]:
        claimed: list[Task] = []
        while len(claimed) < size:
            request = claiming(f"token-{next(self._tokens)}", size - len(claimed))
            claimed += await self.store.claim(replace(request, code=HAS_CODE_FOR))
        return claimed

    async def measure(self) -> None:
        """Every call once, in microseconds per task where it takes a batch."""
        store = self.store
        tasks = new_tasks(BATCH, store.now())
        await self._metered("create, of 100", BATCH, lambda: store.create(tasks))
        claimed = await self._metered("claim, of 100", BATCH, lambda: self._claim(BATCH))
        ends = completions(claimed, store.now())
        await self._metered("commit, of 100", BATCH, lambda: store.commit(ends))
        (task,) = new_tasks(1, store.now())
        await self._metered("create one", 1, lambda: store.create([task]))
        claimed = await self._metered("claim one", 1, lambda: self._claim(1))
        ends = completions(claimed, store.now())
        await self._metered("commit one", 1, lambda: store.commit(ends))
        await self._metered("take 100 that are due", 1, lambda: store.take_due(0, 100, 1_000))
        for state in STATES:
            page = Query(queue=QUEUE, states=(state,), limit=50)
            await self._metered(f"page of 50 {state}", 1, lambda page=page: store.find(page))
        by_due = Query(queue=QUEUE, states=(State.SCHEDULED,), due_first=True, limit=50)
        await self._metered("page of 50 scheduled, by due time", 1, lambda: store.find(by_due))
        letters = Query(queue=QUEUE, dead_letters=True, limit=50, newest_first=True)
        await self._metered("page of 50 dead letters", 1, lambda: store.find(letters))
        await self._metered("stats", 1, store.stats)
        await self._metered("ready kinds", 1, store.ready_kinds)
        await self._metered("take what is unsettled", 1, lambda: store.take_unsettled(100))
        await self._metered("trim what a round has logged", 1, lambda: store.trim(MAX_BATCH))
        week = first_day(store.now(), 7)
        await self._metered("daily history", 1, lambda: store.tallies(None, week))
        await self._metered("info", 1, store.info)

    async def _metered(self, name: str, per: int, call: Callable[[], Awaitable[Any]]) -> Any:
        self._meter.start()
        value = await call()
        self._meter.stop()
        self.used.setdefault(name, []).append(sum(self._meter.used.values()) / per / 1_000)
        return value


def _definition(state: State, n: int, now: int) -> Definition:
    """A task that begins in that state and stays there."""
    waiting = Definition(id=f"{state}-{n}", name="elsewhere", queue=QUEUE)
    if state is State.SCHEDULED:
        return replace(waiting, run_at=now + IN_A_YEAR_MS)
    if state is State.BLOCKED:
        return replace(waiting, dependencies=(f"{State.PENDING}-{n // CHILDREN}",))
    return waiting


def _sizes(n: int) -> Iterator[int]:
    return (len(numbers) for numbers in _numbers(n))


def _numbers(n: int) -> Iterator[Sequence[int]]:
    return iter(in_batches(range(n), MAX_BATCH))


@contextmanager
def places(kind: str, names: Sequence[str]) -> Iterator[tuple[list[str], int | None]]:
    """A URL for each name, and the server's process."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="andon-flat-") as folder:
            urls = [f"sqlite:///{folder}/{name}.db?synchronous=normal" for name in names]
            yield [f"{url}&max_events={EVENTS}" for url in urls], None
    else:
        with store_servers.running(kind) as started:
            urls = [started.namespace(name) for name in names]
            yield [f"{url}&max_events={EVENTS}" for url in urls], started.pid


def main(kind: str, sizes: tuple[int, int], rounds: int) -> None:
    with places(kind, ["few", "many"]) as (urls, server):
        sides = [Filled(url, server) for url in urls]
        asyncio.run(both(sides, sizes, rounds))
    report(kind, sizes, *(side.used for side in sides))


async def both(sides: Sequence[Filled], sizes: tuple[int, int], rounds: int) -> None:
    """Fill both, then measure them in turn."""
    for side, n in zip(sides, sizes, strict=True):
        await side.store.open()
        await side.fill(n)
    for number in range(rounds):
        for side in sides if number % 2 else sides[::-1]:
            await side.measure()
    for side in sides:
        await side.store.close()


def report(
    kind: str, sizes: tuple[int, int], few: dict[str, list[float]], many: dict[str, list[float]]
) -> None:
    """Print the table."""
    print(f"| {kind}, µs | {sizes[0]:,} | {sizes[1]:,} | ratio |\n|---|---|---|---|")
    for name, used in few.items():
        one, other = used[5:], many[name][5:]
        a, b = statistics.median(one), statistics.median(other)
        ratio = blocks.told(b / a, blocks.ratios(one, other))
        print(f"| {name} | {a:.1f} | {b:.1f} | {ratio} |")
    print(f"\nLoad at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("sqlite", "redis", "postgres", "nats"))
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    main(given.kind, (given.few, given.many), given.rounds)
