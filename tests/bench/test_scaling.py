"""The simulation's own arithmetic, and that it plays what it says."""

import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def scaling(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import scaling  # pyright: ignore[reportMissingImports]

    yield scaling
    for name in ("scaling", "fleet_model"):
        sys.modules.pop(name, None)


def small(scaling: Any, **assumed: Any) -> Any:
    fields = {"partitions": 4, "workers": 8, "concurrency": 2, "seconds": 5.0, **assumed}
    return scaling.Model(**fields)


def test_fairness_is_one_for_all_alike_and_one_in_n_for_one_with_everything(scaling: Any) -> None:
    assert scaling.jain([3, 3, 3, 3]) == pytest.approx(1)
    assert scaling.jain([12, 0, 0, 0]) == pytest.approx(1 / 4)
    assert scaling.jain([1, 2]) == pytest.approx(9 / 10)
    assert scaling.jain([0, 0]) == 1


def test_a_percentile_is_a_value_that_occurred(scaling: Any) -> None:
    values = list(range(1, 101))
    assert [scaling.percentile(values, q) for q in (0.5, 0.99, 1)] == [50, 99, 100]
    assert scaling.percentile([7], 0.5) == 7


def test_chi_square_is_that_of_the_book(scaling: Any) -> None:
    assert scaling.chi_square([10, 20, 30]) == pytest.approx(10)
    assert scaling.chi_square([5, 5]) == 0


def test_the_spread_of_partitions_is_that_of_chance(scaling: Any) -> None:
    rng = random.Random(5)
    partitions, tasks = 20, 2_000
    sizes: list[int] = []
    for _ in range(100):
        counts = [0] * partitions
        for _ in range(tasks):
            counts[rng.randrange(partitions)] += 1
        sizes += counts
    mean = tasks / partitions
    seen = math.sqrt(sum((size - mean) ** 2 for size in sizes) / len(sizes)) / mean
    assert seen == pytest.approx(scaling.spread(tasks, partitions), rel=0.1)


def test_the_same_seed_gives_the_same_run_and_another_another(scaling: Any) -> None:
    def run(seed: int) -> list[Any]:
        fleet = scaling.Fleet(small(scaling), scaling.PartitionRotation, seed=seed)
        for partition in fleet.partitions:
            partition.stored = 1_000
        return [(p.claims, p.started, p.unasked) for p in fleet.run()]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_no_task_is_made_or_lost(scaling: Any) -> None:
    fleet = scaling.Fleet(small(scaling, seconds=20.0), scaling.PartitionRotation, seed=1)
    fleet.partitions[0].stored = 50
    for number in range(20):
        fleet.at(0.5 + number / 10, lambda number=number: fleet.arrive(number % 4))
    seen = fleet.run()
    assert [p.stored for p in seen] == [0] * 4
    assert not any(p.arrived for p in seen)
    assert sum(p.started for p in seen) == 70
    assert sum(len(p.waits) for p in seen) == 20
    assert all(wait >= 0 for p in seen for wait in p.waits)


def test_full_workers_start_as_many_tasks_as_their_slots_allow(scaling: Any) -> None:
    model = small(scaling, workers=20, concurrency=5, task_s=0.5, seconds=20.0)
    fleet = scaling.Fleet(model, scaling.PartitionRotation, seed=3)
    for partition in fleet.partitions:
        partition.stored = 1_000_000
    started = sum(p.started for p in fleet.run())
    assert started == pytest.approx(20 * 5 / 0.5 * 20, rel=0.1)


def test_a_server_is_never_busier_than_it_can_be(scaling: Any) -> None:
    model = small(scaling, workers=50, task_s=0.001, call_s=0.01, each_s=0.001)
    fleet = scaling.Fleet(model, scaling.PartitionRotation, seed=3)
    for partition in fleet.partitions:
        partition.stored = 1_000_000
    for partition in fleet.run():
        busy = (partition.claims - 50) * model.call_s + (partition.started - 100) * model.each_s
        assert busy <= model.seconds


def test_a_long_line_starves_the_others_under_the_former_policy_only(scaling: Any) -> None:
    def started(policy: Any) -> list[int]:
        fleet = scaling.Fleet(small(scaling), policy, seed=1)
        for partition in fleet.partitions:
            partition.stored = 1_000_000
        return [partition.started for partition in fleet.run()]

    assert [count > 0 for count in started(scaling.Former)] == [True, False, False, False]
    assert scaling.jain(started(scaling.PartitionRotation)) > 0.8


def test_idle_workers_ask_less_than_all_of_everybody(scaling: Any) -> None:
    def claims(policy: Any) -> int:
        model = small(scaling, partitions=16, workers=100, seconds=60.0)
        return sum(p.claims for p in scaling.Fleet(model, policy, seed=1).run())

    assert claims(scaling.PartitionRotation) * 5 < claims(scaling.Former)


def test_a_task_whose_hint_was_lost_is_found_by_a_poll(scaling: Any) -> None:
    fleet = scaling.Fleet(small(scaling, seconds=60.0), scaling.PartitionRotation, seed=1)
    fleet.at(7.0, lambda: fleet.arrive(2, hinted=False))
    (wait,) = fleet.run()[2].waits
    assert wait < 10


def test_a_plot_has_a_line_for_each_group(scaling: Any) -> None:
    lines = {"one": [1.0, 2.0], "other": [0.0, 4.0]}
    drawn = scaling.plot({"former": lines, "now": lines})
    assert drawn.count("<polyline") == 4
    assert drawn.startswith("<svg")
