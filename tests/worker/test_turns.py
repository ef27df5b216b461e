"""Partitions are walked fairly, and cheaply when there is nothing to do."""

import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from andon.contract.store import Store
from andon.engine.local import LocalEngine
from andon.model.fleet import WorkerInfo
from andon.model.words import State
from andon.worker.claims import Claims
from andon.worker.config import WorkerConfig
from andon.worker.turns import LONGEST_STAY_S, SHORTEST_STAY_S, Turns
from andon.worker.worker import Worker

from .kit import Kit, until


class Clock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def turns(partitions: int, seed: int = 1, clock: Clock | None = None) -> Turns:
    return Turns(partitions, rng=random.Random(seed), clock=clock or Clock())


def test_workers_begin_all_over_the_partitions():
    begun = Counter(turns(64, seed).partition for seed in range(1_000))
    assert len(begun) == 64
    assert max(begun.values()) < 3 * 1_000 / 64


def test_a_round_passes_every_partition_once_and_workers_go_different_ways():
    def way(seed: int) -> list[int]:
        ours = turns(64, seed)
        passed: list[int] = []
        for _ in range(64):
            passed.append(ours.partition)
            ours.move_on()
        assert ours.partition == passed[0]
        return passed

    assert sorted(way(1)) == list(range(64))
    steps = {(b - a) % 64 for a, b in zip(way(1), way(1)[1:], strict=False)}
    assert len(steps) > 10
    assert way(1) != way(2)


def test_who_is_told_of_work_looks_everywhere():
    ours = turns(64)
    ours.idle = 1_000
    assert ours.looks(polls=False) == 64


@pytest.mark.parametrize(
    ("idle", "looks"), [(1, 64), (3, 64), (4, 48), (64, 3), (192, 1), (1_000, 1)]
)
def test_idle_workers_share_the_looking(idle: int, looks: int):
    ours = turns(64)
    ours.idle = idle
    assert ours.looks(polls=True) == looks


@pytest.mark.parametrize(
    ("workers", "stay"), [(1, SHORTEST_STAY_S), (16, 0.5), (64, LONGEST_STAY_S)]
)
def test_a_worker_stays_a_moment_where_it_gets_all_it_asks_for(workers: int, stay: float):
    clock = Clock()
    ours = turns(64, clock=clock)
    ours.workers = workers
    first = ours.partition
    clock.now = stay * 0.9
    ours.filled()
    assert ours.partition == first
    clock.now = stay
    ours.filled()
    second = ours.partition
    assert second != first
    clock.now += stay / 2
    ours.filled()
    assert ours.partition == second, "the moment begins anew"


@asynccontextmanager
async def kit_of(partitions: int) -> AsyncIterator[Kit]:
    kit = Kit(f"memory://?partitions={partitions}")
    await kit.open()
    try:
        yield kit
    finally:
        await kit.close()


def store_of(kit: Kit) -> Store:
    assert isinstance(kit.local, LocalEngine)
    return kit.local.store


def names(kit: Kit, partition: int, count: int) -> list[str]:
    """Task ids of one partition."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        number += 1
        name = f"n{number}"
        if store_of(kit).partition_of(name) == partition:
            found.append(name)
    return found


async def test_a_long_line_in_one_partition_keeps_no_worker_from_the_others():
    async with kit_of(2) as kit:

        async def quick() -> None: ...

        kit.add(quick)
        line = names(kit, 0, 600)
        for name in line:
            await kit.submit("quick", id=name)
        fast = lambda: time.monotonic() * 100  # noqa: E731 - a second passes in 10 ms
        config = WorkerConfig(queues=("default",), concurrency=1, lease=30_000.0)
        worker = Worker(cast("Any", kit.engine), kit.registry, config, clock=fast)
        kit.workers.append(worker)
        await worker.start()
        await kit.end(line[20])
        (other,) = names(kit, 1, 1)
        await kit.submit("quick", id=other)
        assert (await kit.end(other)).state is State.COMPLETED
        assert (await kit.get(line[-1])).state is State.PENDING


async def test_among_many_idle_workers_a_poll_looks_at_one_partition(
    monkeypatch: pytest.MonkeyPatch,
):
    looks: list[int] = []
    async with kit_of(16) as kit:

        async def job() -> None: ...

        def paused(self: Claims, got: int) -> float:
            looks.append(len(kit.engine.called("claim")) - sum(looks))
            return 0.01

        monkeypatch.setattr(Claims, "_next_pause", paused)
        kit.add(job)
        for number in range(100):
            await store_of(kit).put_worker(WorkerInfo(id=f"w{number}", concurrency=1))
        await kit.start()
        await until(lambda: looks[-3:] == [1, 1, 1])
        assert looks[0] == 16, "at the start it looks everywhere"
        task = await kit.run("job")
        assert task.state is State.COMPLETED, "it was told, and looked everywhere"
