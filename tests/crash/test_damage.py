"""A record damaged where it is stored is set aside; the others go on."""

import asyncio

import pytest
from servers import harm, keeps_moves_in_the_record

from andon.contract.queries import Query
from andon.contract.requests import ClaimRequest
from andon.lifecycle.commands import Complete, Delete, Fail, Terminate
from andon.model.fleet import QueueStats
from andon.model.task import Task, TaskError
from andon.model.words import State

from .bench import Bench, on_bench

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("state", ["pending", "parked", "active", "retry", "completed", "failed"])
def test_a_damaged_record_is_set_aside_and_the_others_go_on(url: str, state: str) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.engine.configure_queue("default", {"max_concurrent_per_key": 1})
        options = {"retry_delay": 0.0, "lease": 0.2, "retention": 0.2, "dead_letter_retention": 0.2}
        if state == "parked":
            await bench.submit("first", key="k")
        await bench.submit("bad", key="k", unique_key="u", options=options)
        if state in ("active", "retry", "completed", "failed"):
            request = ClaimRequest(
                worker="w", token="bad", queues=("default",), limit=1, lease_ms=200
            )
            [task] = await bench.engine.claim(request)
            await settle(bench, task, state)
        await harm.damage(url, "bad")
        await bench.submit("good", key="k")
        bench.engine.timekeeper.start()
        done = 2 if state == "parked" else 1
        queue = await until_counted(bench, {"unknown": 1, "completed": done})
        assert not queue.dead_letters
        assert not queue.parked
        assert [t.id for t in (await bench.engine.find(Query(states=(State.UNKNOWN,)))).tasks] == [
            "bad"
        ]
        await bench.submit("next", unique_key="u")
        assert await bench.finish() == ["next"]
        [acted] = await bench.engine.act(["bad"], Delete())
        assert acted.error is None
        assert await bench.engine.get(["bad"]) == [None]
        await bench.engine.timekeeper.stop()
        if not keeps_moves_in_the_record(url):
            await bench.everything()

    on_bench(scenario, url)


async def settle(bench: Bench, task: Task, state: str) -> None:
    error = TaskError(message="x")
    if state == "retry":
        assert await bench.engine.report(task, Fail(error=error, delay=200)) is State.RETRY
    elif state == "failed":
        assert await bench.engine.report(task, Terminate(error=error)) is State.FAILED
    elif state == "completed":
        assert await bench.engine.report(task, Complete()) is State.COMPLETED


async def until_counted(bench: Bench, expected: dict[str, int]) -> QueueStats:
    """Complete what can be, until the counts are these."""
    async with asyncio.timeout(120):
        while True:
            await bench.finish()
            [queue] = await bench.engine.stats()
            if {name: n for name, n in queue.counts.items() if n} == expected:
                return queue
            await asyncio.sleep(0.02)


def test_a_damaged_record_can_be_deleted_before_anybody_met_it(url: str) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.submit("bad", "good")
        await harm.damage(url, "bad")
        [acted] = await bench.engine.act(["bad"], Delete())
        assert acted.error is None
        assert await bench.finish() == ["good"]
        [queue] = await bench.engine.stats()
        assert {s: n for s, n in queue.counts.items() if n} == {"completed": 1}

    on_bench(scenario, url)
