"""Tasks under load on one store, and the account of them afterwards."""

import asyncio
import itertools
from collections import Counter, defaultdict

from andon.contract.outcomes import ChangeKind, CreateKind
from andon.contract.requests import Change, ClaimRequest
from andon.contract.store import Store
from andon.engine.writes import new_write_id
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete
from andon.lifecycle.timers import next_timer, on_timer
from andon.model.errors import StoreUnavailable
from andon.model.task import Definition
from andon.model.words import Event, State
from andon.stores.registry import open_store

LEASE_MS = 3_000
PATIENCE_S = 90.0


_BREATH_S = 0.05
"""After a failure: a store that was closed answers at once, and nobody else would get a turn."""


class Plant:
    """Submits, claims and completes until told to stop; then everything is to be accounted for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.accepted: set[str] = set()
        self.completed: Counter[str] = Counter()
        self.troubles = 0
        self._numbers = itertools.count()
        self._submitting = True
        self._submitters = 0
        self._stores: list[Store] = []

    async def open(self) -> Store:
        store = open_store(self.url)
        await store.open()
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()

    def stop_submitting(self) -> None:
        self._submitting = False

    @property
    def is_over(self) -> bool:
        """Whether all was submitted, and all of that has completed: by name, for what completes
        before its submitter is told is not accepted yet."""
        if self._submitting or self._submitters:
            return False
        return self.accepted <= self.completed.keys()

    async def submit(self) -> None:
        store = await self.open()
        self._submitters += 1
        while self._submitting:
            tasks = [
                admit(
                    Definition(id=f"t{next(self._numbers):06}", name="job", digest="d"),
                    store.now(),
                    new_write_id(),
                )
                for _ in range(5)
            ]
            while True:
                try:
                    created = await store.create(tasks)
                except StoreUnavailable:
                    self.troubles += 1
                    await asyncio.sleep(_BREATH_S)
                    continue
                assert {c.kind for c in created} <= {CreateKind.CREATED, CreateKind.EXISTS}
                break
            self.accepted.update(task.id for task in tasks)
            await asyncio.sleep(0.002)
        self._submitters -= 1

    async def work(self, name: str) -> None:
        store = await self.open()
        for number in itertools.count():
            if self.is_over:
                return
            request = ClaimRequest(
                worker=name,
                token=f"{name}-{number}",
                queues=("default",),
                limit=10,
                lease_ms=LEASE_MS,
            )
            try:
                tasks = await store.claim(request)
                changes = [
                    Change(before=task, after=moved.status, event=moved.event)
                    for task in tasks
                    for moved in [
                        apply(
                            task,
                            Complete(),
                            now=store.now(),
                            random=lambda: 0.5,
                            write_id=new_write_id(),
                        )
                    ]
                ]
                while changes:
                    try:
                        outcomes = await store.commit(changes)
                    except StoreUnavailable:
                        self.troubles += 1
                        await asyncio.sleep(_BREATH_S)
                        continue
                    for change, outcome in zip(changes, outcomes, strict=True):
                        if outcome.kind is ChangeKind.APPLIED:
                            self.completed[change.before.id] += 1
                    break
            except StoreUnavailable:
                self.troubles += 1
                await asyncio.sleep(_BREATH_S)
                continue
            if not tasks:
                await asyncio.sleep(0.02)

    async def keep_time(self) -> None:
        """What a timekeeper does: runs whose lease ran out go back."""
        store = await self.open()
        while not self.is_over:
            try:
                due = await store.take_due(0, 100, 2_000)
                changes: list[Change] = []
                for task in due.tasks:
                    command = on_timer(task, due.now)
                    if command is None:
                        await store.rearm([(task.id, next_timer(task))])
                        continue
                    moved = apply(
                        task, command, now=due.now, random=lambda: 0.0, write_id=new_write_id()
                    )
                    lease = None if task.cell is None else task.cell.lease_until
                    changes.append(
                        Change(before=task, after=moved.status, event=moved.event, seen_lease=lease)
                    )
                if changes:
                    await store.commit(changes)
            except StoreUnavailable:
                self.troubles += 1
            await asyncio.sleep(0.1)

    async def account(self, store: Store) -> None:
        """Every accepted task is there, completed once, and its moves are without gaps."""
        ids = sorted(self.accepted)
        for start in range(0, len(ids), 200):
            for task_id, task in zip(
                ids[start : start + 200], await store.get(ids[start : start + 200]), strict=True
            ):
                assert task is not None, task_id
                assert task.state is State.COMPLETED, (task_id, task.state)
                revisions = [event.revision for event in task.status.events]
                assert revisions == list(range(revisions[0], task.status.revision + 1))
                ends = [e for e in task.status.events if e.event is Event.COMPLETE]
                assert len(ends) == 1
        assert set(self.completed.values()) == {1}
        assert set(self.completed) == self.accepted
        stats = {queue.queue: queue.counts for queue in await store.stats()}
        assert stats == {"default": {"completed": len(ids)}}
        seen: defaultdict[str, list[int]] = defaultdict(list)
        cursor = ""
        while (page := await store.events(cursor)).events:
            assert not page.gap
            for event in page.events:
                seen[event.task].append(event.revision)
            cursor = page.cursor
        assert set(seen) == self.accepted
        for task_id, revisions in seen.items():
            assert revisions == list(range(1, len(revisions) + 1)), task_id
