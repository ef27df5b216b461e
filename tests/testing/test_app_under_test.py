"""An application under test: its worker and its timers run, and time is the test's to pass."""

import asyncio
import logging
import threading
import time

import pytest

from andon import Andon, Context, Snooze, State
from andon.model.errors import TaskFailed
from andon.testing import StillRunning, running, virtual_time


@virtual_time
async def test_a_task_runs_and_gives_its_result():
    app = Andon("memory://")

    @app.task
    async def double(x: int) -> int:
        return 2 * x

    async with running(app):
        assert await (await double.submit(21)).result() == 42


@virtual_time
async def test_a_retry_waits_for_its_delay_and_no_longer():
    app = Andon("memory://")
    tries: list[float] = []

    @app.task(retry_delay=60, backoff="exponential", max_retries=2)
    async def flaky() -> None:
        tries.append(round(asyncio.get_running_loop().time(), 2))
        raise ConnectionError("no route")

    async with running(app) as t:
        handle = await flaky.submit()
        await t.run_until_idle()
        assert await handle.status() is State.RETRY
        await t.advance(seconds=59)
        assert len(tries) == 1
        await t.advance(seconds=1)
        assert len(tries) == 2
        with pytest.raises(TaskFailed, match="no route"):
            await handle.result()
    assert tries == [0, 60, 180]


@virtual_time
async def test_a_scheduled_task_starts_when_its_time_has_come():
    app = Andon("memory://")

    @app.task
    async def remind(whom: str) -> None:
        await app.submit("mail", {"to": whom})

    async with running(app) as t:
        await remind.submit_in(86_400, "ann")
        await t.advance(hours=23)
        assert not await t.submitted("mail")
        await t.advance(hours=1)
        [mail] = await t.submitted("mail")
        assert mail.args == {"to": "ann"}


@virtual_time
async def test_a_handler_that_takes_hours_keeps_its_lease():
    app = Andon("memory://")

    @app.task
    async def slow(ctx: Context) -> int:
        for hour in range(3):
            await asyncio.sleep(3_600)
            ctx.progress(hour * 30)
        return ctx.run

    async with running(app) as t:
        task = await t.run_until(await slow.submit())
    assert (task.result, task.tries, len(task.runs)) == (0, 1, 1)


@virtual_time
async def test_progress_reaches_watchers_while_the_handler_runs():
    app = Andon("memory://")

    @app.task
    async def work(ctx: Context) -> None:
        ctx.progress(40, "nearly half")
        await asyncio.sleep(60)

    async with running(app) as t:
        handle = await work.submit()
        await t.advance(seconds=5)
        task = await handle.get()
        assert (task.progress, task.progress_message) == (40, "nearly half")


@virtual_time
async def test_a_timeout_ends_a_run_in_virtual_time():
    app = Andon("memory://")

    @app.task(timeout=30, max_retries=0)
    async def hang() -> None:
        await asyncio.Event().wait()

    async with running(app) as t:
        before = t.now
        task = await t.run_until(await hang.submit())
        assert (t.now - before).total_seconds() == 30
    assert (task.state, task.reason) == (State.FAILED, "timeout")


@virtual_time
async def test_a_silent_handler_is_stalled():
    app = Andon("memory://")

    @app.task(max_heartbeat_interval=10)
    async def silent() -> None:
        await asyncio.sleep(3_600)

    async with running(app) as t:
        task = await t.run_until(await silent.submit())
    assert (task.state, task.reason) == (State.STALLED, "heartbeat-timeout")


@virtual_time
async def test_a_running_handler_is_cancelled():
    app = Andon("memory://")

    @app.task
    async def long() -> None:
        await asyncio.sleep(86_400)

    async with running(app) as t:
        handle = await long.submit()
        await t.advance(seconds=1)
        assert await handle.cancel(wait=60) is State.CANCELLED
        assert (await handle.get()).reason == "cancel-requested"


