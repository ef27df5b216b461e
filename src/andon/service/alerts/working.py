"""The worker of the queue of alerts, within the service: it starts once there is a target.

Each target has two deliveries at once at the most, by the queue's limit for each key, so that one
that hangs holds up no other.
"""

import asyncio
import logging
import random
from typing import get_args

from andon.contract.topics import CONFIG_TOPIC
from andon.engine.alerts import task_name
from andon.engine.local import LocalEngine
from andon.model.alerts import ALERTS_QUEUE, How
from andon.model.fleet import QueueConfig
from andon.service.alerts.delivering import Deliverer
from andon.worker.background import keep_on
from andon.worker.calls import Call
from andon.worker.config import WorkerConfig
from andon.worker.registry import Registry, TaskType
from andon.worker.worker import Worker

log = logging.getLogger("andon.service")

AT_ONCE_EACH = 2
"""Deliveries to one target at once."""

_LOOK_S = 60.0
_GRACE_S = 2.0


class AlertWorker:
    """Delivers alerts from this process."""

    def __init__(self, engine: LocalEngine, *, commands: bool) -> None:
        self._engine = engine
        self._deliverer = Deliverer(engine.alerts, commands=commands)
        self._worker: Worker | None = None
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch for targets, and work once there is one."""
        follows = keep_on("Alerts", self._follow, random.Random())
        self._watching = asyncio.create_task(follows)

    async def stop(self) -> None:
        """Stop. Deliveries under way are handed back, and made by the next worker."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._worker is not None:
            await self._worker.stop()
        await self._deliverer.close()

    async def _follow(self) -> None:
        with self._engine.listen([CONFIG_TOPIC]) as hints:
            while self._worker is None:
                if (await self._engine.alerts.book()).targets:
                    await self._work()
                    break
                await hints.wait(_LOOK_S)
        await asyncio.Event().wait()  # it works until it is stopped

    async def _work(self) -> None:
        worker = Worker(
            self._engine,
            registry_of(self._deliverer),
            WorkerConfig(queues=(ALERTS_QUEUE,), shutdown_grace=_GRACE_S),
            prepare=self._limit_each,
        )
        await worker.start()
        self._worker = worker
        log.info("Alerts are delivered from here.")

    async def _limit_each(self) -> None:
        """Set the limit of the queue, unless a setting of it has been changed."""
        known = {config.name: config for config in await self._engine.queues()}
        if known.get(ALERTS_QUEUE, QueueConfig(name=ALERTS_QUEUE)) == QueueConfig(
            name=ALERTS_QUEUE
        ):
            await self._engine.configure_queue(
                ALERTS_QUEUE, {"max_concurrent_per_key": AT_ONCE_EACH}
            )


def registry_of(deliverer: Deliverer) -> Registry:
    """The task types that deliver to targets."""
    registry = Registry()
    for how in get_args(How):
        registry.add(
            TaskType(
                name=task_name(how),
                codec=Call(deliverer.tell),
                handler=deliverer.tell,
                queue=ALERTS_QUEUE,
                wants_context=True,
            )
        )
    return registry
