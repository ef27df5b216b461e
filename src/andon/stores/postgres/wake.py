"""Wakes other processes and is woken by them: LISTEN and NOTIFY, but only while one is asleep.

A process that listens leaves a mark with the kinds of hints it sleeps for. Every write reads the
marks of others with its own statement and, if there are any, sends one notification for all hints
collected so far, after its commit: a NOTIFY inside the writing transaction would make commits wait
for each other. A busy process removes its mark, and leaves it again before it sleeps; then it wakes
up once for nothing, because a hint may have been missed in between.

There are two channels: one for what every process listens to, and one for all else, so that a
process that only submits is not woken by each of its own tasks. A process with workers has a
hand-off channel of its own, which brings the tasks that are handed to its parked claims.

Hints that are lost with a connection are made up for by the slow poll of each waiting loop.
"""

import asyncio
import binascii
import contextlib
import random
import secrets
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, Self

from andon.contract.hints import HintListener, Hub
from andon.contract.topics import CONFIG_TOPIC, Listener, run_topic, task_topic
from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.errors import AndonError
from andon.model.task import Task
from andon.stores.kit.parked_claims import Handoff, ParkedClaims
from andon.stores.kit.topics import kind_of
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.connection import Connection, connect
from andon.stores.postgres.connections import heeding
from andon.stores.postgres.location import Location
from andon.stores.postgres.names import Run
from andon.stores.postgres.statements import Statements

_HANDOFF_CHANNEL = "andon_"
"""What the name of a hand-off channel begins with; the number of the process follows."""

_MOST_BYTES = 7_900
"""PostgreSQL takes notifications of less than 8,000 bytes."""

_BUSY_AFTER = 200
"""After so many notifications that came while no listener of this process waited, the mark is
removed."""

_BACKOFF = ExponentialBackoff(0.02, 5.0)

_LEAVE_S = 1.0
"""How long closing waits for the server to remove our mark; otherwise a timekeeper removes it."""


_TASK, _RUN = kind_of(task_topic("")), kind_of(run_topic(""))


