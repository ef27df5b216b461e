"""Where many tasks are pending in a lane, a claim reads no more than it wants, message by message:
for a page of messages the server would count all that is pending there."""

import asyncio
import time

import pytest
from conformance.kit import Kit, ids
from servers import harm

from andon.model.code import Code
from andon.stores.nats import NatsStore, lane_depths
from andon.stores.nats.lane_depths import LaneDepths
from andon.stores.nats.subqueues import Subqueues

from .counting import Traffic


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pending tasks are many, and any number of them is too many to count for a page."""
    monkeypatch.setattr(lane_depths, "_DEEP", 20)
    monkeypatch.setattr(lane_depths, "_PENDING_TO_ONE", 0)


def depths_of(kit: Kit) -> LaneDepths:
    assert isinstance(kit.store, NatsStore)
    return kit.store._claims.subqueues[0]._depths


def one_by_one(kit: Kit, patch: pytest.MonkeyPatch) -> None:
    """No claim reads a page, however much or little is pending."""
    patch.setattr(depths_of(kit), "are_read_singly", lambda _lane, _wanted: True)
    patch.setattr(Subqueues, "_page", never)


async def never(*_: object) -> None:
    raise AssertionError("a page was read")


async def counted(kit: Kit) -> LaneDepths:
    """What is known of the lanes, once one has been counted."""
    depths = depths_of(kit)

    async def known() -> bool:
        return bool(depths._depths)

    await kit.until(known)
    return depths


async def test_the_first_claim_from_a_lane_has_it_counted(kit: Kit) -> None:
    await kit.create(*(kit.record(name="waits") for _ in range(30)))
    assert len(await kit.claim(1)) == 1
    depths = await counted(kit)
    assert set(depths._depths.values()) <= {29, 30}


@pytest.mark.usefixtures("deep")
async def test_a_claim_of_one_reads_one(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [await kit.submit(name="waits") for _ in range(40)]
    first = await kit.claim(1)
    await counted(kit)
    rest = await kit.claim(15)  # what was read with the first
    traffic = Traffic(monkeypatch)
    after = await kit.claim(1)
    _, read, _ = traffic.taken()
    assert read == 1
    assert ids([*first, *rest, *after]) == ids(made[:17])


async def test_a_claim_of_one_reads_ahead_where_little_is_pending(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kit.create(*(kit.record(name="waits") for _ in range(40)))
    await kit.claim(1)
    await counted(kit)
    await kit.claim(15)
    traffic = Traffic(monkeypatch)
    await kit.claim(1)
    _, read, _ = traffic.taken()
    assert read > 1


async def test_all_are_claimed_and_the_oldest_first(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(kit, monkeypatch)
    made = [await kit.submit(name=f"waits-{n % 3}") for n in range(60)]
    claimed = await kit.claim(7)
    while found := await kit.claim(7):
        claimed += found
    assert ids(claimed) == ids(made)


async def test_one_that_cannot_be_read_is_set_aside_and_the_others_are_claimed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_by_one(kit, monkeypatch)
    before = [await kit.submit(name="waits") for _ in range(3)]
    broken = await kit.submit(name="waits")
    await harm.damage(kit.factory.url, broken.id)  # written again, so it stands behind those
    after = [await kit.submit(name="waits") for _ in range(3)]
    assert ids(await kit.claim(6)) == ids([*before, *after])
    assert await kit.claim(6) == []


@pytest.mark.usefixtures("deep")
async def test_a_claim_of_more_than_there_are_gets_them_all(kit: Kit) -> None:
    made = [await kit.submit(name="waits") for _ in range(30)]
    assert ids(await kit.claim(1)) == [made[0].id]
    await counted(kit)
    assert ids(await kit.claim(100)) == ids(made[1:])
    assert await kit.claim(1) == []
    again = await kit.submit(name="waits")
    assert ids(await kit.claim(1)) == [again.id]


@pytest.mark.usefixtures("deep")
async def test_tasks_that_there_is_no_room_for_are_passed_over(kit: Kit) -> None:
    await kit.create(*(kit.record(name="full") for _ in range(30)))
    mine = await kit.submit(name="mine")
    assert len(await kit.claim(1, code=Code.of([("full", 0)]))) == 1
    await counted(kit)
    found = await kit.claim(5, code=Code.of([("full", 0), ("mine", 0)]), room={"full": 2})
    assert sorted(task.definition.name for task in found) == ["full", "full", "mine"]
    assert mine.id in ids(found)


async def test_one_lane_at_a_time_is_counted_and_none_again_soon(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths = depths_of(kit)
    counts: list[int] = []

    async def count(lane: int) -> None:
        counts.append(lane)
        depths._counted_at[lane] = time.monotonic()

    monkeypatch.setattr(depths, "_count", count)

    async def asked(*lanes: int) -> list[int]:
        counts.clear()
        for lane in lanes:
            depths.are_read_singly(lane, 1)
        await asyncio.sleep(0)
        return list(counts)

    assert await asked(1, 2) == [1]
    assert await asked(2) == []
    depths._pause_until = 0.0
    assert await asked(1, 2) == [2]
    depths._pause_until = 0.0
    assert await asked(1, 2) == []
    depths._counted_at[1] -= lane_depths._KNOWN_S
    assert await asked(1, 2) == [1]
