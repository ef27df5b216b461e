"""The measurements count what they measured; how fast it was is not asserted here."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from andon import Andon
from andon.bench import run
from andon.bench.counting import tally
from andon.bench.producing import How
from andon.model.errors import ConfigurationError


@pytest.mark.parametrize("how", ["single", "concurrent", "bulk"])
def test_submitting_counts_the_records_stored(how: How):
    outcome = run("submit", n=30, how=how, concurrency=7)
    assert (outcome["n"], outcome["verified"]) == (30, 30)
    assert outcome["rate"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["drain", "e2e"])
def test_a_worker_process_completes_every_task(kind: Any):
    outcome = run(kind, n=60, timeout=60)
    assert outcome["verified"] == 60
    assert "survives" in outcome["durability"]["power_cut"]


@pytest.mark.slow
def test_latency_is_told_in_percentiles():
    outcome = run("latency", n=5, rate=200, timeout=60)
    assert outcome["verified"] == 5
    assert 0 < outcome["p50_ms"] <= outcome["p95_ms"] <= outcome["p99_ms"]


def test_a_store_that_was_named_is_used_and_kept(tmp_path: Path):
    file = tmp_path / "mine.db"
    for _ in range(2):
        assert run("submit", url=f"sqlite:///{file}", n=10)["verified"] == 10
    assert file.exists()


def test_what_another_process_cannot_share_is_refused():
    with pytest.raises(ConfigurationError, match="two processes"):
        run("drain", url="memory://", n=1)
    assert run("submit", url="memory://", n=10)["verified"] == 10


def test_tasks_that_did_not_complete_are_not_counted(tmp_path: Path):
    async def submitted_only() -> tuple[int, int]:
        async with Andon(f"sqlite:///{tmp_path / 'x.db'}") as app:

            @app.task
            async def idle() -> None: ...

            handles = await app.submit_many(idle.draft() for _ in range(5))
            ids = [handle.id for handle in handles] + ["never-submitted"]
            found = await tally(await app.engine(), "", ids)
            return found.submitted, found.completed

    assert asyncio.run(submitted_only()) == (5, 0)
