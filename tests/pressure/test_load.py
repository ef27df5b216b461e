"""Many at once, and leaving while there is much to do: on every store that processes share."""

import asyncio

from andon.model.words import State

from .plant import Plant

MANY, FEW = 1_500, 40


async def test_many_coroutines_at_once_share_few_connections(any_plant: Plant) -> None:
    """Far more callers than a pool has connections: all are answered, none is refused."""
    plant = any_plant
    handles = [*await plant.submit(200)]

    async def one() -> None:
        handles.extend(await plant.submit(1))

    submits = [one() for _ in range(MANY)]
    reads = [handle.get() for handle in handles for _ in range(3)]
    waits = [asyncio.ensure_future(handle.result(60)) for handle in handles]
    await asyncio.gather(*submits, *reads)
    assert plant.connections() <= FEW
    assert plant.refused == 0
    plant.worker(concurrency=100)
    fences = await asyncio.gather(*waits)
    assert all(fences)
    await plant.balanced()


async def test_a_worker_under_full_load_leaves_within_its_grace(any_plant: Plant) -> None:
    plant = any_plant
    held, gate = await plant.hold(60, shutdown_grace=1.0)
    await plant.submit(400, pause=0.05)
    first = plant.worker(concurrency=50)
    await gate.begun()
    first.terminate()
    # None of those it holds would end by itself: it leaves because their grace is over.
    assert await first.exited() == 0, first.log
    assert {await handle.status() for handle in held} <= {State.PENDING}
    gate.open()
    plant.worker(concurrency=50)
    await plant.balanced()


async def test_a_submitter_faster_than_its_workers_is_slowed_not_refused(any_plant: Plant) -> None:
    plant = any_plant
    plant.worker(concurrency=100)
    plant.worker(concurrency=100)
    await asyncio.gather(*(plant.submit(100, pause=0.0) for _ in range(10)))
    assert plant.refused == 0
    await plant.balanced()
