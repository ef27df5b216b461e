"""Schedules declared in code and made from Python, in virtual time."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from andon import Andon, Schedule, State
from andon.errors import ConfigurationError, InvalidSubmission, TaskNotFound
from andon.testing import running, virtual_time


def shop(**options: Any) -> tuple[Andon, list[datetime | int]]:
    app = Andon("memory://", name="shop", **options)
    return app, []


@virtual_time
async def test_declared_schedules_are_put_when_a_worker_starts_and_run() -> None:
    app, ran = shop()

    @app.task(name="shop.tidy", every=300)
    async def tidy() -> None:
        ran.append(0)

    @app.task(
        name="count",
        schedules=[
            Schedule("count-up", every=60, args=[1]),
            Schedule("count-down", cron=["@hourly", "30 * * * *"], kwargs={"by": -1}),
        ],
    )
    async def count(by: int) -> None:
        ran.append(by)

    async with running(app) as t:
        await t.advance(hours=1)
        await t.run_until_idle()
        assert [ran.count(n) for n in (0, 1, -1)] == [12, 60, 2]
        listed = await app.schedules.list()
        assert [s.name for s in listed] == ["count-down", "count-up", "shop-tidy"]
        assert {s.application for s in listed} == {"shop"}
        assert all(s.release.startswith("modified:") for s in listed)
        assert "shop-tidy" not in [task.id for task in await app.tasks.list(limit=500)]
        [found] = await app.tasks.list(state="recurring", name="shop.tidy")
        assert found.id == "shop-tidy"


@virtual_time
async def test_a_nightly_task_runs_once_a_night_through_both_changes_of_the_clocks() -> None:
    app, _ = shop()

    @app.task(name="night")
    async def night() -> None: ...

    borne: list[str] = []
    for day in (datetime(2030, 3, 29, tzinfo=UTC), datetime(2030, 10, 26, tzinfo=UTC)):
        async with running(app, worker=False) as t:
            night_of = night.draft()
            await app.schedules.add(
                "night", night_of, cron="30 2 * * *", tz="Europe/Berlin", start=day
            )
            times = await app.schedules.next("night", count=3)
            assert [bool(time.notes) for time in times].count(True) == 1
            await asyncio.sleep((day - t.now).total_seconds())
            for _ in range(3):
                await t.advance(days=1)
            assert [s.fired for s in await app.schedules.list()] == [3]
            borne += [task.id for task in await t.submitted("night") if task.id != "night"]
    assert borne == [
        "night:20300329T013000Z",
        "night:20300330T013000Z",
        "night:20300331T010000Z",  # 02:30 is not shown: it fires when the leap ends
        "night:20301026T003000Z",
        "night:20301027T003000Z",  # 02:30 is shown twice: it fires the first time
        "night:20301028T013000Z",
    ]


@virtual_time
async def test_schedules_made_by_hand_are_edited_paused_run_and_deleted() -> None:
    app, ran = shop()

    @app.task(name="job")
    async def job(n: int) -> int:
        ran.append(n)
        return n

    async with running(app) as t:
        schedules = app.schedules
        await schedules.add("s", job.options(tags=["t"], max_retries=7).draft(5), every=3600)
        with pytest.raises(InvalidSubmission, match="already"):
            await schedules.add("s", job.draft(6), every=60)
        edited = await schedules.edit("s", cron="0 6 * * *", tz="Asia/Tokyo", overlap="skip")
        assert (edited.recurrence.every, edited.recurrence.cron) == (None, ("0 6 * * *",))
        assert edited.args == b'{"n":5}'
        [first] = await schedules.next("s", count=1)
        assert edited.next_due == datetime.fromtimestamp(first.occurrence.due / 1000, UTC)
        handle = app.handle(await schedules.run("s"))
        assert await handle.result(timeout=60) == 5
        task = await t.task(handle.id)
        assert (task.tags, task.policy.max_retries) == (("t",), 7)
        assert (await schedules.pause("s")).paused
        await t.advance(days=2)
        assert ran == [5]
        assert (await schedules.resume("s")).fired == 0
        await t.advance(days=1)
        assert ran == [5, 5]
        await schedules.delete("s")
        assert await schedules.get("s") is None
        with pytest.raises(TaskNotFound):
            await schedules.pause("s")


def test_a_declaration_that_cannot_be_is_refused_where_it_stands() -> None:
    app, _ = shop()

    async def job() -> None: ...

    for options, sentence in (
        ({"cron": "0 25 * * *"}, "25"),
        ({"every": 0}, "every"),
        ({"cron": "@daily", "every": 60}, "not both"),
        ({"tz": "Mars/Base", "cron": "@daily"}, "Mars/Base"),
        ({"schedules": [Schedule("a", every=1), Schedule("a", every=2)]}, "two schedules"),
        ({"schedules": [Schedule(every=1)], "name": "x" * 60}, "1 to 47"),
    ):
        given: dict[str, Any] = {"name": "job", **options}
        with pytest.raises(ConfigurationError, match=sentence):
            app.task(**given)(job)
    assert not app.declared_schedules
    app.task(name="one", every=60)(job)
    with pytest.raises(ConfigurationError, match="another schedule 'one'"):
        app.task(name="two", schedules=[Schedule("one", every=5)])(job)
    never: Any = "never"
    with pytest.raises(ConfigurationError, match="overlap is one of allow, skip, queue, replace"):
        Schedule("s", every=1, overlap=never)


@virtual_time
async def test_what_is_left_of_the_code_is_declared_and_the_rest_pruned() -> None:
    app, _ = shop(release="1")
    newer, _ = shop(release="2")

    async def job(what: str = "") -> None: ...

    app.task(name="job", schedules=[Schedule("kept", every=60), Schedule("gone", every=60)])(job)
    newer.task(name="job", schedules=[Schedule("kept", every=30)])(job)
    async with running(app, worker=False) as t:
        put_back = newer.connections.use(t.engine)
        assert {o.result for o in await app.schedules.declare()} == {"created"}
        assert [o.result for o in await newer.schedules.declare()] == ["revised"]
        assert [o.result for o in await app.schedules.declare()] == ["older", "unchanged"]
        assert [one.id for one in await newer.schedules.prune()] == ["gone"]
        assert (await newer.schedules.list())[0].state is State.RECURRING
        put_back()
