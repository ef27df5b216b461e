"""Limits hold over several partitions, which no batch can write to at once."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from conformance.kit import Kit
from servers import Servers

from andon.contract.outcomes import CreateKind
from andon.contract.requests import ClaimRequest
from andon.lifecycle.admission import admit
from andon.lifecycle.commands import Complete, RequestCancel
from andon.model.fleet import QueueConfig
from andon.model.task import Definition, Task
from andon.stores.nats import NatsStore
from andon.stores.nats.changes import changes_since
from andon.stores.nats.jetstream import Write, subject_of
from andon.stores.nats.nats_client import Reply
from andon.stores.nats.record_cache import RecordCache

PATIENCE_S = 60.0
PARTITIONS = 4

SLOW = [
    QueueConfig(name="q", max_concurrent=1),
    QueueConfig(name="q", max_concurrent_per_key=1),
    QueueConfig(name="q", rate_limit=0.001, rate_burst=1),
]


@pytest.fixture
def two(servers: Servers, tmp_path: Path, runner: asyncio.Runner) -> Iterator[list[NatsStore]]:
    """Two processes' stores in one place of several partitions."""
    url = f"{servers.fresh_url('nats', tmp_path)}&partitions={PARTITIONS}"
    stores = [NatsStore(url) for _ in range(2)]
    for store in stores:
        runner.run(store.open())
    yield stores
    for store in stores:
        runner.run(store.close())


def _tasks(store: NatsStore, count: int) -> list[Task]:
    return [
        admit(Definition(id=f"t{i}", name="job", queue="q", key="k"), store.now(), f"w{i}")
        for i in range(count)
    ]


async def _claim(
    store: NatsStore, token: str, order: Iterable[int] = range(PARTITIONS)
) -> list[str]:
    """Ids that it gets, in all partitions together."""
    found: list[str] = []
    for partition in order:
        request = ClaimRequest(
            worker="w",
            token=f"{token}-{partition}",
            queues=("q",),
            limit=5,
            lease_ms=60_000,
            partition=partition,
        )
        found += [task.id for task in await store.claim(request)]
    return found


class _Stopped:
    """Holds up a store before its records are written, after all that comes before them."""

    def __init__(self, store: NatsStore, patch: pytest.MonkeyPatch) -> None:
        assert store._context is not None
        js = store._context.js
        self.there, self.go = asyncio.Event(), asyncio.Event()
        plain = js.write

        async def write(stream: str, writes: Sequence[Write], **options: bool) -> list[int]:
            if any(subject.split(".")[3] == "t" for subject, *_ in writes):
                self.there.set()
                await self.go.wait()
            return await plain(stream, writes, **options)

        patch.setattr(js, "write", write)


@pytest.mark.parametrize("config", SLOW, ids=["queue", "key", "rate"])
async def test_a_claim_sees_those_that_others_are_writing(
    two: list[NatsStore], monkeypatch: pytest.MonkeyPatch, config: QueueConfig
) -> None:
    slow, other = two
    await slow.put_queue(config, expect=QueueConfig(name=config.name))
    await slow.create(_tasks(slow, 12))
    stopped = _Stopped(slow, monkeypatch)
    first = asyncio.ensure_future(_claim(slow, "slow"))
    async with asyncio.timeout(PATIENCE_S):
        await stopped.there.wait()
        second = await _claim(other, "other", reversed(range(PARTITIONS)))
        stopped.go.set()
        claimed = [*await first, *second]
    assert len(claimed) == 1


async def test_a_create_counts_those_that_others_are_writing(
    two: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = two
    await slow.put_queue(QueueConfig(name="q", max_size=2), expect=QueueConfig(name="q"))
    tasks = _tasks(slow, 4)
    stopped = _Stopped(slow, monkeypatch)
    first = asyncio.ensure_future(slow.create(tasks[:2]))
    async with asyncio.timeout(PATIENCE_S):
        await stopped.there.wait()
        second = await other.create(tasks[2:])
        stopped.go.set()
        kinds = [created.kind for created in (*await first, *second)]
    assert kinds == [CreateKind.CREATED] * 2 + [CreateKind.FULL] * 2


async def test_a_writer_that_died_holds_its_place_for_a_while(
    two: list[NatsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.stores.nats.limiter_lock.PERMIT_MS", 2_000)
    died, other = two
    await died.put_queue(QueueConfig(name="q", max_concurrent=1), expect=QueueConfig(name="q"))
    await died.create(_tasks(died, 12))
    stopped = _Stopped(died, monkeypatch)
    claiming = asyncio.ensure_future(_claim(died, "died"))
    async with asyncio.timeout(PATIENCE_S):
        await stopped.there.wait()
        claimed = await _claim(other, "early")
        assert claimed == []
        tokens = (f"late-{number}" for number in itertools.count())
        while not claimed:
            await asyncio.sleep(0.1)
            claimed = await _claim(other, next(tokens))
    assert len(claimed) == 1
    claiming.cancel()
    await asyncio.gather(claiming, return_exceptions=True)


async def test_a_claim_is_not_dated_before_the_end_of_the_run_whose_slot_it_takes(kit: Kit) -> None:
    """Though this process heard what time it is long ago, and the answer was long on its way."""
    await kit.configure(name="q", max_concurrent=1)
    await kit.submit_many(2, queue="q")
    late = await kit.again()
    assert isinstance(late, NatsStore)
    at, heard = late._clock._newest
    late._clock._newest = at - 500, heard
    (first,) = await kit.claim(queues=("q",))
    ended = await kit.moved(first, Complete())
    (second,) = await kit.claim_from(late, queues=("q",))
    assert ended.status.finished_at is not None
    assert second.status.started_at is not None
    assert second.status.started_at >= ended.status.finished_at


async def test_an_active_record_that_moves_while_the_index_is_read_is_counted(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no longer where it was, and stands behind where the stream ended before."""
    await kit.configure(name="q", max_concurrent=1)
    await kit.submit_many(2, queue="q")
    other = await kit.again()
    assert isinstance(other, NatsStore)
    (active,) = await kit.claim(queues=("q",))
    where = "andon.stores.nats.index.changes_since"

    async def while_it_moves(
        records: RecordCache, subject: str, start: int, limit: int, *, stored: int | None
    ) -> list[Reply]:
        monkeypatch.setattr(where, changes_since)
        await kit.submit_many(2, queue="q")
        page = await changes_since(records, subject, start, limit, stored=stored)
        await kit.moved(active, RequestCancel())
        return [msg for msg in page if f".{active.id}." not in subject_of(msg)]

    monkeypatch.setattr(where, while_it_moves)
    await other._index.sync()
    assert other._index.tables.ready.active["q"] == 1
