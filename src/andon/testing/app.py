"""Your application in a test: its tasks in memory, its worker and its timers in virtual time.

    @virtual_time
    async def test_a_reminder_goes_out_a_day_later():
        async with running(app) as t:
            await remind.submit_in(86_400, "ann@example.org")
            await t.advance(hours=23)
            assert not await t.submitted("mail")
            await t.advance(hours=1)
            assert len(await t.submitted("mail")) == 1

It is the real engine, the real worker and the real timekeeper over the store in memory; only the
clock is another one. Handlers run for real, so what they reach outside of Andon is the test's to
replace.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from andon.client.app import Andon
from andon.client.views import TaskView
from andon.contract.queries import Query
from andon.engine.local import LocalEngine
from andon.model.errors import TaskNotFound
from andon.model.task import Task
from andon.model.words import State
from andon.stores.memory import MemoryStore
from andon.testing.clock import VirtualLoop
from andon.testing.worker import POLL_S, virtual_worker

if TYPE_CHECKING:
    from andon.client.drafts import Draft
    from andon.client.handle import TaskHandle

MOST_DAYS = 7
"""Virtual days that `run_until` and `run_until_idle` let pass before they give up."""


class StillRunning(AssertionError):
    """What was waited for has not happened within the virtual time allowed.

    Example:
        from andon.testing import StillRunning, running, virtual_time

        @virtual_time
        async def test_a_reminder_takes_more_than_an_hour():
            async with running(app) as t:
                handle = await remind.submit_in(86_400, "ann")
                try:
                    await t.run_until(handle, days=1 / 24)
                except StillRunning as error:
                    print(error)
                else:
                    raise AssertionError("it has ended")

        test_a_reminder_takes_more_than_an_hour()
    """


class TestApp:
    """An application under test. Made by `running`.

    Example:
        from andon import State
        from andon.testing import running, virtual_time

        @virtual_time
        async def test_a_reminder_goes_out_a_day_later():
            async with running(app) as t:
                handle = await remind.submit_in(86_400, "ann")
                began = t.now
                await t.advance(hours=23)
                assert (await t.task(handle.id)).state is State.SCHEDULED
                await t.advance(hours=1)
                await t.run_until_idle()
                assert [task.state for task in await t.submitted("remind")] == [State.COMPLETED]
                assert (await t.run_until(handle)).result == "ann reminded"
                assert (t.now - began).days == 1

        test_a_reminder_goes_out_a_day_later()
    """

    __test__ = False  # not a test, whatever its name says to pytest

    def __init__(self, app: Andon, engine: LocalEngine, loop: VirtualLoop) -> None:
        self.app = app  #: the application under test
        self.engine = engine
        self._loop = loop

    @property
    def now(self) -> datetime:
        """The time by the store's clock, which is virtual."""
        return datetime.fromtimestamp(self.engine.now() / 1000, UTC)

    async def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Let so much time pass, and everything happen that is due within it."""
        span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        await asyncio.sleep(span.total_seconds())
        await self._loop.quiet()

    async def run_until_idle(self) -> None:
        """Let run what can run now, until no task is active; what waits for a time still waits.

        Time passes only as far as handlers themselves let it. Raises `StillRunning` after a week.
        """
        until = self._loop.time() + MOST_DAYS * 86_400
        while True:
            await self._loop.quiet()
            active = [task.id for task in (await self._read(Query(states=(State.ACTIVE,))))]
            if not active:
                return
            if self._loop.time() > until:
                raise StillRunning(f"Still active after {MOST_DAYS} days: {', '.join(active)}.")
            await self._loop.moved()

    async def run_until(
        self, task: "TaskHandle[Any] | Draft[Any] | str", *, days: float = MOST_DAYS
    ) -> TaskView:
        """Let time pass until the task has ended, and return it as it ended.

        Raises `StillRunning`, saying where the task stands, when it takes longer than `days`.
        """
        task_id = task if isinstance(task, str) else task.id
        try:
            return self._view(await self.engine.wait_end(task_id, days * 86_400))
        except TimeoutError:
            view = await self.task(task_id)
            reason = f", {view.reason}" if view.reason else ""
            raise StillRunning(
                f"Task {task_id} ({view.name}) is {view.state}{reason} after {days:g} days."
            ) from None

    async def submitted(self, name: str | None = None) -> list[TaskView]:
        """Every task with this name (by default every task) whose record is kept, oldest first."""
        return [self._view(task) for task in await self._read(Query(name=name))]

    async def task(self, task_id: str) -> TaskView:
        """A task as it stands. Raises `TaskNotFound`."""
        [task] = await self.engine.get([task_id])
        if task is None:
            raise TaskNotFound(task_id)
        return self._view(task)

    async def _read(self, query: Query) -> list[Task]:
        tasks: list[Task] = []
        while True:
            page = await self.engine.find(query)
            tasks.extend(page.tasks)
            if not page.cursor:
                return tasks
            query = msgspec.structs.replace(query, cursor=page.cursor)

    def _view(self, task: Task) -> TaskView:
        kind = self.app.registry.route(task.definition.name, task.definition.version)
        if kind is None:
            return TaskView.of(task, now=self.engine.now())
        return TaskView.of(task, kind.codec.decode_result, now=self.engine.now())


@asynccontextmanager
async def running(
    app: Andon,
    *,
    worker: bool = True,
    queues: Sequence[str] = (),
    concurrency: int = 10,
    seed: int = 0,
) -> AsyncGenerator[TestApp, None]:
    """Run the application in memory and in virtual time; its own store is not touched.

    Submits inside go to the store in memory, from handlers too. Without a `worker` they stay
    there. `queues` are those the worker serves, by default every queue there is.
    `seed` decides jitter: a test with the same seed takes the same course.

    Raises `RuntimeError` outside of a `VirtualLoop` (see `virtual_time` and `run_virtual`).

    Example:
        from andon.testing import running, virtual_time

        @virtual_time
        async def test_an_order_is_charged():
            async with running(app) as t:
                task = await t.run_until(await charge.submit(7, 990))
                assert task.result == "order 7 paid"

        test_an_order_is_charged()
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError(
            "running() needs virtual time. Decorate the test with @andon.testing.virtual_time, "
            "or start it with andon.testing.run_virtual(...)."
        )
    store = MemoryStore(clock=loop.wall_ms, poll_s=POLL_S)
    engine = app.engine_on(store, random=Random(seed), poll_s=POLL_S)
    await engine.open()
    put_back = app.connections.use(engine)
    try:
        engine.timekeeper.start()
        if worker:
            async with virtual_worker(
                app, engine, queues=queues, concurrency=concurrency, seed=seed
            ):
                yield TestApp(app, engine, loop)
        else:
            yield TestApp(app, engine, loop)
    finally:
        put_back()
        await engine.close()
