"""Tasks of the face in an engine without a service, on a clock that only the test moves."""

import itertools
import random
from typing import Any

import msgspec
from servers import on_clock
from tests.taskcluster.kit import QUEUE, slugid

from andon.contract.requests import ClaimRequest
from andon.engine.local import LocalEngine
from andon.lifecycle.commands import Command
from andon.model.task import Task, TaskEvent
from andon.service.taskcluster.document import document_of, kept_of, routes_of, submission_of
from andon.service.taskcluster.inputs import InputDecoder, NewTask
from andon.service.taskcluster.messages.rendering import Subject
from andon.service.taskcluster.settings import TaskclusterSettings
from andon.service.taskcluster.times import written

START = 1_800_000_000_000
WORKER = "us-east/i-0a1b"
_decode = InputDecoder(NewTask)


class Clock:
    """Store time, moved by hand."""

    def __init__(self) -> None:
        self.ms = START

    def __call__(self) -> int:
        return self.ms


class Life:
    """What tests do to tasks, and what is kept of them after each move."""

    def __init__(self, url: str = "memory://") -> None:
        self.clock = Clock()
        self.engine = LocalEngine(on_clock(url, self.clock), random=random.Random(7))
        self.snapshots: list[Task] = []
        self._numbers = itertools.count()

    async def create(self, **fields: Any) -> str:
        task_id = fields.pop("task_id", "") or slugid()
        now = self.engine.now()
        whole = {
            "taskQueueId": QUEUE,
            "created": written(now),
            "deadline": written(now + 3_600_000),
            "payload": {},
            "metadata": {
                "name": "a task",
                "description": "of the tests",
                "owner": "nobody@example.com",
                "source": "https://example.com/tasks",
            },
            "tags": {"kind": "test"},
            "schedulerId": "sched",
        }
        given: Any = _decode(msgspec.json.encode({**whole, **fields}))
        document = document_of(task_id, given)
        submission = submission_of(task_id, given, document, TaskclusterSettings())
        (outcome,) = await self.engine.submit([submission])
        assert outcome.error is None, outcome.error
        await self.snap(task_id)
        return task_id

    async def claim(self, task_id: str) -> Task:
        request = ClaimRequest(
            worker=WORKER,
            token=f"token{next(self._numbers)}",
            queues=(QUEUE,),
            limit=1,
            lease_ms=1_200_000,
        )
        (task,) = await self.engine.claim(request)
        assert task.id == task_id
        await self.snap(task_id)
        return task

    async def report(self, task_id: str, command: Command) -> None:
        await self.engine.report(await self.task(task_id), command)
        await self.engine.settled()
        await self.snap(task_id)

    async def act(self, task_id: str, command: Command) -> None:
        (acted,) = await self.engine.act([task_id], command)
        assert acted.changed, acted
        await self.engine.settled()
        await self.snap(task_id)

    async def later(self, seconds: float, *ids: str) -> None:
        """Move the clock, and fire what is due then."""
        self.clock.ms += round(seconds * 1000)
        await self.engine.timekeeper.run_once()
        await self.engine.settled()
        for task_id in ids:
            await self.snap(task_id)

    async def task(self, task_id: str) -> Task:
        (task,) = await self.engine.get([task_id])
        assert task is not None
        return task

    async def snap(self, task_id: str) -> None:
        """Keep the record as it is now."""
        self.snapshots.append(await self.task(task_id))

    async def events(self, task_id: str) -> list[TaskEvent]:
        page = await self.engine.events("", 1000)
        return [event for event in page.events if event.task == task_id]


def subject(task: Task) -> Subject:
    """The task as messages need it."""
    kept = kept_of(task)
    assert kept is not None
    return Subject(task, kept, routes_of(task))
