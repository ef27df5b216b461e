"""Metrics, as an exporter sees them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from tests.service.kit import serving

from andon import Andon
from andon.model.errors import TaskFailed
from andon.telemetry import Metrics


class Counted:
    """What was counted, and an application that is."""

    def __init__(self, url: str) -> None:
        self._reader = InMemoryMetricReader()
        self.app = Andon(url, middleware=[Metrics(MeterProvider([self._reader]))])

        @self.app.task(name="add", max_retries=1, retry_delay=None)
        async def add(a: int, b: int) -> int:
            if a == b:
                raise ValueError("the same")
            return a + b

        self.add = add

    def read(self) -> dict[str, list[Any]]:
        """Data points by metric."""
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


async def work(counted: Counted) -> None:
    async with counted.app as app, app.working():
        assert await (await counted.add.submit(1, 2)).result(timeout=20) == 3
        failing = await counted.add.submit(2, 2)
        with pytest.raises(TaskFailed):
            await failing.result(timeout=20)


@pytest.mark.parametrize("way", ["local", "http"])
def test_a_worker_counts_its_runs_wherever_its_store_is(tmp_path: Path, way: str):
    store = f"sqlite:///{tmp_path}/tasks.db"
    if way == "local":
        counted = Counted(store)
        asyncio.run(work(counted))
    else:
        with serving(Andon(store)) as running:
            counted = Counted(running.url)
            asyncio.run(work(counted))
    found = counted.read()
    runs = {
        (point.attributes["andon.task.name"], point.attributes["andon.run.outcome"]): point.count
        for point in found["andon.run.duration"]
    }
    ends = {outcome: count for (name, outcome), count in runs.items() if name == "add"}
    assert ends["completed"] == 1
    assert ends["failed"] == 1
    assert sum(ends.values()) == 3
    [retried] = found["andon.runs.retried"]
    assert (retried.value, retried.attributes) == (1, {"andon.task.name": "add"})
    [submitted] = found["andon.tasks.submitted"]
    assert submitted.value == 2
    [claims] = found["andon.claim.latency"]
    assert claims.count == 3
    calls = found["andon.store.duration"]
    assert "claim" in {point.attributes["andon.store.operation"] for point in calls}
    assert "andon.leases.lost" not in found


def test_without_metrics_nothing_is_wrapped(tmp_path: Path):
    from andon.stores.sqlite.store import SqliteStore

    async def look() -> None:
        app = Andon(f"sqlite:///{tmp_path}/tasks.db")
        engine: Any = await app.engine()
        assert type(engine.store) is SqliteStore
        await app.close()

    asyncio.run(look())
