"""Records kept as they were claimed: so many, none that is large, each taken once."""

import asyncio

import pytest

from andon.contract.requests import ClaimRequest
from andon.engine.base import Submission
from andon.engine.local import LocalEngine
from andon.engine.opening import open_store
from andon.model.task import Task
from andon.service import claimed
from andon.service.claimed import ClaimedRecords


async def _claimed(*sizes: int) -> list[Task]:
    engine = LocalEngine(open_store("memory://"))
    await engine.open()
    try:
        await engine.submit(
            [Submission(id=str(n), name="x", args=b"x" * size) for n, size in enumerate(sizes)]
        )
        asked = ClaimRequest(
            worker="w", token="t", queues=("default",), limit=len(sizes), lease_ms=1_000
        )
        return await engine.claim(asked)
    finally:
        await engine.close()


def test_so_many_are_kept_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(claimed, "MOST", 3)
    kept = ClaimedRecords[str]()
    tasks = asyncio.run(_claimed(*[1] * 5))
    for task in tasks:
        kept.keep(task.id, task)
    assert [kept.take(task.id) for task in tasks] == [None, None, *tasks[2:]]
    assert [kept.take(task.id) for task in tasks] == [None] * 5, "each is taken once"


def test_what_is_large_is_read_anew():
    kept = ClaimedRecords[str]()
    small, large = asyncio.run(_claimed(claimed.MOST_BYTES, claimed.MOST_BYTES + 1))
    for task in (small, large):
        kept.keep(task.id, task)
    assert kept.take(small.id) is small
    assert kept.take(large.id) is None
