"""Reports whose outcome is told, for who does not wait: the same outcomes, later than the call."""

import asyncio

import pytest

from andon.lifecycle.commands import Command, Complete, Fail, Interrupted
from andon.model.errors import InvalidTransition, LeaseLost
from andon.model.task import Task, TaskError
from andon.model.words import State

from .conftest import Shop

Outcome = tuple[State | None, BaseException | None]


async def told(shop: Shop, task: Task, command: Command) -> Outcome:
    """What a report is told of."""
    heard: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    shop.engine.report_nowait(task, command, lambda *outcome: heard.set_result(outcome))
    assert not heard.done(), "told before the call returned"
    return await heard


async def test_a_report_is_told_the_state_that_follows(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    assert await told(shop, task, Complete(result=b"1")) == (State.COMPLETED, None)
    assert await shop.state("a") is State.COMPLETED


async def test_reports_made_at_once_are_all_told(shop: Shop) -> None:
    for n in range(30):
        await shop.submit(f"t{n}")
    tasks = await shop.claim(30)
    outcomes = await asyncio.gather(*(told(shop, task, Complete()) for task in tasks))
    assert outcomes == [(State.COMPLETED, None)] * 30


async def test_a_report_of_a_run_that_was_asked_to_stop_meanwhile_is_decided_anew(
    shop: Shop,
) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    await shop.engine.cancel(["a"])
    failed = Fail(error=TaskError(message="x"))
    assert await told(shop, task, failed) == (State.CANCELLED, None)


async def test_a_report_that_only_the_newer_record_allows_is_decided_on_it(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    await shop.engine.cancel(["a"])
    assert await told(shop, task, Interrupted()) == (State.CANCELLED, None)


async def test_a_report_of_a_run_that_is_gone_is_told_so(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    await shop.engine.cancel(["a"], force=True)
    state, error = await told(shop, task, Complete())
    assert state is None
    assert isinstance(error, LeaseLost)


async def test_a_report_that_no_move_allows_is_told_so(shop: Shop) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    state, error = await told(shop, task, Interrupted())
    assert state is None
    assert isinstance(error, InvalidTransition | LeaseLost)
    assert await shop.state("a") is State.ACTIVE


async def test_an_end_that_is_told_lets_dependents_go(shop: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", dependencies=("a",))
    (task,) = await shop.claim()
    await told(shop, task, Complete())
    await shop.told()
    assert await shop.state("b") is State.PENDING


@pytest.mark.parametrize("times", [1, 2])
async def test_a_report_that_is_repeated_is_told_the_same(shop: Shop, times: int) -> None:
    await shop.submit("a")
    (task,) = await shop.claim()
    outcomes = [await told(shop, task, Complete()) for _ in range(1 + times)]
    assert outcomes == [(State.COMPLETED, None)] * (1 + times)
