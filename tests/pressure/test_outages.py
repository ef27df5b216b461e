"""A server that goes away and comes back: nobody has to be restarted, and nothing is lost."""

import asyncio

import pytest
from servers.hurt import Hurtable

from .app import LEASE
from .plant import Plant

AWAY_S = 3.0


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_server_that_comes_back_finds_everybody_at_work(
    plant: Plant, server: Hurtable, how: str
) -> None:
    workers = await plant.two_workers()
    await plant.submit(100)
    await plant.ended(0.2)
    more = asyncio.ensure_future(plant.submit(200))
    await asyncio.sleep(0.05)  # so that some of it is under way; the outcome is the same without
    await asyncio.to_thread(server.stop if how == "stopped" else server.kill)
    with plant.patiently(*workers):
        await asyncio.sleep(AWAY_S)
    server.start()
    await more
    await plant.balanced()
    assert all(worker.is_running for worker in workers)


async def test_a_server_frozen_past_the_lease_finds_everybody_at_work(
    plant: Plant, server: Hurtable
) -> None:
    workers = await plant.two_workers()
    held, gate = await plant.hold(10)
    await plant.submit(100)
    await gate.begun()
    server.pause()
    with plant.patiently(*workers):
        await asyncio.sleep(LEASE + 1.0)
    server.resume()
    gate.open()
    await plant.submit(20)
    await plant.balanced()
    assert all(worker.is_running for worker in workers)
    assert len(held) == 10


async def test_an_outage_shorter_than_the_lease_costs_no_run(
    plant: Plant, server: Hurtable
) -> None:
    plant.worker(lease="20s")
    held, gate = await plant.hold(10, lease=20.0)
    await gate.begun()
    await asyncio.to_thread(server.stop)
    server.start()
    gate.open()
    await plant.balanced()
    assert plant.ledger.moves["claim"] == len(held)


async def test_who_waits_for_a_result_gets_it_though_the_server_was_away(
    plant: Plant, server: Hurtable
) -> None:
    plant.worker()
    [handle], gate = await plant.hold(1)
    await gate.begun()
    waiting = asyncio.ensure_future(handle.result(60))
    await asyncio.sleep(0)
    await asyncio.to_thread(server.stop)
    await asyncio.sleep(AWAY_S)
    server.start()
    gate.open()
    assert await waiting
    await plant.balanced()


async def test_a_worker_told_to_leave_while_the_server_is_away_leaves(
    plant: Plant, server: Hurtable
) -> None:
    worker = plant.worker()
    _, gate = await plant.hold(5)
    await plant.submit(50, pause=0.2)
    await gate.begun()
    await asyncio.to_thread(server.stop)
    worker.terminate()
    # After its grace, one lease for what it could not report, and the answer to its last claim.
    assert await worker.exited() == 0, worker.log
    server.start()
    gate.open()
    plant.worker()
    await plant.balanced()
