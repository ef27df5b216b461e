"""Races: many callers and several instances on the same data; one of them wins."""

import asyncio
from collections import Counter

from andon.contract.outcomes import ChangeKind, CreateKind, Verdict
from andon.contract.requests import Renewal
from andon.contract.store import Store
from andon.lifecycle.commands import Complete, Lose, Snooze
from andon.model.task import Task
from andon.model.words import State

from .kit import LEASE_MS, Kit

TASKS = 120


async def instances(kit: Kit) -> list[Store]:
    return [kit.store, await kit.again(), await kit.again()]


async def test_each_task_is_claimed_exactly_once(kit: Kit) -> None:
    stores = await instances(kit)
    await kit.submit_many(TASKS)
    claimed: Counter[str] = Counter()

    async def work(store: Store) -> None:
        while tasks := await kit.claim_from(store, 7):
            claimed.update(task.id for task in tasks)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(store) for store in stores * 4))
    assert len(claimed) == TASKS
    assert set(claimed.values()) == {1}


async def test_claims_during_submits_lose_nothing(kit: Kit) -> None:
    stores = await instances(kit)
    claimed: Counter[str] = Counter()

    async def submit(store: Store) -> None:
        for _ in range(TASKS // 6):
            await store.create([kit.record(), kit.record()])
            await asyncio.sleep(0)

    async def work(store: Store) -> None:
        while sum(claimed.values()) < TASKS:
            claimed.update(task.id for task in await kit.claim_from(store, 5))
            await asyncio.sleep(0)

    async with asyncio.timeout(30):
        await asyncio.gather(*map(submit, stores), *map(work, stores))
    assert set(claimed.values()) == {1}


async def test_of_many_changes_to_one_revision_exactly_one_is_written(kit: Kit) -> None:
    stores = await instances(kit)
    for _ in range(10):
        task = await kit.active()
        changes = [kit.change(task, Snooze(delay=60_000 + i)) for i in range(6)]
        outcomes = await asyncio.gather(
            *(store.commit([change]) for store, change in zip(stores * 2, changes, strict=True))
        )
        kinds = Counter(changed.kind for (changed,) in outcomes)
        assert kinds == {ChangeKind.APPLIED: 1, ChangeKind.CONFLICT: 5}
        winner = next(
            i for i, (changed,) in enumerate(outcomes) if changed.kind is ChangeKind.APPLIED
        )
        assert (await kit.there(task.id)).status == changes[winner].after


async def test_of_many_submits_of_one_id_exactly_one_is_stored(kit: Kit) -> None:
    stores = await instances(kit)
    for _ in range(10):
        task = kit.record()
        outcomes = await asyncio.gather(*(store.create([task]) for store in stores * 3))
        kinds = Counter(created.kind for (created,) in outcomes)
        assert kinds == {CreateKind.CREATED: 1, CreateKind.EXISTS: 8}


async def test_of_many_submits_with_one_unique_key_exactly_one_is_stored(kit: Kit) -> None:
    stores = await instances(kit)
    outcomes = await asyncio.gather(
        *(store.create([kit.record(unique_key="u")]) for store in stores * 3)
    )
    kinds = Counter(created.kind for (created,) in outcomes)
    assert kinds == {CreateKind.CREATED: 1, CreateKind.KEY_HELD: 8}


async def test_a_renewal_and_the_timer_cannot_both_win(kit: Kit) -> None:
    stores = await instances(kit)

    async def renew(store: Store, task: Task) -> Verdict:
        renewal = Renewal(task=task.id, run=task.status.run, lease_ms=LEASE_MS)
        (verdict,) = await store.renew([renewal])
        return verdict

    for i in range(20):
        task = await kit.active(lease_ms=1, policy={"on_lost": "stall"})
        await kit.pass_time(2)
        assert task.cell is not None
        lose = kit.change(task, Lose(), seen_lease=task.cell.lease_until)
        racers = [renew(stores[0], task), stores[1].commit([lose])]
        outcomes = await asyncio.gather(*(racers if i % 2 else reversed(racers)))
        verdict, (changed,) = outcomes if i % 2 else reversed(outcomes)
        after = await kit.there(task.id)
        if verdict is Verdict.OK:
            assert changed.kind is ChangeKind.CONFLICT
            assert after.state is State.ACTIVE
        else:
            assert changed.kind is ChangeKind.APPLIED
            assert after.state is State.STALLED


async def test_a_due_timer_is_handed_to_one_taker(kit: Kit) -> None:
    stores = await instances(kit)
    soon = kit.store.now() + 5
    tasks = [kit.record(run_at=soon) for _ in range(30)]
    await kit.create(*tasks)
    await kit.pass_time(10 + kit.store.slack_ms)
    taken: Counter[str] = Counter()

    async def take(store: Store) -> None:
        for partition in range(store.partitions):
            while due := (await store.take_due(partition, 4, 60_000)).tasks:
                taken.update(task.id for task in due)

    async with asyncio.timeout(30):
        await asyncio.gather(*map(take, stores * 2))
    assert taken == Counter(task.id for task in tasks)


async def test_limits_hold_when_many_claim_at_once(kit: Kit) -> None:
    stores = await instances(kit)
    await kit.configure(max_concurrent=4, max_concurrent_per_key=2)
    await kit.create(*[kit.record(key=f"k{i % 3}") for i in range(30)])
    outcomes = await asyncio.gather(*(kit.claim_from(store, 3) for store in stores * 3))
    claimed = [task for tasks in outcomes for task in tasks]
    assert len(claimed) == 4
    assert max(Counter(task.definition.key for task in claimed).values()) <= 2


async def test_a_cancelled_caller_leaves_nothing_half_done(kit: Kit) -> None:
    for _ in range(10):
        task = await kit.active()
        change = kit.change(task, Complete())
        caller = asyncio.ensure_future(kit.store.commit([change]))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)

        async def settled(change=change, task=task) -> bool:
            after = await kit.there(task.id)
            return after.status in (change.after, task.status)

        assert await kit.until(settled)
        assert (await kit.commit(change)).kind is ChangeKind.APPLIED
