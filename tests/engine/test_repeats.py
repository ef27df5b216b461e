"""Exact repeats of a report are answered like the first; any other is refused and changes nothing
(docs/rulings.md, R33), as long as the record lives and, within the submit window, after."""

from typing import Any

import pytest

from andon.engine.runs import Mark
from andon.lifecycle.commands import (
    Cancel,
    Command,
    Complete,
    Delete,
    Fail,
    Interrupted,
    Reject,
    Release,
    RequestCancel,
    Snooze,
    Terminate,
    UnknownTask,
)
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.model.errors import LeaseLost
from andon.model.task import Task, TaskError
from andon.model.words import Reason, State

from .conftest import Shop

ERROR = TaskError(message="it broke", code="BROKEN", traceback="line 1")
OTHER = TaskError(message="it broke", code="BROKEN", traceback="line 2")

REPORTS: list[tuple[Command, list[Command]]] = [
    (Complete(result=b"1"), [Complete(result=b"2"), Complete(), Fail(error=ERROR)]),
    (Complete(), [Complete(result=b""), Complete(result=b"null")]),
    (Fail(error=ERROR), [Fail(error=OTHER), Fail(error=ERROR, reason=Reason.TIMEOUT)]),
    (Fail(error=ERROR, retryable=False), [Terminate(error=ERROR), Complete()]),
    (Terminate(error=ERROR), [Terminate(error=OTHER), Reject(error=ERROR)]),
    (Reject(error=ERROR), [Reject(error=ERROR, reason=Reason.RESULT_INVALID)]),
    (UnknownTask(), [Release()]),
    (Snooze(delay=5_000), [Release(), Complete()]),
    (Release(), [Snooze(delay=0), Complete()]),
]


async def again(shop: Shop, task: Task, command: Command, *, by_ids: bool) -> Any:
    """The report once more, by the worker that holds the record or as a service makes it."""
    if not by_ids:
        return await shop.engine.report(task, command)
    [current] = await shop.engine.get([task.id])
    run = task.status.run
    return (await shop.engine.report_run(task.id, run, current, command, Mark())).state


@pytest.mark.parametrize("by_ids", [False, True], ids=["worker", "service"])
@pytest.mark.parametrize(("first", "others"), REPORTS)
async def test_the_same_report_is_answered_the_same_and_another_is_refused(
    shop: Shop, first: Command, others: list[Command], by_ids: bool
) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    answer = await shop.engine.report(task, first)
    for command in others:
        before = await shop.task("a")
        with pytest.raises(LeaseLost):
            await again(shop, task, command, by_ids=by_ids)
        assert await shop.task("a") == before
    assert await again(shop, task, first, by_ids=by_ids) is answer


async def test_a_repeat_is_answered_like_the_first_when_the_task_has_moved_on(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": 5})
    (task,) = await shop.claim()
    assert await shop.engine.report(task, Fail(error=ERROR)) is State.RETRY
    await shop.later(6)
    (second,) = await shop.claim()
    assert await shop.engine.report(task, Fail(error=ERROR)) is State.RETRY
    with pytest.raises(LeaseLost):
        await shop.engine.report(task, Complete())
    assert await shop.engine.report(second, Complete()) is State.COMPLETED


async def test_what_was_reported_counts_not_what_was_decided(shop: Shop) -> None:
    """After a cancel request a failure ends cancelled (docs/rulings.md, R7); it was a failure that
    was reported."""
    await shop.submit("a")
    (task,) = await shop.claim()
    await shop.engine.act(["a"], RequestCancel())
    assert await shop.engine.report(task, Fail(error=ERROR)) is State.CANCELLED
    assert await shop.engine.report(task, Fail(error=ERROR)) is State.CANCELLED
    with pytest.raises(LeaseLost):
        await shop.engine.report(task, Interrupted())


async def test_nothing_repeats_what_was_done_to_the_run_by_others(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": None})
    (lost,) = await shop.claim()
    await shop.later(31)
    await shop.submit("b")
    tasks = {task.id: task for task in await shop.claim(2)}
    await shop.engine.act(["b"], Cancel(force=True))
    for task in (lost, tasks["b"]):
        for command in (Complete(), Interrupted(), Fail(error=ERROR)):
            with pytest.raises(LeaseLost):
                await shop.engine.report(task, command)


@pytest.mark.parametrize("by_ids", [False, True], ids=["worker", "service"])
@pytest.mark.parametrize("how", ["discarded", "deleted"])
async def test_a_repeat_after_the_record_has_gone_is_answered_within_the_window(
    shop: Shop, how: str, by_ids: bool
) -> None:
    states = ("completed",) if how == "discarded" else ()
    await shop.submit("a", options={"discard_states": states})
    (task,) = await shop.claim()
    await shop.engine.report(task, Complete(result=b"1"))
    if how == "deleted":
        await shop.engine.act(["a"], Delete())
    assert await shop.state("a") is None
    assert await again(shop, task, Complete(result=b"1"), by_ids=by_ids) is None
    for command in (Complete(result=b"2"), Complete(), Fail(error=ERROR)):
        with pytest.raises(LeaseLost):
            await again(shop, task, command, by_ids=by_ids)
    shop.clock.ms += SUBMIT_WINDOW_MS
    with pytest.raises(LeaseLost):
        await again(shop, task, Complete(result=b"1"), by_ids=by_ids)


async def test_only_the_last_run_of_what_is_gone_is_known(shop: Shop) -> None:
    await shop.submit("a", options={"retry_delay": None, "discard_states": ("completed",)})
    (first,) = await shop.claim()
    await shop.engine.report(first, Fail(error=ERROR))
    (second,) = await shop.claim()
    assert await shop.engine.report(second, Complete()) is None
    assert await shop.engine.report(second, Complete()) is None
    with pytest.raises(LeaseLost):
        await shop.engine.report(first, Fail(error=ERROR))
    with pytest.raises(LeaseLost):
        await shop.engine.report(first, Complete())
