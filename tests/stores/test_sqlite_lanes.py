"""What is remembered of lanes may be forgotten at any time, and other processes change them."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from andon.client.ids import new_id
from andon.contract.requests import ClaimRequest
from andon.lifecycle.admission import admit
from andon.model.code import Code
from andon.model.fleet import QueueConfig
from andon.model.task import Definition, Task
from andon.stores.kit import known_codes
from andon.stores.sqlite import SqliteStore, claiming, lanes, transaction

QUEUES = tuple(f"q{n}" for n in range(12))
KINDS = 9
ROUNDS = 150


@pytest.fixture(params=["remembers", "forgets"])
def remembering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "forgets":
        monkeypatch.setattr(lanes, "MOST_REMEMBERED", 2)
        monkeypatch.setattr(lanes, "MOST_PLACES", 1)
        monkeypatch.setattr(lanes, "MOST_PER_PLACE", 2)
        monkeypatch.setattr(transaction, "_MOST_NAMES", 2)
        monkeypatch.setattr(known_codes, "_MOST_KINDS", 2)
        monkeypatch.setattr(claiming, "MOST_STALE", 0)
    return str(request.param)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("remembering")
def test_claims_find_in_order_whatever_two_processes_do(tmp_path: Path, seed: int) -> None:
    """Each claim is held against a list that is sorted anew each time."""
    chance = random.Random(seed)

    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'andon.db'}?synchronous=normal"
        stores = [SqliteStore(url), SqliteStore(url)]
        for store in stores:
            await store.open()
        waiting: list[tuple[int, int, int, Task]] = []  # level, order, number, as they are claimed
        number = 0
        for turn in range(ROUNDS):
            store = chance.choice(stores)
            if chance.random() < 0.55:
                tasks: list[Task] = []
                for _ in range(chance.randint(1, 6)):
                    priority = chance.choice((0, 0, 0, 3, -2))
                    definition = Definition(
                        id=new_id(),
                        name=f"job{chance.randrange(KINDS)}",
                        version=chance.randrange(2),
                        queue=chance.choice(QUEUES),
                        priority=priority,
                    )
                    tasks.append(admit(definition, store.now(), new_id()))
                    number += 1
                    status = tasks[-1].status
                    waiting.append((-priority, status.order, number, tasks[-1]))
                await store.create(tasks)
                continue
            known = chance.sample([(f"job{n}", v) for n in range(KINDS) for v in (0, 1)], 6)
            queues = QUEUES if chance.random() < 0.6 else tuple(chance.sample(QUEUES, 3))
            room = {f"job{n}": chance.randrange(3) for n in range(0, KINDS, 3)}
            limit = chance.randint(1, 8)
            request = ClaimRequest(
                worker="w",
                token=f"t{turn}",
                queues=queues,
                limit=limit,
                lease_ms=60_000,
                room=room,
                code=Code.of(known) if chance.random() < 0.8 else None,
            )
            claimed = await store.claim(request)
            assert [t.id for t in claimed] == _expected(waiting, request, known), turn
            gone = {task.id for task in claimed}
            waiting = [entry for entry in waiting if entry[3].id not in gone]
        for store in stores:
            await store.close()

    asyncio.run(main())


def _expected(
    waiting: list[tuple[int, int, int, Task]], request: ClaimRequest, known: list[tuple[str, int]]
) -> list[str]:
    left, room = request.limit, Counter(request.room)
    found: list[str] = []
    for queue in request.queues:
        for *_, task in sorted(waiting, key=lambda entry: entry[:3]):
            d = task.definition
            may = request.code is None or (d.name, d.version) in known
            has_room = d.name not in request.room or room[d.name] > 0
            if d.queue == queue and may and has_room and left:
                found.append(d.id)
                room[d.name] -= 1
                left -= 1
    return found


@pytest.mark.usefixtures("remembering")
def test_keys_are_let_through_while_lanes_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        store = SqliteStore(f"sqlite:///{tmp_path / 'andon.db'}?synchronous=normal")
        await store.open()
        config = QueueConfig(name="q", max_concurrent_per_key=1)
        assert await store.put_queue(config, expect=QueueConfig(name="q"))
        for n in range(60):
            definition = Definition(id=new_id(), name=f"job{n % 7}", queue="q", key=f"k{n % 5}")
            await store.create([admit(definition, store.now(), new_id())])
        request = ClaimRequest(worker="w", token="t", queues=("q",), limit=50, lease_ms=60_000)
        claimed = await store.claim(request)
        assert sorted(task.definition.key or "" for task in claimed) == [f"k{n}" for n in range(5)]
        free = QueueConfig(name="q")
        assert await store.put_queue(free, expect=config)
        again = ClaimRequest(worker="w", token="t2", queues=("q",), limit=100, lease_ms=60_000)
        assert len(await store.claim(again)) == 55
        await store.close()

    asyncio.run(main())
