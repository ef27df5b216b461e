"""Wraps a store to measure it: every call by time and size, and the tasks by their moves.

A store that is not measured is not wrapped, and costs nothing more.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from andon.contract.instruments import Instruments, Names, claimed_at, count_waits, timed
from andon.contract.optional import CreatesTogether, CreatesWithNotes, offered
from andon.contract.outcomes import CREATED, Changed, ChangeKind, Created, CreateKind
from andon.contract.requests import Change, ClaimRequest, NotedTask
from andon.model.words import Event, State

if TYPE_CHECKING:
    from andon.contract.store import Store
    from andon.model.task import Task

_READS = (
    "get",
    "find",
    "history",
    "events",
    "renew",
    "take_due",
    "stats",
    "link",
    "settle",
)


def measured(store: "Store", metrics: Instruments) -> "Store":
    """The same store, measured."""
    return cast("Store", _Measured(store, metrics))


class _Measured:
    def __init__(self, store: "Store", metrics: Instruments) -> None:
        self._store = store
        self._metrics = metrics
        self._names = Names()
        self.now = store.now  # called too often to be measured
        for name in _READS:
            setattr(self, name, timed(getattr(store, name), metrics, name))
        self._create = timed(store.create, metrics, "create")
        noting = offered(store, CreatesWithNotes)
        if noting is not None:
            self._noted = timed(noting.create_with_notes, metrics, "create")
            self.create_with_notes = self._create_with_notes  # or every store would seem to be one
        together = offered(store, CreatesTogether)
        if together is not None:
            self._together = timed(together.create_together, metrics, "create")
            self.create_together = self._create_together
        self._claim = timed(store.claim, metrics, "claim")
        self._commit = timed(store.commit, metrics, "commit")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(found) if name == "on_handoff" else found

    def _counted(self, on_handoff: Callable[..., None]) -> Callable[..., None]:
        """Tasks that are handed over count as claimed."""

        def counted(worker: str, act: "Callable[[list[Task]], None] | None") -> None:
            if act is None:
                on_handoff(worker, None)
                return
            taker = act

            def count(tasks: "list[Task]") -> None:
                count_waits(tasks, self._metrics, self._names)
                taker(tasks)

            on_handoff(worker, count)

        return counted

    async def create(self, tasks: "Sequence[Task]") -> list[Created]:
        outcomes = await self._create(tasks)
        self._count(tasks, outcomes)
        return outcomes

    async def _create_with_notes(self, noted: Sequence[NotedTask]) -> list[Created]:
        outcomes = await self._noted(noted)
        self._count([one.task for one in noted], outcomes)
        return outcomes

    async def _create_together(self, tasks: "Sequence[Task]") -> bool:
        are_created = await self._together(tasks)
        if are_created:
            self._count(tasks, [CREATED] * len(tasks))
        return are_created

    def _count(self, tasks: "Sequence[Task]", outcomes: Sequence[Created]) -> None:
        stored: dict[str, int] = {}
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome.kind is CreateKind.CREATED:
                queue = task.definition.queue
                stored[queue] = stored.get(queue, 0) + 1
        for queue, count in stored.items():
            self._metrics.submitted.labels(self._names.of(queue)).inc(count)

    async def claim(self, request: ClaimRequest) -> "list[Task]":
        tasks = await self._claim(request)
        count_waits(tasks, self._metrics, self._names)
        return tasks

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        outcomes = await self._commit(changes)
        for change, outcome in zip(changes, outcomes, strict=True):
            if outcome.kind is ChangeKind.APPLIED and change.before.state is State.ACTIVE:
                self._ran(change)
        return outcomes

    def _ran(self, change: Change) -> None:
        event, before = change.event, change.before
        if event.target is State.ACTIVE:
            return  # asked to cancel: the run goes on
        name = self._names.of(before.definition.name)
        if event.event is Event.LOSE:
            self._metrics.lost.labels(name).inc()
        retried = event.target is State.RETRY or (
            event.target is State.PENDING and event.event is not Event.RELEASE
        )
        if retried:
            self._metrics.retries.labels(name).inc()
        claimed = claimed_at(before)
        outcome = str(event.target) if event.target is not None else "gone"
        if claimed is not None:
            self._metrics.runs.labels(name, outcome).observe(max(event.at - claimed, 0) / 1000)
