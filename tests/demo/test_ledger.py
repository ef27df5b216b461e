"""The ledger finds what does not add up."""

import asyncio

from andon import Andon
from andon.demo.ledger import Ledger, _Log, read_ledger
from andon.engine.base import Engine
from andon.model.task import TaskEvent
from andon.model.words import Event, State


async def ledger_of(engine: Engine, *expected: str) -> Ledger:
    return await read_ledger(engine, prefix="r", queue="q", cursor="", expected=expected)


def test_a_task_that_has_not_ended_is_a_problem() -> None:
    async def main() -> Ledger:
        async with Andon("memory://") as app:
            await app.submit("t", id="r-1", queue="q")
            return await ledger_of(await app.engine(), "r-1")

    ledger = asyncio.run(main())
    assert not ledger.balances
    assert (ledger.submitted, ledger.unfinished) == (1, 1)
    assert "1 tasks have not ended." in ledger.problems


def test_a_task_missing_and_one_too_many_are_problems() -> None:
    async def main() -> Ledger:
        async with Andon("memory://") as app:
            await (await app.submit("t", id="r-1", queue="q")).cancel()
            return await ledger_of(await app.engine(), "r-2")

    assert asyncio.run(main()).problems == (
        "1 tasks are missing, the first is r-2.",
        "1 tasks were not expected, the first is r-1.",
    )


def test_other_rounds_in_the_same_store_do_not_count() -> None:
    async def main() -> Ledger:
        async with Andon("memory://") as app:
            await (await app.submit("t", id="r-1", queue="q")).cancel()
            await app.submit("t", id="other-1", queue="another")
            return await ledger_of(await app.engine(), "r-1")

    ledger = asyncio.run(main())
    assert ledger.balances
    assert ledger.states == {"cancelled": 1}


def test_a_run_resolved_twice_is_a_problem() -> None:
    log = _Log()
    for event in (
        TaskEvent(1, 1, Event.SUBMIT, None, State.PENDING, run=0, task="r-1"),
        TaskEvent(2, 2, Event.CLAIM, State.PENDING, State.ACTIVE, run=0, task="r-1"),
        TaskEvent(3, 3, Event.COMPLETE, State.ACTIVE, State.COMPLETED, run=0, task="r-1"),
        TaskEvent(4, 4, Event.COMPLETE, State.ACTIVE, State.COMPLETED, run=0, task="r-1"),
    ):
        log.add(event)
    log.check()
    assert any("follows the state completed" in problem for problem in log.problems)
    assert "Run 0 of task r-1 was resolved 2 times." in log.problems


def test_a_task_that_has_ended_twice_is_a_problem() -> None:
    log = _Log()
    for event in (
        TaskEvent(1, 1, Event.SUBMIT, None, State.PENDING, run=0, task="r-1"),
        TaskEvent(2, 2, Event.CANCEL, State.PENDING, State.CANCELLED, task="r-1"),
        TaskEvent(3, 3, Event.RERUN, State.CANCELLED, State.PENDING, run=1, task="r-1"),
        TaskEvent(4, 4, Event.CANCEL, State.PENDING, State.CANCELLED, task="r-1"),
    ):
        log.add(event)
    log.check()
    assert log.problems == ["Task r-1 has ended 2 times."]


def test_a_move_that_is_not_in_the_table_is_a_problem() -> None:
    log = _Log()
    log.add(TaskEvent(1, 1, Event.SUBMIT, None, State.COMPLETED, task="r-1"))
    assert any("is not in the table of moves" in problem for problem in log.problems)


def test_a_run_handed_back_is_resolved_once() -> None:
    log = _Log()
    for event in (
        TaskEvent(1, 1, Event.SUBMIT, None, State.PENDING, run=0, task="r-1"),
        TaskEvent(2, 2, Event.CLAIM, State.PENDING, State.ACTIVE, run=0, task="r-1"),
        TaskEvent(3, 3, Event.RELEASE, State.ACTIVE, State.PENDING, run=1, task="r-1"),
        TaskEvent(4, 4, Event.CLAIM, State.PENDING, State.ACTIVE, run=1, task="r-1"),
        TaskEvent(5, 5, Event.COMPLETE, State.ACTIVE, State.COMPLETED, run=1, task="r-1"),
    ):
        log.add(event)
    log.check()
    assert log.problems == []
