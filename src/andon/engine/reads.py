"""The reads of the engine in this process: tasks, moves, counts, configuration, workers."""

from collections.abc import Sequence

from andon.contract.queries import EventPage, History, Page, Query
from andon.contract.store import Store
from andon.contract.topics import Listener
from andon.engine.dependencies import dependents_of
from andon.engine.letter_groups import LOOK, letter_groups
from andon.engine.reading import (
    MOST_CURSOR,
    check_asked,
    check_page,
    check_query,
    queue_histories,
    records,
)
from andon.lifecycle.admission import is_id
from andon.lifecycle.parents import waits_for
from andon.model.errors import TaskNotFound
from andon.model.fleet import (
    QueueConfig,
    QueueHistory,
    QueueStats,
    StoreInfo,
    TypeInfo,
    WorkerInfo,
)
from andon.model.letters import LetterGroups
from andon.model.task import Task


class StoreReads:
    """The part of an engine that changes nothing and needs nothing but the store. What a caller
    asks for is checked before the store is asked."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def now(self) -> int:
        return self.store.now()

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        return await records(self.store, ids)

    async def history(self, task_id: str) -> History:
        return await self.store.history(task_id) if is_id(task_id) else History(())

    async def find(self, query: Query) -> Page:
        check_query(query)
        return await self.store.find(query)

    async def dependents(self, task_id: str, cursor: str = "", limit: int = 100) -> Page:
        check_page(limit)
        [task] = await self.get([task_id])
        if task is None:
            raise TaskNotFound(task_id)
        return await dependents_of(self.store, task_id, cursor, limit)

    async def dependency_results(self, task: Task) -> dict[str, Task | None]:
        ids = [parent for parent in waits_for(task) if parent != task.id]
        found = dict(zip(ids, await self.get(ids), strict=True))
        if task.status.added:  # additions of a run that did not complete do not count
            named = frozenset(task.definition.dependencies)
            found = {i: one for i, one in found.items() if one is not None or i in named}
        return found

    async def stats(self) -> list[QueueStats]:
        return await self.store.stats()

    async def queue_history(self, queue: str | None = None, days: int = 7) -> list[QueueHistory]:
        return await queue_histories(self.store, queue, days)

    async def letter_groups(
        self,
        queue: str | None = None,
        name: str | None = None,
        *,
        look: int = LOOK,
        cursor: str = "",
    ) -> LetterGroups:
        return await letter_groups(self, queue=queue, name=name, look=look, cursor=cursor)

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        check_asked(cursor, field="cursor", most=MOST_CURSOR)
        return await self.store.events(cursor, limit)

    async def events_end(self) -> str:
        return await self.store.events_end()

    def listen(self, topics: Sequence[str]) -> Listener:
        return self.store.listen(topics)

    async def queues(self) -> list[QueueConfig]:
        return await self.store.queues()

    async def types(self) -> list[TypeInfo]:
        return await self.store.types()

    async def workers(self) -> list[WorkerInfo]:
        return await self.store.workers()

    async def partitions(self) -> int:
        return self.store.partitions

    async def info(self) -> StoreInfo:
        return await self.store.info()
