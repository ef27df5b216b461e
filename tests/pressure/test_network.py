"""Connections that break, hang, crawl and lose replies between a store and who uses it."""

import asyncio

import pytest
from servers import harm
from servers.proxy import Proxy

from andon.model.words import Event

from .app import LEASE
from .plant import Plant

AWAY_S = 5.0
MOST_TRIES = 40
"""Connections that one process may try in a second of outage: it has a handful of loops, each of
which waits longer and longer."""


async def test_connections_killed_by_the_server_are_made_again(plant: Plant) -> None:
    if not harm.can_disconnect(plant.direct):
        pytest.skip("the server has no such command; the proxy cuts its connections instead")
    workers = await plant.two_workers()
    await plant.submit(100)
    submitting = asyncio.ensure_future(plant.submit(200))
    killed = 0
    for _ in range(10):
        killed += await harm.disconnect(plant.direct)
        await asyncio.sleep(0.2)
    assert killed, "nobody was connected"
    await submitting
    await plant.balanced()
    assert all(worker.is_running for worker in workers)


async def test_connections_cut_again_and_again_are_made_again(plant: Plant, proxy: Proxy) -> None:
    workers = await plant.two_workers()
    submitting = asyncio.ensure_future(plant.submit(300))
    for _ in range(10):
        await asyncio.sleep(0.3)
        proxy.cut()
    await submitting
    await plant.balanced()
    assert all(worker.is_running for worker in workers)


async def test_replies_lost_after_the_write_took_effect_change_nothing(
    plant: Plant, proxy: Proxy
) -> None:
    """Every write may have been made without anybody being told: repeats find that it was."""
    workers = await plant.two_workers()
    proxy.lose_replies(0.05)
    await plant.submit(300)
    while proxy.lost < 5:  # how many replies there are depends on how much travels in each
        await plant.submit(10)
    await plant.ended(0.7)
    proxy.mend()
    await plant.balanced()
    assert all(worker.is_running for worker in workers)


async def test_a_worker_cut_off_past_its_lease_writes_nothing_when_it_is_back(
    plant: Plant, proxy: Proxy
) -> None:
    """Another takes over meanwhile; what the first one sent too late is refused."""
    cut_off = plant.worker()
    held, gate = await plant.hold(10)
    await gate.begun()
    proxy.hold()
    plant.worker(url=plant.direct)
    await asyncio.sleep(LEASE + 0.5)
    gate.open()
    await plant.ended()
    proxy.mend()
    await plant.submit(20)
    tasks = {task.id: task for task in await plant.balanced()}
    assert cut_off.is_running
    assert all(len(tasks[handle.id].status.runs) > 1 for handle in held)


async def test_who_is_refused_a_connection_waits_longer_and_longer(
    plant: Plant, proxy: Proxy
) -> None:
    workers = await plant.two_workers()
    await plant.submit(40)
    await plant.ended(0.5)
    proxy.refuse()
    before = proxy.connections
    with plant.patiently(*workers):
        await asyncio.sleep(AWAY_S)
    tries = proxy.connections - before
    assert tries < MOST_TRIES * AWAY_S * len(workers), f"{tries} connections tried"
    assert tries, "nobody tried to come back"
    proxy.mend()
    await plant.submit(20)
    await plant.balanced()


async def test_a_slow_network_makes_everything_slower_and_no_more(
    plant: Plant, proxy: Proxy
) -> None:
    proxy.delay(0.05)
    plant.worker(lease="30s")
    await plant.submit(100)
    await plant.balanced()
    # Nothing is lost to its lease; what was claimed and not begun may have been given back.
    given_back = plant.ledger.moves[Event.RELEASE.value]
    assert plant.ledger.moves[Event.CLAIM.value] == len(plant.submitted) + given_back