@virtual_time
async def test_a_sync_handler_takes_no_virtual_time():
    app = Andon("memory://")

    @app.task
    def compute() -> str:
        time.sleep(0.01)
        return threading.current_thread().name

    async with running(app) as t:
        before = t.now
        task = await t.run_until(await compute.submit())
        assert t.now == before
    assert task.result.startswith("andon-handler")


@virtual_time
async def test_a_sync_handler_may_submit_and_wait_for_another_task():
    app = Andon("memory://")

    @app.task
    async def child() -> int:
        await asyncio.sleep(60)
        return 7

    @app.task
    def parent() -> int:
        return child.sync.submit().result(timeout=600)

    async with running(app) as t:
        assert (await t.run_until(await parent.submit())).result == 7


@virtual_time
async def test_a_handler_for_a_process_runs_here_in_a_test():
    app = Andon("memory://")
    seen: list[str] = []

    @app.task(isolation="process")
    def convert(path: str) -> str:
        seen.append(path)
        return path.upper()

    async with running(app) as t:
        assert (await t.run_until(await convert.submit("a"))).result == "A"
    assert seen == ["a"]


@virtual_time
async def test_a_command_runs_for_real():
    app = Andon("memory://")
    command = app.command("true", ["true"])
    async with running(app) as t:
        assert (await t.run_until(await command.submit())).state is State.COMPLETED


@virtual_time
async def test_dependencies_run_in_order_and_pass_on_their_results():
    app = Andon("memory://")

    @app.task
    async def part(n: int) -> int:
        return n

    @app.task
    async def total(ctx: Context) -> int:
        return sum(parent.result for parent in ctx.dependencies.values())

    async with running(app) as t:
        parts = [part.draft(n) for n in (1, 2, 3)]
        last = total.options(depends_on=parts, load_dependencies=True).draft()
        await app.submit_many([last, *parts])
        assert (await t.run_until(last)).result == 6


@virtual_time
async def test_idle_leaves_what_waits_for_a_time_waiting():
    app = Andon("memory://")

    @app.task
    async def nap(ctx: Context) -> None:
        await asyncio.sleep(5)
        if ctx.attempt == 1 and ctx.run == 0:
            raise Snooze(3_600)

    async with running(app) as t:
        before = t.now
        handle = await nap.submit()
        await t.run_until_idle()
        assert (t.now - before).total_seconds() < 60
        assert await handle.status() is State.SCHEDULED


@virtual_time
async def test_waiting_for_what_never_ends_says_where_the_task_stands():
    app = Andon("memory://")
    async with running(app, worker=False) as t:
        handle = await app.submit("nobody-runs-this")
        with pytest.raises(StillRunning, match=r"nobody-runs-this\) is pending, submitted after 1"):
            await t.run_until(handle, days=1)


@virtual_time
async def test_the_applications_own_store_is_not_touched(tmp_path):
    path = tmp_path / "tasks.db"
    app = Andon(f"sqlite:///{path}")
    async with running(app, worker=False):
        await app.submit("x")
    assert not path.exists()


def test_it_explains_that_it_needs_virtual_time():
    async def main() -> None:
        async with running(Andon("memory://")):
            pass

    with pytest.raises(RuntimeError, match="virtual_time"):
        asyncio.run(main())


@pytest.mark.parametrize("round_", range(3))
@virtual_time
async def test_a_run_replays_exactly(round_: int, caplog):
    caplog.set_level(logging.ERROR)
    app = Andon("memory://")

    @app.task(retry_delay=10, max_retries=5)
    async def flaky(ctx: Context) -> None:
        if ctx.attempt < 4:
            raise ValueError("again")

    async with running(app) as t:
        before = t.now
        await t.run_until(await flaky.submit())
        took = (t.now - before).total_seconds()
    assert took == REPLAYED.setdefault("took", took)


REPLAYED: dict[str, float] = {}