class Wake:
    """The hints of one store instance."""

    def __init__(
        self,
        location: Location,
        instance: str,
        hub: Hub,
        *,
        run: Run,
        calls: Statements,
        clock: PostgresClock,
    ) -> None:
        self._location = location
        self._instance = instance
        self._hub = hub
        self._run = run
        self._calls = calls
        self._clock = clock
        self.config = f"andon_{location.namespace}"  #: channel that every process listens to
        self.work = f"{self.config}_work"  #: channel of all else
        self._db: Connection | None = None
        self._kinds: set[str] = set()  # marked
        self._wanted: set[str] = set()  # to be marked
        self._unheeded = 0
        self._waiters = 0
        self._keeper: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._pending: set[str] = set()
        self._sender: asyncio.Task[None] | None = None
        self._lost = False
        self._failures = 0  # of the listening connection, in a row
        self._rng = random.Random()
        self.newest_own = 0  #: newest event that this process wrote, or found when it opened
        self.in_flight = 0  #: its writes on their way
        self._background: set[asyncio.Task[Any]] = set()
        self.parked = ParkedClaims()
        self.ear: int | None = None  #: number of the hand-off channel
        self._takes_runs = False

    # --- being woken ---

    def listen(self, topics: Iterable[str]) -> Listener:
        """Subscribe; the connection is made, and the mark left, in the background."""
        wanted = list(topics)
        kinds = {kind_of(topic) for topic in wanted}
        if not kinds <= self._wanted:
            self._wanted |= kinds
            self._changed.set()
        self._begin()
        return _Listening(self._hub.listen(wanted), self)

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        """Call `act` with the tasks that are handed to this worker's parked claim."""
        self.parked.on_handoff(worker, act)
        if act is not None and not self._takes_runs:
            self._takes_runs = True
            self._changed.set()
            self._begin()

    def waiting(self, change: int) -> None:
        """A listener of this process begins (1) or stops (-1) to wait."""
        self._waiters += change
        if change > 0:
            self._unheeded = 0
            if not self._wanted <= self._kinds:
                self._changed.set()

    def _begin(self) -> None:
        if self._keeper is None and not self._location.pgbouncer:
            self._keeper = asyncio.ensure_future(self._keep())

    async def _keep(self) -> None:
        """Keep the listening connection and the mark as they are wanted, until closed."""
        task = asyncio.current_task()
        assert task is not None
        while not task.cancelling():
            try:
                await self._listen_until_lost(task)
            except Exception:  # the driver may turn a cancel into one
                self._db = None
                self._kinds.clear()
            if not task.cancelling():
                self._failures += 1
                await asyncio.sleep(_BACKOFF.pause(self._failures, self._rng))

    async def _listen_until_lost(self, task: asyncio.Task[Any]) -> None:
        db = await connect(self._location, application="andon listener")
        lost = asyncio.Event()

        def end(_: object) -> None:
            lost.set()
            self._changed.set()

        db.add_termination_listener(end)
        try:
            if task.cancelling():  # the driver swallowed it (see `heeding`), and raised this
                return
            await heeding(db.add_listener(self.config, self._heard))
            self._db = db
            self._failures = 0
            while not lost.is_set():
                if self._takes_runs and self.ear is None:
                    await heeding(self._open_handoff_channel(db))
                await heeding(self._mark(db))
                await self._changed.wait()
                self._changed.clear()
        finally:
            self._db = self.ear = None
            self._kinds.clear()
            try:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_LEAVE_S):
                        if not db.is_closed():
                            await db.execute(self._calls.wake.replace("$1", f"'{self._instance}'"))
                        await db.close()
            finally:  # in a task that is cancelled, Python 3.11.2 ends a timeout as a cancel
                db.terminate()

    async def _open_handoff_channel(self, db: Connection) -> None:
        """Listen to the hand-off channel, and hold the lock that shows others that we do."""
        ear = secrets.randbits(62)
        await db.add_listener(f"{_HANDOFF_CHANNEL}{ear}", self._heard_run)
        await db.execute(self._calls.hear, ear)
        self.ear = ear

    def _heard_run(self, _db: Any, _pid: int, _channel: str, payload: object) -> None:
        token, number, place, now, fence, seq, size, coded = str(payload).split("\n", 7)
        bodies, status_at = binascii.a2b_base64(coded), int(size)
        self._clock.tell(int(now))
        self.parked.handed_off(
            Handoff(
                token,
                int(number),
                f"{token}-{place}",
                int(fence),
                int(now),
                bodies[:status_at],
                bodies[status_at:],
                int(seq),
            )
        )

    async def _mark(self, db: Connection) -> None:
        if self._wanted <= self._kinds:
            return
        kinds = set(self._wanted)
        if kinds != {CONFIG_TOPIC}:  # once for each connection: the driver knows what it listens to
            await db.add_listener(self.work, self._heard)
        await db.execute(self._calls.sleep, self._instance, sorted(kinds))
        was_new = not self._kinds
        self._kinds = kinds
        if await self._others_wrote(db) or (self._lost and was_new):
            # Writers may not have seen our mark.
            self._hub.hint_all(set(self._hub.listeners))
        self._lost = False

    async def _others_wrote(self, db: Connection) -> bool:
        """Whether there are events newer than our own. This cannot be decided while writes of ours
        are on their way; if there always are some, it is assumed."""
        for _ in range(5):
            newest: int = await db.fetchval(self._calls.newest_pos)
            if newest <= self.newest_own:
                return False
            if not self.in_flight:
                return True
            await asyncio.sleep(0.005)
        return True

    def _heard(self, _db: Any, _pid: int, _channel: str, payload: object) -> None:
        sender, *told = str(payload).split("\n")
        if sender == self._instance:
            return
        topics = set(told)
        whole = {topic for topic in topics if ":" not in topic}
        if whole:
            topics |= {topic for topic in self._hub.listeners if kind_of(topic) in whole}
        self._hub.hint_all(topics)
        if not self._waiters:
            self._unheeded += 1
            if self._unheeded > _BUSY_AFTER and self._kinds:
                self._kinds.clear()
                self._lost = True
                self._unheeded = 0
                self._pending_unmark()

    def _pending_unmark(self) -> None:
        async def unmark() -> None:
            with contextlib.suppress(AndonError):
                await self._run(self._calls.wake, self._instance)

        task = asyncio.ensure_future(unmark())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # --- waking ---

    def tell(
        self,
        topics: Set[str],
        wanted: Iterable[str] | None,
        moved: Sequence[str] = (),
        begun: Sequence[str] = (),
    ) -> None:
        """Hint the listeners of this process, and other processes that sleep for such a kind.
        Topics of tasks that moved, and of runs that began, are made only if a listener waits for
        one."""
        if self._hub.listeners:
            self._hub.hint_all(topics, moved, begun)
        if wanted:
            kinds = set(wanted)
            if _TASK in kinds:
                topics = topics | {task_topic(task) for task in moved}
            if _RUN in kinds:
                topics = topics | {run_topic(task) for task in begun}
            self._pending |= {topic for topic in topics if kind_of(topic) in kinds}
            if self._pending and self._sender is None:
                self._sender = asyncio.ensure_future(self._send())

    def notes(self, topics: Set[str], wanted: Iterable[str] | None) -> tuple[list[str], list[str]]:
        """The notifications of a user's transaction, by channel: to every process, this one too."""
        kinds = set(wanted or ())
        return self._notes("", {topic for topic in topics if kind_of(topic) in kinds})

    def _notes(self, sender: str, topics: Set[str]) -> tuple[list[str], list[str]]:
        """Channels, and the payload for each."""
        parts = {self.config: topics & {CONFIG_TOPIC}, self.work: topics - {CONFIG_TOPIC}}
        told = {channel: payload(sender, part) for channel, part in parts.items() if part}
        return list(told), list(told.values())

    async def _send(self) -> None:
        try:
            while self._pending:
                topics, self._pending = self._pending, set()
                with contextlib.suppress(AndonError):
                    await self._run(self._calls.notify, *self._notes(self._instance, topics))
        finally:
            self._sender = None

    async def close(self) -> None:
        """Send the pending notifications, remove the mark, close the connection."""
        if self._sender is not None:
            await asyncio.wait({self._sender}, timeout=_LEAVE_S)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait({keeper})


def payload(sender: str, topics: Iterable[str]) -> str:
    """Topics as a notification; if they do not fit, the kinds alone."""
    text = "\n".join([sender, *sorted(topics)])
    if len(text.encode()) <= _MOST_BYTES:
        return text
    return "\n".join([sender, *sorted({kind_of(topic) for topic in topics})])


class _Listening:
    """A listener that says when it waits."""

    def __init__(self, inner: HintListener, wake: Wake) -> None:
        self._inner = inner
        self._wake = wake

    async def wait(self, timeout: float | None) -> bool:
        self._wake.waiting(1)
        try:
            return await self._inner.wait(timeout)
        finally:
            self._wake.waiting(-1)

    def notify(self) -> None:
        self._inner.notify()

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
