"""Tasks from Python, many at once: listed, found, acted on; and each as plain data."""

import asyncio
import json

import pytest

from andon import Andon, State
from andon.contract.limits import SCAN_BUDGET
from andon.contract.queries import Query
from andon.errors import ConfigurationError, InvalidTransition
from andon.testing import running, virtual_time


@pytest.fixture
def send(app: Andon):
    @app.task(name="send", max_retries=0)
    async def send(to: str) -> str:
        if to == "nobody":
            raise ValueError("<nobody>")
        return to

    return send


@virtual_time
async def test_a_list_has_the_newest_first_and_no_more_than_asked_for(app: Andon, send):
    async with running(app, worker=False) as t:
        ids: list[str] = []
        for to in "abc":
            ids.append((await send.submit(to)).id)
            await t.advance(seconds=1)
        assert [task.id for task in await app.tasks.list(limit=2)] == ids[:0:-1]
        assert [task.id async for task in app.tasks.find(state="pending")] == ids
        assert await app.tasks.list(limit=0) == []


@virtual_time
async def test_what_waits_for_a_time_is_listed_by_due_time(app: Andon, send):
    async with running(app, worker=False) as t:
        made: dict[int, str] = {}
        for hours in (2, 3, 1):
            made[hours] = (await send.options(delay=hours * 3600).submit("a")).id
            await t.advance(seconds=1)
        by_due = [made[1], made[2], made[3]]
        assert [task.id for task in await app.tasks.list(state="scheduled")] == by_due
        assert [task.id async for task in app.tasks.find(state=("scheduled", "retry"))] == by_due
        newest = await app.tasks.list(state="scheduled", newest_first=True)
        assert [task.id for task in newest] == [made[1], made[3], made[2]]
        found = [task.id async for task in app.tasks.find(state="scheduled", newest_first=False)]
        assert found == [made[2], made[3], made[1]]
        asked = Query(states=(State.SCHEDULED,), due_first=True)
        assert [task.id async for task in app.find(asked)] == by_due
        with pytest.raises(ConfigurationError, match="pending ones cannot be listed by it"):
            await anext(app.find(Query(states=(State.PENDING,), due_first=True)))
        with pytest.raises(ConfigurationError, match="either"):
            await anext(app.find(Query(newest_first=True, due_first=True)))


@virtual_time
async def test_a_list_is_full_though_thousands_that_do_not_fit_stand_between(app: Andon, send):
    async with running(app, worker=False) as t:
        rare = await app.submit("rare", {"to": "x"})
        await t.advance(seconds=1)
        await app.submit_many(send.draft("y") for _ in range(SCAN_BUDGET + 10))
        assert [task.id for task in await app.tasks.list(name="rare")] == [rare.id]


@virtual_time
async def test_filters_select_and_a_state_or_filter_that_is_none_is_refused(app: Andon, send):
    async with running(app) as t:
        await send.submit("nobody")
        await send.submit("ann")
        await t.run_until_idle()
        [failed] = await app.tasks.list(state="failed")
        assert failed.args == {"to": "nobody"}
        assert await app.tasks.list(state=("failed", "completed"), name="other") == []
        with pytest.raises(ConfigurationError, match="faild"):
            await app.tasks.list(state="faild")
        with pytest.raises(TypeError, match="Did you mean 'state'"):
            await app.tasks.list(stat="failed")  # pyright: ignore[reportCallIssue]


@virtual_time
async def test_acts_on_many_refuse_one_and_do_the_others(app: Andon, send):
    async with running(app, worker=False):
        first, last = await send.submit("a"), await send.submit("b")
        await last.cancel()
        await last.delete()
        gone, done = await app.tasks.cancel([last, first.id])
        assert gone.error is not None
        assert (done.state, done.changed) == (State.CANCELLED, True)
        [refused] = await app.tasks.delete([(await send.submit("c")).id])
        assert isinstance(refused.error, InvalidTransition)
        [again] = await app.tasks.rerun([first])
        assert again.state is State.PENDING


@virtual_time
async def test_a_view_is_short_in_words_and_whole_as_data(app: Andon, send):
    async with running(app) as t:
        handle = await send.submit("nobody")
        await t.run_until_idle()
        task = await handle.get()
    assert repr(task) == f"<TaskView {task.id} send: failed (error)>"
    data = json.loads(json.dumps(task.to_dict()))
    assert (data["state"], data["args"], data["error"]["message"]) == (
        "failed",
        {"to": "nobody"},
        "<nobody>",
    )
    assert data["runs"][0]["number"] == 0
    assert "&lt;nobody&gt;" in task._repr_html_()  # pyright: ignore[reportPrivateUsage]


@virtual_time
async def test_the_lease_of_an_active_task_is_in_its_view(app: Andon):
    @app.task(name="wait", lease=20)
    async def wait() -> None:
        await asyncio.sleep(5)

    async with running(app) as t:
        later = await wait.submit_in(60)
        handle = await wait.submit()
        await t.advance(seconds=1)
        assert (await later.get()).lease_until is None
        task = await handle.get()
        assert task.lease_until is not None
        assert task.started_at is not None
        assert (task.lease_until - task.started_at).total_seconds() == 20
