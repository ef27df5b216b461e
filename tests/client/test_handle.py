"""Handles: results, failures, control and watching."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from tests.client.conftest import claim, finish

from andon import Andon, State
from andon.lifecycle.commands import Terminate
from andon.model.errors import (
    InvalidTransition,
    TaskCancelled,
    TaskFailed,
    TaskNotFound,
)
from andon.model.task import TaskError
from andon.testing import running, virtual_time


@dataclass
class Receipt:
    number: int
    at: datetime


@pytest.fixture
def sell(app: Andon):
    @app.task(name="sell")
    async def sell(what: str) -> Receipt:
        raise NotImplementedError

    return sell


@virtual_time
async def test_the_result_has_the_type_that_the_handler_returns(app: Andon, sell):
    receipt = Receipt(7, datetime(2030, 1, 1, tzinfo=UTC))
    async with running(app, worker=False):
        handle = await sell.submit("tea")
        waiting = asyncio.create_task(handle.result())
        await finish(app, receipt)
        assert await waiting == receipt
        assert (await handle.get()).result == receipt
        assert (await app.handle(handle.id, sell).result()) == receipt


@virtual_time
async def test_a_failure_says_how_the_task_ended(app: Andon, sell):
    async with running(app, worker=False):
        handle = await sell.submit("tea")
        await finish(app, command=Terminate(error=TaskError(message="sold out")))
        with pytest.raises(TaskFailed, match="sold out") as failed:
            await handle.result()
    error = failed.value
    assert (error.state, error.reason, error.error) == ("failed", "terminated", "sold out")


@virtual_time
async def test_waiting_for_a_result_ends_with_the_timeout(app: Andon, sell):
    async with running(app, worker=False) as t:
        handle = await sell.submit("tea")
        before = t.now
        with pytest.raises(TimeoutError):
            await handle.result(timeout=90)
        assert (t.now - before).total_seconds() == 90


@virtual_time
async def test_there_is_no_task_of_an_id_never_submitted(app: Andon):
    async with running(app, worker=False):
        with pytest.raises(TaskNotFound):
            await app.handle("nobody").status()
        assert await app.get("nobody") is None


@virtual_time
async def test_a_cancelled_task_raises_an_error_of_its_own(app: Andon, sell):
    async with running(app, worker=False):
        handle = await sell.submit("tea")
        assert await handle.cancel() is State.CANCELLED
        assert await handle.cancel() is State.CANCELLED  # a repeat is fine
        with pytest.raises(TaskCancelled):
            await handle.result()


@virtual_time
async def test_a_running_task_is_asked_to_stop_and_cancelled_at_once_by_force(app: Andon, sell):
    async with running(app, worker=False):
        handle = await sell.submit("tea")
        await claim(await app.engine())
        assert await handle.cancel() is State.ACTIVE
        with pytest.raises(TimeoutError):
            await handle.cancel(wait=5)
        assert await handle.cancel(force=True) is State.CANCELLED


@virtual_time
async def test_a_task_that_ended_otherwise_cannot_be_cancelled(app: Andon, sell):
    async with running(app, worker=False):
        handle = await sell.submit("tea")
        await finish(app, None)
        with pytest.raises(InvalidTransition):
            await handle.cancel()


@virtual_time
async def test_a_rerun_runs_again_what_has_ended(app: Andon, sell):
    async with running(app, worker=False) as t:
        handle = await sell.submit("tea")
        await finish(app, None)
        assert await handle.rerun() is State.PENDING
        await finish(app, None)
        assert await handle.rerun(run_at=t.now.replace(year=2031)) is State.SCHEDULED
        assert await handle.retry() is State.PENDING  # run now
        assert [run.number for run in (await handle.get()).runs] == [0, 1, 2]


@virtual_time
async def test_watching_shows_every_state_until_the_end(app: Andon, sell):
    async with running(app, worker=False) as t:
        handle = await sell.submit("tea")
        seen: list[State] = []

        async def watch() -> None:
            seen.extend([view.state async for view in handle.watch()])

        watching = asyncio.create_task(watch())
        await t.advance(seconds=1)
        engine = await app.engine()
        task = await claim(engine)
        await t.advance(seconds=1)
        await engine.report(task, Terminate(error=TaskError(message="no")))
        await watching
    assert seen == [State.PENDING, State.ACTIVE, State.FAILED]


@virtual_time
async def test_the_history_lists_every_move_with_its_time(app: Andon, sell):
    async with running(app, worker=False) as t:
        handle = await sell.submit("tea")
        await t.advance(seconds=2)
        await handle.cancel()
        first, second = await handle.history()
    assert (first.event, first.source, first.target) == ("submit", None, State.PENDING)
    assert (second.event, second.target) == ("cancel", State.CANCELLED)
    assert (second.at - first.at).total_seconds() == 2


@virtual_time
async def test_a_waiting_task_gets_another_time_or_priority(app: Andon, sell):
    async with running(app, worker=False) as t:
        handle = await sell.submit("tea")
        await handle.reprioritise("high")
        await handle.reschedule(t.now.replace(year=2031))
        task = await handle.get()
    assert (task.state, task.priority) == (State.SCHEDULED, 1)
    assert task.run_at == datetime(2031, 1, 1, tzinfo=UTC)


@virtual_time
async def test_a_task_that_waits_for_itself_is_released_by_hand(app: Andon, sell):
    async with running(app, worker=False):
        handle = await sell.options(id="self", depends_on="self").submit("tea")
        assert await handle.status() is State.BLOCKED
        assert await handle.schedule() is State.PENDING


@virtual_time
async def test_a_finished_record_can_be_removed(app: Andon, sell):
    async with running(app, worker=False):
        handle = await sell.submit("tea")
        await handle.cancel()
        await handle.delete()
        assert await app.get(handle.id) is None


@virtual_time
async def test_finding_goes_through_all_pages(app: Andon, sell):
    from andon.contract.queries import Query

    async with running(app, worker=False):
        await app.submit_many([sell.draft(str(n)) for n in range(25)])
        found = [task.args["what"] async for task in app.find(Query(limit=10))]
    assert found == [str(n) for n in range(25)]


@virtual_time
async def test_under_jobbers_a_task_that_never_ran_stays_visible_to_whoever_waits_for_it():
    """Its page discards what has failed; a dependent whose parent failed has not."""
    app = Andon("memory://", profile="jobbers")

    @app.task(name="fetch", max_retries=0)
    async def fetch() -> None:
        raise ConnectionError("no route")

    async with running(app) as t:
        parent = await app.submit("fetch")
        child = await app.submit("fetch", depends_on=parent)
        late = await app.submit("elsewhere", queue="unserved", deadline_in=60, on_unknown="wait")
        waiting = [asyncio.ensure_future(one.result()) for one in (parent, child, late)]
        await t.advance(minutes=2)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [TaskFailed] * 3
        assert [getattr(end, "state", "") for end in ends] == ["failed", "unreachable", "expired"]
        assert await app.get(parent.id) is None, "discarded, as its page says"
        assert await child.status() is State.UNREACHABLE
        assert await late.status() is State.EXPIRED
        with pytest.raises(TaskFailed) as gone:
            await parent.result()
        assert (gone.value.state, gone.value.error) == ("failed", "no route")
        await t.advance(days=8)
        assert await app.get(child.id) is None
        assert await app.get(late.id) is None
