"""The timer that the runs of one claim share goes when none of them needs it, and not before."""

import asyncio
from collections.abc import Sequence

import pytest
from conformance.kit import Kit

from andon.contract.outcomes import ChangeKind
from andon.lifecycle.commands import Complete, Lose, RequestCancel
from andon.model.policy import Retention
from andon.model.task import Task
from andon.model.words import State
from andon.stores.nats import NatsStore
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import CONFLICT, Write

FOR_EVER = {"retention": Retention(completed=None, failed=None), "dead_letter_retention": None}
"""What becomes of them at their end sets no timer."""


def context_of(kit: Kit) -> StoreContext:
    assert isinstance(kit.store, NatsStore)
    assert kit.store._context is not None
    return kit.store._context


async def timers(kit: Kit) -> int:
    """How many timers stand."""
    records = context_of(kit).records[0]
    found = await records.read_all([records.subjects.of("s", ">"), records.subjects.of("d", ">")])
    return sum(1 for message in found if message.data)


async def claimed(kit: Kit, count: int, **fields: int) -> list[Task]:
    """Tasks of one claim."""
    await kit.submit_many(count, policy=FOR_EVER)
    tasks = await kit.claim(count, **fields)
    assert len(tasks) == count
    return tasks


async def test_the_last_of_a_claim_to_end_takes_the_timer_along(kit: Kit) -> None:
    tasks = await claimed(kit, 5)
    for task in tasks:
        assert await timers(kit) == 1
        await kit.moved(task, Complete())
    assert await timers(kit) == 0


async def test_those_of_a_claim_that_end_together_leave_no_timer(kit: Kit) -> None:
    tasks = await claimed(kit, 5)
    await kit.store.commit([kit.change(task, Complete()) for task in tasks])
    await _swept(kit)
    assert await timers(kit) == 0


async def test_a_timer_that_is_spent_goes_with_the_next_write(kit: Kit) -> None:
    first, others = await claimed(kit, 3), await claimed(kit, 3)
    await kit.store.commit([kit.change(task, Complete()) for task in first])
    assert await timers(kit) == 2
    await kit.moved(others[0], Complete())
    assert await timers(kit) == 1


async def test_a_timer_stays_while_one_run_of_its_claim_goes_on(kit: Kit) -> None:
    """And the lease of that one, once lost, is noticed."""
    *ended, lost = await claimed(kit, 5, lease_ms=1_500)
    await kit.store.commit([kit.change(task, Complete()) for task in ended])
    for _ in range(3):
        await context_of(kit).timers[0].sweep()
    due = await kit.due(lost.id)
    assert due.status.run == lost.status.run
    await kit.moved(due, Lose())
    assert await kit.state(lost.id) is State.RETRY


async def test_a_timer_stays_when_the_write_that_was_to_take_it_along_is_refused(kit: Kit) -> None:
    first, second = await claimed(kit, 2, lease_ms=1_500)
    await kit.moved(first, Complete())
    other = await kit.again()
    outcomes = await other.commit([kit.change(second, RequestCancel())])
    assert [outcome.kind for outcome in outcomes] == [ChangeKind.APPLIED]
    assert (await kit.try_move(second, Complete())).kind is ChangeKind.CONFLICT
    assert (await kit.due(second.id)).status.run == second.status.run


async def test_a_timer_stays_while_nobody_knows_whether_the_ends_were_written(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two ends is refused, the second written: the first run goes on."""
    tasks = await claimed(kit, 2, lease_ms=1_500)
    js = context_of(kit).js
    plain = js.write

    async def half(stream: str, writes: Sequence[Write], **options: bool) -> list[int]:
        ends = [write for write in writes if write[0].endswith(".r")]
        if len(ends) < 2:
            return await plain(stream, writes, **options)
        monkeypatch.setattr(js, "write", plain)
        (seq,) = await plain(stream, writes[1:], **options)
        raise _Died([CONFLICT, seq])

    monkeypatch.setattr(js, "write", half)
    with pytest.raises(_Died):
        await kit.store.commit([kit.change(task, Complete()) for task in tasks])
    for _ in range(3):
        await context_of(kit).timers[0].sweep()
    assert (await kit.due(tasks[0].id)).status.run == tasks[0].status.run


async def test_what_is_remembered_of_timers_is_forgotten_when_runs_end(kit: Kit) -> None:
    for _ in range(10):
        tasks = await claimed(kit, 20)
        await kit.store.commit([kit.change(task, Complete()) for task in tasks])
    await _swept(kit)
    assert len(context_of(kit).timers[0].shared) == 0


class _Died(Exception):
    """The process ended in the middle of a commit."""


async def _swept(kit: Kit) -> None:
    """What a timekeeper does at its next looks."""
    for _ in range(3):
        await kit.take_due()
    await asyncio.sleep(0)
