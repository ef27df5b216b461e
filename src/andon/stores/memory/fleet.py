"""Queues, task types, workers and settings: the records beside the tasks."""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.lifecycle.constants import WORKER_SEEN_MS
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo


class Fleet:
    """The registries of a store."""

    def __init__(self, *, seen_ms: float = WORKER_SEEN_MS) -> None:
        """`seen_ms`: a worker unheard of for this long is no longer listed."""
        self._seen_ms = seen_ms
        self.queues: dict[str, QueueConfig] = {}
        self.settings: dict[str, bytes] = {}
        self._types: dict[tuple[str, int], TypeInfo] = {}
        self._workers: dict[str, WorkerInfo] = {}

    def queue(self, name: str) -> QueueConfig:
        """The queue's configuration, be it the default one."""
        return self.queues.get(name) or QueueConfig(name=name)

    def use(self, name: str) -> QueueConfig:
        """The same, for a queue that is known from now on."""
        return self.queues.setdefault(name, self.queue(name))

    def put_types(self, types: Sequence[TypeInfo]) -> None:
        """Publish task types."""
        self._types.update({(info.name, info.version): info for info in types})

    def types(self) -> list[TypeInfo]:
        """Every task type published, by name and version."""
        return [self._types[key] for key in sorted(self._types)]

    def put_worker(self, info: WorkerInfo, now: int) -> None:
        """Note that the worker lives."""
        self._workers[info.id] = replace(info, seen_at=now)

    def remove_worker(self, worker: str) -> None:
        """Note that the worker has left."""
        self._workers.pop(worker, None)

    def workers(self, now: int) -> list[WorkerInfo]:
        """Workers seen lately, by id; the others are forgotten."""
        for worker in [w for w in self._workers.values() if w.seen_at <= now - self._seen_ms]:
            del self._workers[worker.id]
        return [self._workers[worker] for worker in sorted(self._workers)]
