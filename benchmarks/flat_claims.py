"""What a claim costs while what cannot run is the oldest: with few and with many tasks pending,
with 1, 100 and 1,000 types in a queue, among 1 and 2,000 queues. It should be the same.

    python benchmarks/flat_claims.py STORE [--few N] [--many N] [--claims N]

STORE is the URL of an empty store, which is filled and not emptied again; or `redis`, `postgres` or
`nats`, of which a server is started for this run. The tasks of the filling, spread
over three queues (of 1, 100 and 1,000 types), are of types that the worker has no code for. A
round submits one task that it has code for, claims it alone (measured: the time of the call) and
completes it. Besides: a worker with code for everything, one that finds nothing, one that asks for
2,000 queues of which all but one are empty.

Figures are medians of seven rounds of `--claims`. The processor time is that of this process, so it
is the store's own only where the store is embedded; there it tells more than the clock does on a
machine that is busy with other things.
"""

import argparse
import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import store_servers

from andon.contract.limits import MAX_BATCH
from andon.contract.requests import Change, ClaimRequest
from andon.contract.store import Store
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete
from andon.model.code import Code
from andon.model.task import Definition, Task
from andon.stores.registry import open_store

TYPES = (1, 100, 1_000)
QUEUES = 2_000
FILLING = 4
"""Batches under way at once while the store is filled."""

KNOWN = Code.of([("known", 0)])
ROUNDS = 7
"""Rounds of claims for each figure, which is their median: one round may meet a busy machine."""

PERCENT_99 = 98
"""Index of the 99th percentile among 99 cut points."""


class Case(NamedTuple):
    """One way to claim."""

    name: str
    queues: tuple[str, ...]
    code: Code | None
    finds: bool = True


class Round(NamedTuple):
    """What claims of one case took, in ms each."""

    p50: float
    p99: float
    cpu: float  #: mean


def queue_of(types: int) -> str:
    """The queue of the filling that has so many types."""
    return f"types-{types}"


def cases() -> list[Case]:
    """What is measured at each number of tasks."""
    found = [Case(f"{types:,} types", (queue_of(types),), KNOWN) for types in TYPES]
    most = queue_of(max(TYPES))
    empty = tuple(f"empty-{n}" for n in range(QUEUES - 1))
    return [
        *found,
        Case(f"{max(TYPES):,} types, code for all", (most,), None),
        Case(f"{max(TYPES):,} types, nothing to find", (most,), KNOWN, finds=False),
        Case(f"1 type, {QUEUES:,} queues", (*empty, queue_of(1)), KNOWN),
    ]


class Filled:
    """The store, and how it is filled and claimed from."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pending = 0
        self._ids = itertools.count()

    def task(self, name: str, queue: str) -> Task:
        """A task submitted now."""
        task_id = f"task-{next(self._ids)}"
        return admit(Definition(id=task_id, name=name, queue=queue), self.store.now(), task_id)

    async def use_up(self, queues: Sequence[str]) -> None:
        """Use queues once, so that they are known and hold nothing: the common kind of empty."""
        for queue in queues:
            await self.store.create([self.task("known", queue)])
            await self.measure(Case(queue, (queue,), None), 1)

    async def fill(self, pending: int) -> None:
        """Let so many tasks be pending that the worker has no code for."""
        batches = iter(range(self.pending, pending, MAX_BATCH))

        async def some() -> None:
            for start in batches:
                numbers = range(start, min(start + MAX_BATCH, pending))
                await self.store.create([self._unknown(n) for n in numbers])

        await asyncio.gather(*(some() for _ in range(FILLING)))
        self.pending = pending

    def _unknown(self, n: int) -> Task:
        types = TYPES[n % len(TYPES)]
        return self.task(f"unknown-{n // len(TYPES) % types}", queue_of(types))

    async def measure(self, case: Case, claims: int) -> Round:
        """How long each claim took."""
        took: list[float] = []
        cpu = 0.0
        while len(took) < claims:
            if case.code is KNOWN and case.finds:
                await self.store.create([self.task("known", case.queues[-1])])
            began = time.process_time()
            elapsed, claimed = await self._claim(case)
            cpu += time.process_time() - began
            assert bool(claimed) == case.finds, case.name
            took.append(elapsed * 1_000)
            await self.store.commit([self._completed(task) for task in claimed])
        if claims < 2:
            return Round(took[0], took[0], cpu)
        p99 = statistics.quantiles(took, n=100)[PERCENT_99]
        return Round(statistics.median(took), p99, cpu / claims * 1_000)

    async def _claim(self, case: Case) -> tuple[float, list[Task]]:
        """One claim, of every partition in turn until something is found."""
        elapsed = 0.0
        for partition in range(self.store.partitions):
            request = ClaimRequest(
                worker="worker",
                token=f"token-{next(self._ids)}",
                queues=case.queues,
                limit=1,
                lease_ms=60_000,
                partition=partition,
                code=case.code,
            )
            began = time.perf_counter()
            claimed = await self.store.claim(request)
            elapsed += time.perf_counter() - began
            if claimed:
                return elapsed, claimed
        return elapsed, []

    def _completed(self, task: Task) -> Change:
        write_id = f"end-{next(self._ids)}"
        moved = apply(task, Complete(), now=self.store.now(), random=lambda: 0.5, write_id=write_id)
        return Change(before=task, after=moved.status, event=moved.event, sets_result=True)


@contextmanager
def url_of(store: str) -> Iterator[str]:
    """The URL given, or that of a server of the kind that is named."""
    if "://" in store:
        yield store
    else:
        with store_servers.running(store) as started:
            yield started.namespace("flat")


async def main(url: str, sizes: Sequence[int], claims: int) -> None:
    store = open_store(url)
    await store.open()
    filled = Filled(store)
    await filled.use_up([f"empty-{n}" for n in range(QUEUES - 1)])
    found: dict[str, list[Round]] = {case.name: [] for case in cases()}
    for size in sizes:
        await filled.fill(size)
        for case in cases():
            await filled.measure(case, 20)  # what comes first at a new size is no claim's cost
            rounds = [await filled.measure(case, claims) for _ in range(ROUNDS)]
            found[case.name].append(Round(*map(statistics.median, zip(*rounds, strict=True))))
    await store.close()
    report(sizes, found)


def report(sizes: Sequence[int], found: dict[str, list[Round]]) -> None:
    """Print the table: what a claim took at each size, and the ratios last to first."""
    heads = [f"{size:,} pending: p50, p99, CPU ms" for size in sizes]
    print("| claim of one task |", " | ".join([*heads, "ratios"]), "|")
    print("|---" * (len(sizes) + 2) + "|")
    for name, at in found.items():
        figures = [", ".join(f"{value:.2f}" for value in one) for one in at]
        ratios = (f"{last / first:.2f}" for first, last in zip(at[0], at[-1], strict=True))
        print(f"| {name} |", " | ".join([*figures, ", ".join(ratios)]), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--claims", type=int, default=200)
    given = parser.parse_args()
    with url_of(given.store) as url:
        asyncio.run(main(url, (given.few, given.many), given.claims))
