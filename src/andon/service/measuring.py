"""A store that is measured: every call by time and size, and what its moves say of the tasks."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from andon.model.words import Event, State
from andon.stores.base import Change, Changed, ChangeKind, ClaimRequest, Created, CreateKind

if TYPE_CHECKING:
    from andon.model.task import Task
    from andon.service.metrics import Metrics
    from andon.stores.base import Store

_MOST_TYPES = 500
"""Task types told apart: names come from outside, and a metric per name must not grow for ever."""

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


def measured(store: "Store", metrics: "Metrics") -> "Store":
    """The same store, measured."""
    return cast("Store", _Measured(store, metrics))


class _Measured:
    def __init__(self, store: "Store", metrics: "Metrics") -> None:
        self._store = store
        self._metrics = metrics
        self._types: set[str] = set()
        for name in _READS:
            setattr(self, name, self._timed(name))
        self._create = self._timed("create")
        self._claim = self._timed("claim")
        self._commit = self._timed("commit")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _timed(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._store, name)
        seconds = self._metrics.store.labels(name)
        sizes = self._metrics.batches.labels(name)
        errors = self._metrics.store_errors.labels(name)

        async def timed(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                outcome = await call(*args, **kwargs)
            except Exception:
                errors.inc()
                raise
            finally:
                seconds.observe(time.perf_counter() - began)
            if args and isinstance(args[0], list | tuple):
                sizes.observe(len(cast("list[Any]", args[0])))
            return outcome

        return timed

    async def create(self, tasks: "Sequence[Task]") -> list[Created]:
        outcomes = await self._create(tasks)
        stored: dict[str, int] = {}
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome.kind is CreateKind.CREATED:
                queue = task.definition.queue
                stored[queue] = stored.get(queue, 0) + 1
        for queue, count in stored.items():
            self._metrics.submitted.labels(self._named(queue)).inc(count)
        return outcomes

    async def claim(self, request: ClaimRequest) -> "list[Task]":
        tasks = await self._claim(request)
        for task in tasks:
            status = task.status
            claimed = status.retried_at or status.started_at
            if claimed is not None and status.submitted_at is not None:
                latency = self._metrics.claim_latency.labels(self._named(task.definition.queue))
                latency.observe(max(claimed - status.submitted_at, 0) / 1000)
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
        name = self._named(before.definition.name)
        if event.event is Event.LOSE:
            self._metrics.lost.labels(name).inc()
        retried = event.target is State.RETRY or (
            event.target is State.PENDING and event.event is not Event.RELEASE
        )
        if retried:
            self._metrics.retries.labels(name).inc()
        claimed = before.status.retried_at or before.status.started_at
        outcome = str(event.target) if event.target is not None else "gone"
        if claimed is not None:
            self._metrics.runs.labels(name, outcome).observe(max(event.at - claimed, 0) / 1000)

    def _named(self, name: str) -> str:
        if name not in self._types:
            if len(self._types) >= _MOST_TYPES:
                return "(others)"
            self._types.add(name)
        return name
