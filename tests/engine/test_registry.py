"""Workers that only claim: noted, listed, quarantined and forgotten."""

import asyncio

import pytest

from andon.contract.notes import NoteName, PutNote
from andon.engine import registry as registry_module
from andon.engine.local import LocalEngine
from andon.lifecycle.registry import QUEUE_KEPT_MS, WORKER_KEPT_MS
from andon.model.errors import InvalidSubmission, WorkerNotFound
from andon.model.registry import WORKER_NOTES, RecentRun
from andon.model.task import Task

from .conftest import START, Shop


@pytest.fixture(autouse=True)
def looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarantine that another process wrote is seen at once, and not within a second."""
    monkeypatch.setattr(registry_module, "KNOWN_S", 0.0)


async def ask(
    shop: Shop, worker: str = "g/w", limit: int = 1, queue: str = "default"
) -> list[Task]:
    return await shop.claim(limit, worker=worker, queues=(queue,), registers=True)


async def test_a_claim_notes_worker_and_queue_and_what_was_got(shop: Shop) -> None:
    registry = shop.engine.registry
    with pytest.raises(WorkerNotFound):
        await registry.worker("default", "g/w")
    assert await ask(shop) == []
    first = await registry.worker("default", "g/w")
    assert (first.first_claim, first.recent) == (START, ())
    await shop.submit("a")
    await shop.submit("b")
    assert len(await ask(shop, limit=2)) == 2
    found = await registry.worker("default", "g/w")
    assert set(found.recent) == {RecentRun("a", 0), RecentRun("b", 0)}
    assert found.first_claim == START
    [queue], cursor = await registry.queues()
    assert (queue.queue, queue.last_active, cursor) == ("default", START, "")


async def test_a_worker_that_does_not_ask_for_it_is_not_noted(shop: Shop) -> None:
    await shop.submit("a")
    await shop.claim(worker="plain")
    assert await shop.engine.registry.queues() == ([], "")


async def test_a_worker_that_only_asks_is_seldom_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[PutNote] = []
    put = shop.engine.store.put_notes

    async def counted(puts: list[PutNote]) -> object:
        written.extend(puts)
        return await put(puts)

    monkeypatch.setattr(shop.engine.store, "put_notes", counted)
    for _ in range(10):
        await ask(shop)
        await shop.engine.registry.flush()
    assert len(written) == 2, "the queue and the worker, once"
    await shop.later(301)
    await ask(shop)
    await shop.engine.registry.flush()
    assert len(written) == 4


async def test_workers_of_a_queue_come_in_pages_by_id(shop: Shop) -> None:
    registry = shop.engine.registry
    names = [f"g/w{i:02}" for i in range(7)]
    await asyncio.gather(*(ask(shop, name) for name in reversed(names)))
    await ask(shop, "elsewhere", queue="other")
    found: list[str] = []
    cursor, pages = "", 0
    while True:
        page, cursor = await registry.workers("default", cursor, 3)
        found += [one.worker for one in page]
        pages += 1
        if not cursor:
            break
    assert (found, pages) == (names, 3)
    queues, cursor = await registry.queues("", 1)
    assert [one.queue for one in queues] == ["default"]
    queues, cursor = await registry.queues(cursor, 1)
    assert ([one.queue for one in queues], cursor) == (["other"], "")
    with pytest.raises(InvalidSubmission, match="limit is 1 to"):
        await registry.workers("default", "", 0)


async def test_a_quarantined_worker_gets_nothing_and_others_do(shop: Shop) -> None:
    registry = shop.engine.registry
    for worker in ("g/w", "g/x"):
        await ask(shop, worker)
    await shop.submit("a")
    until = START + 60_000
    held = await registry.quarantine("default", "g/w", until, by="ann", info="odd disk")
    assert held.quarantined_until == until
    [said] = held.quarantines
    assert (said.by, said.info, said.at) == ("ann", "odd disk", START)
    assert await ask(shop) == []
    shut, _ = await registry.workers("default", in_quarantine=True)
    free, _ = await registry.workers("default", in_quarantine=False)
    assert ([w.worker for w in shut], [w.worker for w in free]) == (["g/w"], ["g/x"])
    assert [task.id for task in await ask(shop, "g/x")] == ["a"]
    await shop.submit("b")
    await shop.later(60)
    assert [task.id for task in await ask(shop)] == ["b"]


async def test_a_quarantine_is_seen_by_other_processes_and_lifted_by_a_past_date(
    shop: Shop,
) -> None:
    other = LocalEngine(shop.engine.store).registry
    await ask(shop)
    await shop.engine.registry.flush()
    await other.quarantine("default", "g/w", START + 60_000)
    await shop.submit("a")
    assert await ask(shop) == []
    await other.quarantine("default", "g/w", START - 1)
    assert [task.id for task in await ask(shop)] == ["a"]
    assert len((await other.worker("default", "g/w")).quarantines) == 2


async def test_claims_and_quarantines_at_once_lose_nothing(shop: Shop) -> None:
    others = [LocalEngine(shop.engine.store).registry for _ in range(3)]
    for i in range(6):
        await shop.submit(f"t{i}")
    await ask(shop)
    await shop.engine.registry.flush()

    async def claims() -> None:
        for _ in range(5):
            await ask(shop)
            await shop.engine.registry.flush()

    async def says(number: int) -> None:
        for i in range(3):
            info = f"{number}.{i}"
            await others[number].quarantine("default", "g/w", START - 1, info=info)

    await asyncio.gather(claims(), *(says(number) for number in range(3)))
    found = await shop.engine.registry.worker("default", "g/w")
    assert len(found.recent) == 6
    assert {said.info for said in found.quarantines} == {
        f"{number}.{i}" for number in range(3) for i in range(3)
    }


async def test_nobody_quarantines_a_worker_that_never_claimed(shop: Shop) -> None:
    registry = shop.engine.registry
    for worker in ("absent", "", "\ud800", "x" * 2_000):
        with pytest.raises(WorkerNotFound):
            await registry.quarantine("default", worker, START + 1)
    await ask(shop)
    for bad in ({"until": 2**60}, {"until": 1, "info": "x" * 4_001}):
        with pytest.raises(InvalidSubmission):
            await registry.quarantine("default", "g/w", **bad)  # type: ignore[arg-type]
    assert (await registry.worker("default", "g/w")).quarantines == ()


async def test_workers_and_queues_are_forgotten_in_time(shop: Shop) -> None:
    registry = shop.engine.registry
    for worker in ("g/w", "g/x"):
        await ask(shop, worker)
    await registry.flush()
    await registry.quarantine("default", "g/x", START + 10 * WORKER_KEPT_MS)
    await shop.later(WORKER_KEPT_MS / 1000 + 1)
    with pytest.raises(WorkerNotFound):
        await registry.worker("default", "g/w")
    assert await registry.sweep() == 1
    [left], _ = await registry.workers("default")
    assert left.worker == "g/x"
    await shop.later(10 * WORKER_KEPT_MS / 1000 + QUEUE_KEPT_MS / 1000)
    assert sum([await registry.sweep() for _ in range(4)]) == 2
    store = shop.engine.store
    assert await store.list_notes("queue", "") == await store.list_notes("worker", "default") == []


async def test_a_note_that_does_not_decode_is_written_anew(shop: Shop) -> None:
    name = NoteName(WORKER_NOTES, "default", "g/w")
    await shop.engine.store.put_notes([PutNote(name, b"\xff", None)])
    await ask(shop, "g/x")
    await ask(shop)
    found, _ = await shop.engine.registry.workers("default")
    assert [one.worker for one in found] == ["g/w", "g/x"]


async def test_what_is_kept_of_workers_is_written_when_the_engine_closes(shop: Shop) -> None:
    await ask(shop)
    await shop.engine.registry.close()
    name = NoteName(WORKER_NOTES, "default", "g/w")
    assert (await shop.engine.store.notes([name]))[0] is not None


async def test_a_worker_can_be_declared_and_its_queue_is_there_with_it(shop: Shop) -> None:
    registry = shop.engine.registry
    assert await registry.queue("q") is None
    later = START + 3 * WORKER_KEPT_MS
    declared = await registry.declare("q", "g/w", later)
    assert (declared.expires_at, declared.recent) == (later, ())
    assert await registry.worker("q", "g/w") == declared
    found = await registry.queue("q")
    assert found is not None
    assert found.last_active == START
    with pytest.raises(InvalidSubmission, match="expires has passed"):
        await registry.declare("q", "g/x", START)
    with pytest.raises(InvalidSubmission, match="later than the year 9999"):
        await registry.declare("q", "g/x", 10**18)
    with pytest.raises(WorkerNotFound):
        await registry.worker("q", "g/x")
    await shop.later(QUEUE_KEPT_MS / 1000 + 1)
    assert await registry.queue("q") is None
