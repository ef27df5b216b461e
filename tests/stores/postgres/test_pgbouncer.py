"""Through PgBouncer in transaction mode: all of the store works, but that nobody listens."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.kit import Kit, StoreFactory, ids
from servers import Servers
from servers.pgbouncer import PgBouncer, program
from servers.postgres import PostgresServer

from andon.bench import run
from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.contract.topics import ready_topic
from andon.lifecycle.commands import Complete, RequestCancel
from andon.model.words import State

pytestmark = pytest.mark.skipif(
    program() is None, reason="PgBouncer is not installed: apt-get install pgbouncer"
)


@pytest.fixture
def through(servers: Servers, url: str, tmp_path: Path) -> Iterator[str]:
    """The namespace, through a pooler that has two connections for everybody."""
    server = servers.running("postgres")
    assert isinstance(server, PostgresServer)
    pooler = PgBouncer(server, tmp_path)
    yield f"{pooler.url(url.partition('namespace=')[2])}&pgbouncer=true"
    pooler.stop()


@pytest.fixture
def pooled(through: str, runner: asyncio.Runner) -> Iterator[Kit]:
    kit = Kit(StoreFactory(through, shared=True, durable=True))
    runner.run(kit.open())
    yield kit
    runner.run(kit.close())


async def test_a_task_lives_its_life_through_a_pooler(pooled: Kit) -> None:
    task = await pooled.active()
    assert await pooled.renew(task) is Verdict.OK
    renewal = Renewal(task=task.id, run=task.status.run, lease_ms=30_000)
    assert await asyncio.to_thread(pooled.store.renew_blocking, [renewal]) == [Verdict.OK]
    asked = await pooled.moved(task, RequestCancel())
    assert await pooled.renew(asked) is Verdict.CANCEL
    assert (await pooled.moved(asked, Complete(result=b"1"))).result == b"1"
    events = (await pooled.store.history(task.id)).events
    assert [event.target for event in events][-1] is State.COMPLETED


async def test_many_callers_share_the_few_connections_of_a_pooler(pooled: Kit) -> None:
    """Two stores of four connections each, on two of the server's, in turns as it pleases."""
    other = await pooled.again()
    await asyncio.gather(
        *(pooled.submit() for _ in range(40)), *(other.create([pooled.record()]) for _ in range(40))
    )
    claims = await asyncio.gather(
        *(pooled.claim(limit=10) for _ in range(4)),
        *(pooled.claim_from(other, limit=10) for _ in range(4)),
    )
    claimed = [task for tasks in claims for task in tasks]
    assert len(set(ids(claimed))) == len(claimed) == 80
    await asyncio.gather(*(pooled.moved(task, Complete()) for task in claimed))
    assert (await pooled.stats()).counts == {"completed": 80}


async def test_new_work_is_found_without_a_hint_through_a_pooler(pooled: Kit) -> None:
    """Another process's listener is not woken; it finds the work when it looks."""
    other = await pooled.again()
    with other.listen([ready_topic("default")]) as listener:
        task = await pooled.submit()
        assert not await listener.wait(0.2)
        assert ids(await pooled.claim_from(other)) == [task.id]


def test_a_worker_process_works_off_a_queue_through_a_pooler(through: str) -> None:
    assert run("e2e", url=through, n=300, timeout=60)["verified"] == 300
