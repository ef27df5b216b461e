"""The words in which the suite speaks: submit, claim, move, make due."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from andon.contract.outcomes import Changed, ChangeKind, Created, CreateKind, Due, Verdict
from andon.contract.queries import EventPage, Page, Query
from andon.contract.requests import Change, ClaimRequest, Renewal
from andon.contract.store import Store
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import Moved, apply
from andon.lifecycle.commands import Command
from andon.model.fleet import QueueConfig, QueueStats
from andon.model.policy import Policy
from andon.model.task import Definition, Task
from andon.model.words import State
from andon.stores.registry import open_store

LEASE_MS = 30_000
HOLD_MS = 10_000
PATIENCE_S = 60.0
"""Longest that a condition is waited for; a slow machine is no defect of the store."""


class StoreFactory:
    """How to open the store under test."""

    def __init__(self, url: str, *, shared: bool, durable: bool) -> None:
        self.url = url
        self.shared = shared  #: several instances may be open on the same data
        self.durable = durable  #: data outlives the instance

    def make(self, **options: int) -> Store:
        """A store that is not open yet; options go into the query of its URL."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        joint = "&" if "?" in self.url else "?"
        return open_store(f"{self.url}{joint}{query}" if query else self.url)


class Kit:
    """One store and the helpers that act on it."""

    def __init__(self, factory: StoreFactory) -> None:
        self.factory = factory
        self.store = factory.make()
        self._opened: list[Store] = []
        self._count = itertools.count()

    async def open(self) -> None:
        await self.store.open()
        self._opened.append(self.store)

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    async def again(self) -> Store:
        """Another instance on the same data, where there can be one; else the same."""
        if not self.factory.shared:
            return self.store
        store = self.factory.make()
        await store.open()
        self._opened.append(store)
        return store

    async def replace(self, **options: int) -> Store:
        """The store, opened anew with options; only before anything was written."""
        await self.store.close()
        self.store = self.factory.make(**options)
        await self.open()
        return self.store

    def fresh(self, word: str = "w") -> str:
        """A name not used before in this test."""
        return f"{word}{next(self._count)}"

    # --- creating ---

    def record(
        self,
        task_id: str = "",
        *,
        policy: dict[str, Any] | None = None,
        write_id: str = "",
        **fields: Any,
    ) -> Task:
        """The record of a submission made now; `policy` differs from the default as given. Those
        of one write id share their status, if made within a millisecond."""
        definition = Definition(
            id=task_id or self.fresh("task"),
            name=fields.pop("name", "job"),
            policy=msgspec.structs.replace(Policy(), **(policy or {})),
            digest=fields.pop("digest", "digest"),
            **fields,
        )
        # As of a moment before its start and its deadline, which may have come while they were
        # written down here.
        ahead = (definition.run_at, definition.deadline)
        now = min([self.store.now(), *(moment - 1 for moment in ahead if moment is not None)])
        return admit(definition, now, write_id or self.fresh("submit"))

    async def create(self, *tasks: Task) -> list[Created]:
        return await self.store.create(tasks)

    async def submit(self, task_id: str = "", **fields: Any) -> Task:
        task = self.record(task_id, **fields)
        (created,) = await self.store.create([task])
        assert created.kind is CreateKind.CREATED, created
        return task

    async def submit_many(self, count: int, **fields: Any) -> list[Task]:
        tasks = [self.record(**fields) for _ in range(count)]
        assert {c.kind for c in await self.store.create(tasks)} == {CreateKind.CREATED}
        return tasks

    # --- claiming ---

    def request(self, limit: int = 1, **fields: Any) -> ClaimRequest:
        fields = {
            "worker": "worker",
            "token": self.fresh("token"),
            "queues": ("default",),
            "lease_ms": LEASE_MS,
            **fields,
        }
        return ClaimRequest(limit=limit, **fields)

    async def claim(self, limit: int = 1, **fields: Any) -> list[Task]:
        """Claim from each partition in turn, as a worker does."""
        return await self.claim_from(self.store, limit, **fields)

    async def claim_from(self, store: Store, limit: int = 1, **fields: Any) -> list[Task]:
        token = fields.pop("token", "") or self.fresh("token")
        room = dict(fields.pop("room", {}))
        claimed: list[Task] = []
        for p in range(store.partitions):
            request = self.request(
                limit - len(claimed), token=f"{token}.{p}", partition=p, room=room, **fields
            )
            tasks = await store.claim(request)
            for name in [task.definition.name for task in tasks]:
                if name in room:
                    room[name] -= 1
            claimed += tasks
        return claimed

    async def active(self, task_id: str = "", **fields: Any) -> Task:
        """A task that was submitted and claimed."""
        lease_ms = fields.pop("lease_ms", LEASE_MS)
        worker = fields.pop("worker", "worker")
        task = await self.submit(task_id, **fields)
        queues = (task.definition.queue,)
        (claimed,) = await self.claim(queues=queues, lease_ms=lease_ms, worker=worker)
        assert claimed.id == task.id
        return claimed

    async def renew(self, task: Task, **fields: Any) -> Verdict:
        fields = {"task": task.id, "run": task.status.run, "lease_ms": LEASE_MS, **fields}
        (verdict,) = await self.store.renew([Renewal(**fields)])
        return verdict

    # --- moving ---

    def decide(self, task: Task, command: Command, *, write_id: str = "") -> Moved:
        return apply(
            task,
            command,
            now=self.store.now(),
            random=lambda: 0.5,
            write_id=write_id or self.fresh("write"),
        )

    def change(self, task: Task, command: Command, *, write_id: str = "", **guards: Any) -> Change:
        moved = self.decide(task, command, write_id=write_id)
        return Change(
            before=task,
            after=moved.status,
            event=moved.event,
            result=moved.result,
            sets_result=moved.sets_result,
            discard=moved.discard,
            **guards,
        )

    async def commit(self, change: Change) -> Changed:
        (changed,) = await self.store.commit([change])
        return changed

    async def try_move(self, task: Task, command: Command, **guards: Any) -> Changed:
        return await self.commit(self.change(task, command, **guards))

    async def move(self, task: Task, command: Command) -> Task | None:
        """Make a move that must succeed; the record after it."""
        changed = await self.try_move(task, command)
        assert changed.kind is ChangeKind.APPLIED, changed
        return await self.get(task.id)

    async def moved(self, task: Task, command: Command) -> Task:
        """Make a move that must succeed and leave a record."""
        after = await self.move(task, command)
        assert after is not None
        return after

    # --- reading ---

    async def get(self, task_id: str) -> Task | None:
        (task,) = await self.store.get([task_id])
        return task

    async def there(self, task_id: str) -> Task:
        task = await self.get(task_id)
        assert task is not None
        return task

    async def state(self, task_id: str) -> State:
        return (await self.there(task_id)).state

    async def stats(self, queue: str = "default") -> QueueStats:
        (found,) = [stats for stats in await self.store.stats() if stats.queue == queue]
        return found

    async def find_all(self, **fields: Any) -> list[str]:
        """Ids on all pages."""
        return await self.find_all_from("", **fields)

    async def find_all_from(self, cursor: str, **fields: Any) -> list[str]:
        """Ids on all pages after a cursor."""
        ids: list[str] = []
        page = Page((), cursor)
        while True:
            page = await self.store.find(Query(cursor=page.cursor, **fields))
            ids += [task.id for task in page.tasks]
            if not page.cursor:
                return ids

    async def read_events(self, cursor: str, limit: int = 500) -> EventPage:
        """All events after the cursor, as one page."""
        page = await self.store.events(cursor, limit)
        events, gap = page.events, page.gap
        while page.events:
            page = await self.store.events(page.cursor, limit)
            events += page.events
            gap = gap or page.gap
        return EventPage(events, page.cursor, gap)

    # --- time ---

    async def take_due(self, limit: int = 100, hold_ms: int = HOLD_MS) -> list[Task]:
        """What is due in every partition."""
        taken: list[Task] = []
        for partition in range(self.store.partitions):
            due: Due = await self.store.take_due(partition, limit, hold_ms)
            taken += due.tasks
        return taken

    async def due(self, task_id: str, **fields: int) -> Task:
        """Wait until the task's timer is handed out."""

        async def taken() -> Task | None:
            return next((t for t in await self.take_due(**fields) if t.id == task_id), None)

        return await self.until(taken)

    async def pass_time(self, ms: int) -> None:
        """Wait until the store's clock has moved on by `ms`."""
        end = self.store.now() + ms

        async def passed() -> bool:
            return self.store.now() >= end

        await self.until(passed)

    async def until(self, look: Callable[[], Awaitable[Any]]) -> Any:
        """What `look` gives once it gives something."""
        patience = time.monotonic() + PATIENCE_S + self.store.slack_ms / 1000
        while not (found := await look()):
            assert time.monotonic() < patience, "it did not happen"
            await asyncio.sleep(0.002)
        return found

    async def configure(self, **fields: Any) -> None:
        """Replace a queue's configuration, whatever it is."""
        await self.configured(**fields)

    async def configured(self, **fields: Any) -> QueueConfig:
        """The same; the configuration that the queue has then."""
        config = QueueConfig(**{"name": "default", **fields})
        known = {queue.name: queue for queue in await self.store.queues()}
        before = known.get(config.name, QueueConfig(name=config.name))
        assert await self.store.put_queue(config, expect=before)
        return config


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Kit]:
    """The store of a server, open, with these words."""
    kit = Kit(StoreFactory(url, shared=True, durable=True))
    await kit.open()
    try:
        yield kit
    finally:
        await kit.close()


def ids(tasks: Sequence[Task]) -> list[str]:
    return [task.id for task in tasks]


def needs_one_line(kit: Kit) -> None:
    """Order holds within a partition only."""
    needs(condition=kit.store.partitions == 1, why="order holds within a partition")


def needs(*, condition: bool, why: str) -> None:
    """Skip a test of something that this kind of store cannot have."""
    if not condition:
        pytest.skip(why)
