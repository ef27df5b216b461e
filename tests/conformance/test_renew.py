"""Renewing: a sign of life of one run, that touches its cell only."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.lifecycle.commands import Complete, Fail, RequestCancel
from andon.model.task import TaskError
from andon.model.words import State

from .kit import LEASE_MS, Kit


async def test_a_renewal_extends_the_lease(kit: Kit) -> None:
    task = await kit.active(lease_ms=1_000)
    assert await kit.renew(task) is Verdict.OK
    cell = (await kit.there(task.id)).cell
    assert cell is not None
    assert cell.lease_until > kit.store.now() + LEASE_MS - 5_000


async def test_a_renewal_makes_no_move(kit: Kit) -> None:
    task = await kit.active()
    end = await kit.store.events_end()
    await kit.renew(task, heartbeat=True, progress=50, message="half")
    assert (await kit.there(task.id)).status == task.status
    assert (await kit.read_events(end)).events == ()


async def test_progress_and_message_are_kept_until_the_next(kit: Kit) -> None:
    task = await kit.active()
    await kit.renew(task, progress=50, message="half")
    await kit.renew(task)
    cell = (await kit.there(task.id)).cell
    assert cell is not None
    assert (cell.progress, cell.message) == (50, "half")


async def test_only_the_handlers_own_sign_is_a_heartbeat(kit: Kit) -> None:
    task = await kit.active()
    assert task.cell is not None
    await kit.pass_time(5)
    await kit.renew(task)
    silent = await kit.there(task.id)
    assert silent.cell is not None
    assert silent.cell.heartbeat_at == task.cell.heartbeat_at
    await kit.renew(task, heartbeat=True)
    heard = await kit.there(task.id)
    assert heard.cell is not None
    assert heard.cell.heartbeat_at > task.cell.heartbeat_at


async def test_a_run_that_has_ended_is_told_that_it_lost(kit: Kit) -> None:
    task = await kit.active()
    await kit.move(task, Complete())
    assert await kit.renew(task) is Verdict.LOST


async def test_an_earlier_run_cannot_renew_the_lease_of_a_later_one(kit: Kit) -> None:
    old = await kit.active(policy={"retry_delay": None})
    await kit.move(old, Fail(error=TaskError(message="no")))
    (new,) = await kit.claim()
    assert await kit.renew(old, progress=90) is Verdict.LOST
    assert (await kit.there(new.id)).cell == new.cell


async def test_an_unknown_task_and_an_unclaimed_one_are_lost(kit: Kit) -> None:
    task = await kit.submit()
    assert await kit.renew(task, run="r") is Verdict.LOST
    assert await kit.renew(task, run="") is Verdict.LOST
    assert await kit.renew(kit.record(), run="r") is Verdict.LOST


async def test_a_lease_that_ran_out_but_was_not_collected_may_be_renewed(kit: Kit) -> None:
    task = await kit.active(lease_ms=5)
    await kit.pass_time(20)
    assert await kit.renew(task) is Verdict.OK


async def test_a_run_that_is_asked_to_stop_is_told_so_and_keeps_its_lease(kit: Kit) -> None:
    task = await kit.active(lease_ms=1_000)
    await kit.move(task, RequestCancel())
    assert await kit.renew(task) is Verdict.CANCEL
    cell = (await kit.there(task.id)).cell
    assert cell is not None
    assert cell.lease_until > kit.store.now() + 5_000


async def test_verdicts_come_in_the_order_of_the_renewals(kit: Kit) -> None:
    one, two = await kit.active(), await kit.active()
    await kit.move(one, Complete())
    verdicts = await kit.store.renew(
        [Renewal(task=t.id, run=t.status.run, lease_ms=LEASE_MS) for t in (one, two)]
    )
    assert verdicts == [Verdict.LOST, Verdict.OK]


async def test_a_run_is_renewed_from_another_thread(kit: Kit) -> None:
    task = await kit.active(lease_ms=1_000)
    renewal = Renewal(task=task.id, run=task.status.run, lease_ms=LEASE_MS, progress=7)
    (verdict,) = await asyncio.to_thread(kit.store.renew_blocking, [renewal])
    assert verdict is Verdict.OK
    cell = (await kit.there(task.id)).cell
    assert cell is not None
    assert cell.progress == 7


async def test_a_renewal_from_a_thread_does_not_need_the_loop(kit: Kit) -> None:
    task = await kit.active(lease_ms=1_000)
    renewal = Renewal(task=task.id, run=task.status.run, lease_ms=LEASE_MS)
    with ThreadPoolExecutor(1) as threads:
        # result() blocks the loop, as a handler may
        assert threads.submit(kit.store.renew_blocking, [renewal]).result(10) == [Verdict.OK]


async def test_a_renewal_never_undoes_a_move_made_at_the_same_time(kit: Kit) -> None:
    for _ in range(100):
        task = await kit.active()
        renewal = Renewal(task=task.id, run=task.status.run, lease_ms=LEASE_MS, progress=5)
        renewing = asyncio.get_running_loop().run_in_executor(
            None, kit.store.renew_blocking, [renewal]
        )
        await kit.move(task, Complete())
        assert (await renewing) in ([Verdict.OK], [Verdict.LOST])
        after = await kit.there(task.id)
        assert (after.state, after.cell) == (State.COMPLETED, None)
