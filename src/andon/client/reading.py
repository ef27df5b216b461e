"""The part of an application that reads its store: tasks, queues, policies, workers."""

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from andon.client.declaring import Declaring
from andon.client.flow_handle import Flows
from andon.client.flows import Flow
from andon.client.function import TaskFunction
from andon.client.handle import TaskHandle
from andon.client.policies import Policies
from andon.client.queues import Queue, Queues
from andon.client.schedules import Schedules
from andon.client.tasks import Tasks
from andon.client.views import TaskView
from andon.contract.queries import Query
from andon.model.fleet import WorkerInfo
from andon.worker.calls import ANY_CALL

R = TypeVar("R")


class Reading(Declaring):
    """The part of an application that finds what was submitted."""

    declared_queues: list[Queue]

    @cached_property
    def queues(self) -> Queues:
        """The queues of the store: declared, configured, paused, listed.

        Example:
            await app.queues.pause("mail")
        """
        return Queues(self, self.declared_queues)

    @cached_property
    def policies(self) -> Policies:
        """The named retry policies of the store: listed, set, deleted."""
        return Policies(self)

    @cached_property
    def schedules(self) -> Schedules:
        """The schedules of the store: declared, made by hand, paused, listed.

        Example:
            for schedule in await app.schedules.list():
                print(schedule.name, schedule.next_due)
        """
        return Schedules(self)

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks of the store: found, listed, cancelled, retried, deleted.

        Example:
            failed = await app.tasks.list(state="failed")
        """
        return Tasks(self)

    @cached_property
    def flows(self) -> Flows:
        """The flows of the store: found, listed, cancelled, rerun."""
        return Flows(self)

    def flow(self, name: str, *, id: str | None = None) -> Flow:
        """A flow to be put together: tasks that depend on one another. See `Flow`, and
        [flows.md](../flows.md).

        Example:
            with app.flow("billing") as flow:
                paid = flow.add(charge, 7, 990)
                flow.add(remind, paid.result)
            handle = await flow.submit()
        """
        return Flow(self, name, id=id)

    async def workers(self) -> list[WorkerInfo]:
        """The workers that were alive within the last minute, as they described themselves.

        Example:
            for worker in await app.workers():
                print(worker.id, worker.host, worker.active)
        """
        engine = await self.connections.engine()
        return await engine.workers()

    def handle(self, task_id: str, task: TaskFunction[..., R, Any] | None = None) -> TaskHandle[R]:
        """A handle on a task by its id; with `task` its result is decoded like that one's.

        Example:
            submitted = await charge.submit(7, 990)
            handle = app.handle(submitted.id, charge)
            assert await handle.result(timeout=60) == "order 7 paid"
        """
        codec = ANY_CALL if task is None else task.type.codec
        return TaskHandle(self, task_id, codec)

    async def get(self, task_id: str) -> TaskView | None:
        """A task as it stands; None if there is none.

        Example:
            assert await app.get("no-such-task") is None
        """
        return await self.tasks.get(task_id)

    async def find(self, query: Query | None = None) -> AsyncIterator[TaskView]:
        """Tasks that match, in the order they were created, page by page.

        Example:
            from andon.contract.queries import Query

            async for task in app.find(Query(queue="mail")):
                print(task.id, task.state)
        """
        engine = await self.connections.engine()
        query = query or Query()
        while True:
            page = await engine.find(query)
            for task in page.tasks:
                yield TaskView.of(task, now=engine.now())
            if not page.cursor:
                return
            query = msgspec.structs.replace(query, cursor=page.cursor)
