"""What waiting costs: the record is read when its topic is hinted, and of the event log nothing but
what tells of tasks that went with their end."""

import asyncio
import logging
from typing import Any

import pytest

from andon.contract.limits import MAX_BATCH
from andon.contract.topics import Listener
from andon.engine import ends
from andon.lifecycle.commands import Complete, Delete, Fail
from andon.model.errors import TaskNotFound
from andon.model.task import TaskError
from andon.model.words import State

from .conftest import Shop
from .faulty import Faulty

DISCARDED = {"discard_states": ("completed", "failed")}


@pytest.fixture
def soon(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow poll is quick."""
    monkeypatch.setattr(shop.engine._watching, "_poll_s", 0.05)
    monkeypatch.setattr(ends, "SLOW_POLL_S", 0.05)


@pytest.fixture
def unhinted(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints of tasks are lost."""
    real = faulty.real.listen

    def deaf(topics: Any) -> Listener:
        of_tasks = ("task:", "run:")
        return real([t if not t.startswith(of_tasks) else "control:nobody" for t in topics])

    monkeypatch.setattr(faulty.real, "listen", deaf)


async def waits(shop: Shop, ids: list[str]) -> list["asyncio.Task[Any]"]:
    """Waiters that have all read their task once."""
    waiting = [asyncio.ensure_future(shop.engine.wait_end(task_id)) for task_id in ids]
    watchers = shop.engine._watching
    async with asyncio.timeout(30):
        while watchers._polling is None or len(watchers._waiters) < len(ids):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
        while watchers._reads.waiting or watchers._reads._running:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    return waiting


async def test_a_result_costs_a_few_reads_of_the_record_and_none_of_the_log(
    shop: Shop, faulty: Faulty
) -> None:
    for n in range(20):
        await shop.submit(f"foreign{n}")
    await shop.submit("a", priority=5)
    [waiting] = await waits(shop, ["a"])
    faulty.calls.clear()
    tasks = await shop.claim(21)
    for task in tasks:
        await shop.engine.report(task, Complete(result=b"1"))
    ended = await waiting
    assert (ended.state, ended.result) == (State.COMPLETED, b"1")
    assert faulty.calls["get"] == 1, "neither its claim nor what others do wakes anybody"
    assert faulty.calls["events"] == faulty.calls["events_end"] == 0


async def test_who_comes_late_reads_the_record_once(shop: Shop, faulty: Faulty) -> None:
    await shop.submit("a")
    await shop.run()
    faulty.calls.clear()
    assert (await shop.engine.wait_end("a")).state is State.COMPLETED
    assert faulty.calls == {"get": 1}


@pytest.mark.usefixtures("soon", "unhinted")
async def test_when_hints_are_lost_all_who_wait_share_the_poll(shop: Shop, faulty: Faulty) -> None:
    ids = [f"t{n:04}" for n in range(3 * MAX_BATCH)]
    await shop.engine.submit([shop.submission(i) for i in ids])
    waiting = await waits(shop, ids)
    for task in await shop.claim(len(ids)):
        await shop.engine.report(task, Complete())
    polls = faulty.calls["get"]
    done = await asyncio.gather(*waiting)
    asked = [len(some) for name, some in faulty.order if name == "get"]
    assert max(asked) <= MAX_BATCH
    assert {task.state for task in done} == {State.COMPLETED}
    assert faulty.calls["get"] - polls <= 2 * 3 + 1
    assert faulty.calls["events"] == 0


@pytest.mark.usefixtures("soon", "unhinted")
@pytest.mark.parametrize("bad", ["t0", "t2", "t4"])
async def test_a_record_that_cannot_be_read_keeps_nobody_else_waiting(
    shop: Shop, faulty: Faulty, caplog: pytest.LogCaptureFixture, bad: str
) -> None:
    ids = [f"t{n}" for n in range(5)]
    for task_id in ids:
        await shop.submit(task_id)
    waiting = dict(zip(ids, await waits(shop, ids), strict=True))
    caplog.set_level(logging.ERROR)
    faulty.bad, faulty.fails = {bad}, {"get": RuntimeError("a defect")}
    for task in await shop.claim(5):
        await shop.engine.report(task, Complete())
    others = [waiting[i] for i in ids if i != bad]
    assert {task.state for task in await asyncio.gather(*others)} == {State.COMPLETED}
    # Found by the poll, which names it and goes on; or by a hint, as when a connection begins to
    # listen, and then the one who waits for it is told.
    own = waiting[bad]
    if own.done():
        assert isinstance(own.exception(), RuntimeError)
    else:
        assert any(bad in record.getMessage() for record in caplog.records)
        own.cancel()


@pytest.mark.usefixtures("soon", "unhinted")
async def test_the_poll_goes_on_after_whatever_it_met(shop: Shop, faulty: Faulty) -> None:
    await shop.submit("a")
    [waiting] = await waits(shop, ["a"])
    faulty.broken = {"get": RuntimeError("a defect")}  # before it ends: the poll may be at once
    before = faulty.calls["get"]
    await shop.run()
    async with asyncio.timeout(30):
        while faulty.calls["get"] < before + 1:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    faulty.broken = {}
    shop.engine._watching._culprits.succeeded("a")
    assert (await waiting).state is State.COMPLETED


async def test_of_many_that_are_discarded_each_page_of_the_log_is_read_once(
    shop: Shop, faulty: Faulty
) -> None:
    ids = [f"t{n:03}" for n in range(100)]
    for task_id in ids:
        await shop.submit(task_id, options=DISCARDED)
    waiting = await waits(shop, ids)
    faulty.calls.clear()
    for task in await shop.claim(100):
        await shop.engine.report(task, Complete(result=task.id.encode()))
    done = await asyncio.gather(*waiting)
    assert [task.result for task in done] == [task_id.encode() for task_id in ids]
    assert faulty.calls["events"] <= 100, "once for all of those whose ends it tells"


async def test_a_failure_that_is_discarded_is_told_with_its_error(shop: Shop) -> None:
    await shop.submit("a", options=DISCARDED)
    watching = shop.engine.watch("a")
    assert (await anext(watching)).state is State.PENDING
    await shop.run(Fail(error=TaskError(message="it broke"), retryable=False))
    last = [task async for task in watching][-1]
    assert last.state is State.FAILED
    assert last.status.last_error == TaskError(message="it broke")


async def test_who_comes_after_a_discarded_task_gets_its_result(shop: Shop, faulty: Faulty) -> None:
    await shop.submit("a", options=DISCARDED)
    await shop.run()
    faulty.calls.clear()
    ended = await shop.engine.wait_end("a", 30)
    assert (ended.id, ended.state, ended.result) == ("a", State.COMPLETED, b"1")
    assert faulty.calls == {"get": 1, "discarded": 1}


async def test_who_comes_after_a_discarded_failure_gets_its_error(shop: Shop) -> None:
    await shop.submit("a", options=DISCARDED)
    await shop.run(Fail(error=TaskError(message="it broke"), retryable=False))
    ended = await shop.engine.wait_end("a", 30)
    assert (ended.state, ended.status.last_error) == (State.FAILED, TaskError(message="it broke"))
    assert ended.status.reason is not None


async def test_many_who_come_late_share_their_lookups(shop: Shop, faulty: Faulty) -> None:
    ids = [f"t{n:03}" for n in range(100)]
    for task_id in ids:
        await shop.submit(task_id, options=DISCARDED)
    for task in await shop.claim(100):
        await shop.engine.report(task, Complete(result=task.id.encode()))
    faulty.calls.clear()
    done = await asyncio.gather(*(shop.engine.wait_end(task_id, 60) for task_id in ids))
    assert [task.result for task in done] == [task_id.encode() for task_id in ids]
    assert faulty.calls["discarded"] <= 10
    assert faulty.calls["tombstones"] == faulty.calls["events"] == 0


async def test_an_end_between_the_look_and_the_place_in_the_log_is_not_missed(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task ends, and goes, just as somebody begins to wait for it."""
    await shop.submit("a", options=DISCARDED)
    events_end = faulty.real.events_end

    async def ends_meanwhile() -> str:
        if await shop.state("a") is State.PENDING:
            await shop.run()
        return await events_end()

    monkeypatch.setattr(faulty.real, "events_end", ends_meanwhile)
    ended = await shop.engine.wait_end("a", 60)
    assert (ended.state, ended.result) == (State.COMPLETED, b"1")
    assert ended.definition.name == "job", "it was read before it went"


async def test_beyond_the_submit_window_the_error_says_why(shop: Shop) -> None:
    await shop.submit("a", options=DISCARDED)
    await shop.run()
    await shop.later(601)
    with pytest.raises(TaskNotFound, match="tells how it ended for 10 minutes"):
        await shop.engine.wait_end("a", 30)


async def test_what_was_deleted_by_hand_says_how_it_had_ended(shop: Shop) -> None:
    await shop.submit("a")
    await shop.run()
    await shop.engine.act(["a"], Delete())
    with pytest.raises(TaskNotFound, match="It ended completed; its record was deleted since"):
        await shop.engine.wait_end("a", 30)


async def test_a_submit_that_nobody_waits_on_asks_for_nothing_more(
    shop: Shop, faulty: Faulty
) -> None:
    await shop.submit("warm", options=DISCARDED)
    await shop.run()
    faulty.calls.clear()
    await shop.submit("a", options=DISCARDED)
    await shop.run()
    assert faulty.calls["create"] == faulty.calls["claim"] == faulty.calls["commit"] == 1
    waits = ("get", "events", "events_end", "tombstones", "discarded", "listen")
    assert {name: faulty.calls[name] for name in waits} == dict.fromkeys(waits, 0)


async def test_following_goes_on_after_whatever_a_page_met(
    shop: Shop, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = shop.engine.follow("")
    await shop.submit("a")
    assert (await anext(following)).task == "a"
    faulty.broken = {"events": RuntimeError("a defect")}
    await shop.submit("b")
    coming = asyncio.ensure_future(anext(following))
    before = faulty.calls["events"]
    async with asyncio.timeout(30):
        while faulty.calls["events"] == before:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    faulty.broken = {}
    assert (await coming).task == "b"
    await following.aclose()  # pyright: ignore[reportAttributeAccessIssue]
