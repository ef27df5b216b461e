"""Publishes the task types of a worker, and has it claim what it has code for.

Types may be registered while the worker runs, by any import, in any thread.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from andon.engine.base import Engine
from andon.model.code import Code
from andon.model.errors import InvalidSubmission, PermissionRefused
from andon.worker.executors.base import Executor
from andon.worker.registry import Registry, TaskType

logger = logging.getLogger("andon.worker")


class TypePublisher:
    """The types of one worker. `claim` is called with what the worker has code for, once that is
    published."""

    def __init__(
        self,
        engine: Engine,
        registry: Registry,
        executors: Mapping[str, Executor],
        *,
        claim: Callable[[Code], None],
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._executors = executors
        self._claim = claim
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._published: Code | None = None
        self._refused: Code | None = None  #: the log said that the store does not keep it

    @property
    def code(self) -> Code:
        """Names and versions of the types that the worker can run."""
        types = (kind for kind in self._registry if kind.kind in self._executors)
        return Code.of((kind.name, kind.version) for kind in types)

    def watch(self) -> Callable[[], None]:
        """Subscribe to types that are registered from now on; calling what is returned ends
        that."""
        return self._registry.watch(self._note)

    async def publish(self) -> None:
        """Publish the types, and from then on claim what there is code for."""
        kinds, code = list(self._registry), self.code
        # Types first: a claim fills in the policy of a task whose submitter had no code
        # (docs/rulings.md, R5).
        await self._engine.publish_types([kind.info for kind in kinds])
        await self._keep(code)
        self._claim(code)
        self._published = code

    async def keep_code(self) -> None:
        """Have the store keep the list of types that the worker has code for. Costs nothing, except
        once a day."""
        await self._keep(self.code)

    async def follow(self, take_in: Callable[[], None]) -> None:
        """Wait until there are types that were not published, and publish them. `take_in` is called
        first, each time that types were registered: it may let the worker run more kinds."""
        while self._published == self.code:
            await self._changed.wait()
            self._changed.clear()
            take_in()
        take_in()  # for types registered before this began to wait
        await self.publish()

    def _note(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    async def _keep(self, code: Code) -> None:
        try:
            await self._engine.keep_code(code)
        except (InvalidSubmission, PermissionRefused) as error:  # no reason not to run tasks
            if self._refused != code:
                logger.warning("What this worker has code for is not shown: %s", error)
            self._refused = code


def queues_of(types: Iterable[TaskType]) -> set[str]:
    """The queues to which tasks of these types go."""
    return {"default", *(kind.queue for kind in types)}
