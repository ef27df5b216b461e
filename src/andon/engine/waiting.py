"""Names what pending tasks wait for: reads lanes, workers and queue settings, never the tasks."""

from collections.abc import Mapping, Sequence

import msgspec

from andon.contract.queries import Query
from andon.contract.store import Store
from andon.engine.codes import CodeBook
from andon.lifecycle.routing import kind_of
from andon.lifecycle.waiting import Ahead, Wait, Why, why_waits
from andon.model.code import Code
from andon.model.fleet import QueueConfig, WorkerInfo
from andon.model.task import Task
from andon.model.words import State

_MOST_OF_KEY = 1_000


class KindWait(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one kind that a queue has ready, and what they wait for."""

    queue: str
    kind: str  #: as `lifecycle.routing` writes it: `name`, `name@2`, with `?` if any worker may run
    why: Why
    text: str
    oldest_at: int | None = None  #: ms UTC since which about the oldest waits, where that is known


class Waits:
    """What waits for what, on one store."""

    def __init__(self, store: Store, codes: CodeBook) -> None:
        self._store = store
        self._codes = codes

    async def of_queues(self, queues: Sequence[str] = ()) -> list[KindWait]:
        """What keeps the ready kinds of these queues, or of all, from starting; kinds that are
        about to start are not listed."""
        ready = await self._store.ready_kinds(queues)
        if not ready:
            return []
        configs = {config.name: config for config in await self._store.queues()}
        workers, codes = await self._fleet()
        active: dict[str, int] = {}
        if any(_limits(configs, one.queue) for one in ready):
            active = await self._active()
        found: list[KindWait] = []
        for one in ready:
            config = configs.get(one.queue) or QueueConfig(name=one.queue)
            wait = why_waits(
                one.kind, config, workers=workers, codes=codes, active=active.get(one.queue, 0)
            )
            if wait is not None:
                found.append(
                    KindWait(
                        queue=one.queue,
                        kind=one.kind,
                        why=wait.why,
                        text=wait.text,
                        oldest_at=one.oldest_at,
                    )
                )
        return found

    async def of_task(self, task: Task) -> Wait | None:
        """What one task waits for; None if it is not pending, or about to start."""
        if task.state is not State.PENDING:
            return None
        definition = task.definition
        configs = {config.name: config for config in await self._store.queues()}
        config = configs.get(definition.queue) or QueueConfig(name=definition.queue)
        workers, codes = await self._fleet()
        active = active_of_key = None
        ahead: list[Ahead] = []
        if config.max_concurrent is not None:
            active = (await self._active()).get(definition.queue, 0)
        if config.max_concurrent_per_key is not None and definition.key is not None:
            active_of_key = len(await self._of_key(task, State.ACTIVE))
            ahead = _ahead_of(task, await self._of_key(task, State.PENDING))
        return why_waits(
            kind_of(definition, task.policy),
            config,
            workers=workers,
            codes=codes,
            active=active,
            active_of_key=active_of_key,
            ahead=ahead,
        )

    async def _fleet(self) -> tuple[list[WorkerInfo], Mapping[str, Code]]:
        workers = await self._store.workers()
        return workers, await self._codes.find({one.code for one in workers if one.code})

    async def _active(self) -> dict[str, int]:
        stats = await self._store.stats()
        return {one.queue: one.counts.get(State.ACTIVE.value, 0) for one in stats}

    async def _of_key(self, task: Task, state: State) -> Sequence[Task]:
        """Tasks of the same key in its queue, as many of them as one page finds."""
        definition = task.definition
        query = Query(
            key=definition.key, queue=definition.queue, states=(state,), limit=_MOST_OF_KEY
        )
        return (await self._store.find(query)).tasks


def _ahead_of(task: Task, pending: Sequence[Task]) -> list[Ahead]:
    """The tasks before a task, in their order. They are given in order of creation, which decides
    between equals."""
    in_order = sorted(pending, key=_place)
    before: list[Ahead] = []
    for one in in_order:
        if one.id == task.id or _place(one) > _place(task):
            break
        before.append(Ahead(one.id, kind_of(one.definition, one.policy)))
    return before


def _place(task: Task) -> tuple[int, int]:
    return -task.status.priority, task.status.order


def _limits(configs: Mapping[str, QueueConfig], queue: str) -> bool:
    config = configs.get(queue)
    return config is not None and config.max_concurrent is not None
