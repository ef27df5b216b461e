"""Claiming: what is asked for, and the records that come back stamped."""

import asyncio
from collections.abc import Sequence
from typing import Any

from andon.model.task import Task
from andon.model.words import State
from andon.stores.base import (
    EVENTS_TOPIC,
    SLOW_POLL_S,
    TIMER_TOPIC,
    ClaimRequest,
    ready_topic,
    task_topic,
)
from andon.stores.codec import task_of_row
from andon.stores.postgres.server import Server


class Claiming:
    """The one move that the store makes itself."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def claim(self, request: ClaimRequest) -> list[Task]:
        """Stamp pending tasks in the order that the request asks for."""
        server = self._server
        ids = server.names.ids
        await server.names.know_if_there(request.queues, request.room)
        room = {
            ids[name]: left
            for name, left in request.room.items()
            if name in ids and left < request.limit
        }
        queues = [ids[name] for name in request.queues if name in ids]
        if not queues or request.limit <= 0:
            return []
        rows = await server.write(
            server.calls.claim,
            server.clock.argument(),
            server.instance,
            request.worker,
            request.token,
            queues,
            request.limit,
            request.lease_ms,
            list(room),
            list(room.values()),
            request.partition,
        )
        claimed: list[Task] = []
        broken: list[int] = []
        topics: set[str] = set()
        last: Any = None
        for row in rows:
            if row[0] is None:
                if row["lease_until"] is not None:
                    self._hint_when_rate_allows(request.queues, row["lease_until"])
                if row["progress"]:
                    server.wake.tell({TIMER_TOPIC}, row["wanted"])
                continue
            last = row
            task = task_of_row(row)
            if task.state is State.UNKNOWN:
                broken.append(row[0])
                continue
            claimed.append(task)
            topics.add(task_topic(task.definition.id))
        if last is not None:
            server.clock.told(last["told"])
            if request.lease_ms < SLOW_POLL_S * 1000:
                topics.add(TIMER_TOPIC)
            if last["pos"] is not None:
                server.wake.newest_own = max(server.wake.newest_own, last["pos"])
                server.wake.tell(topics | {EVENTS_TOPIC}, last["wanted"])
        await server.set_aside(broken)
        return claimed

    def _hint_when_rate_allows(self, queues: Sequence[str], wait_ms: int) -> None:
        """Wake the claimers of a rate-limited queue when its next token is there."""
        loop = asyncio.get_running_loop()
        wait = min(max(wait_ms / 1000, 0.001), SLOW_POLL_S)
        topics = {ready_topic(name) for name in queues}
        loop.call_later(wait, self._server.hub.hint_all, topics)
