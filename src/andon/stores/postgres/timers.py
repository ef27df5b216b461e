"""Timers: taken when they have passed, held back from others meanwhile, set anew."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.isolation import each_alone
from andon.contract.outcomes import Due
from andon.contract.refusals import timer_refused
from andon.contract.requests import Change
from andon.contract.topics import TIMER_TOPIC, ready_topic
from andon.lifecycle.constants import JUMP_MS, LEASE_PATIENCE_MS, NEAR_TIMER_MS
from andon.model.words import State
from andon.stores.kit.codec import task_of_row
from andon.stores.postgres.server import Server

if TYPE_CHECKING:
    from andon.model.task import Task

_KEEP_S = 1.0
"""How often a timekeeper folds the counts, at the most."""


class Timers:
    """The operations for timekeepers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._held: dict[str, int] = {}  # by task, until when a taken timer is held back
        self._kept = 0.0

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        """See the contract. It also does the other chores of a timekeeper, once a second at the
        most."""
        server = self._server
        jump = 0 if server.clock.virtual is not None else JUMP_MS
        keeps = time.monotonic() - self._kept >= _KEEP_S
        rows = await server.write(
            server.calls.take_due,
            server.clock.argument(),
            partition,
            limit,
            hold_ms,
            jump,
            LEASE_PATIENCE_MS,
            keeps,
        )
        if keeps:
            self._kept = time.monotonic()
        *rows, end = rows
        now: int = end["claimed_at"]
        server.clock.tell(now)
        tasks: list[Task] = []
        broken: list[int] = []
        for row in rows:
            task = task_of_row(row)
            if task.state is State.UNKNOWN:
                broken.append(row[0])
            else:
                self._held[task.id] = now + hold_ms
                tasks.append(task)
        await server.set_aside(broken)
        if end["message"]:  # parked tasks were let through there
            names = await server.names.named(map(int, end["message"].split()))
            server.wake.tell({ready_topic(name) for name in names}, ["ready"])
        return Due(tuple(tasks), now, end["lease_until"])

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        """Set timers of tasks that were taken and have not moved since."""
        server = self._server
        known = [(i, at, held) for i, at in timers if (held := self._held.pop(i, None)) is not None]
        if not known:
            return
        await each_alone(self._rearm, known, timer_refused)
        soon = server.clock.now() + NEAR_TIMER_MS
        if any(timer is not None and timer < soon for _, timer, _ in known):
            server.wake.tell({TIMER_TOPIC}, None)

    async def _rearm(self, known: Sequence[tuple[str, int | None, int]]) -> list[None]:
        server = self._server
        columns = (list(column) for column in zip(*known, strict=True))
        await server.write(server.calls.rearm, server.clock.argument(), *columns)
        return [None] * len(known)

    def moved(self, applied: Sequence[Change]) -> None:
        """A task that has moved has a timer of its own, and is not rearmed."""
        if self._held:
            for change in applied:
                self._held.pop(change.before.id, None)
