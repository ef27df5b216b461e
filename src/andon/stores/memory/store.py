"""The store in memory: the whole contract without I/O.

It encodes nothing, so it also accepts values that a durable store cannot encode; it refuses only
those that no index can hold.

Everything happens between two awaits of one event loop, so each method is atomic as it stands and
a cancelled caller never leaves half a write behind. It promises nothing beyond the life of its
process, and says so in `info`.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.hints import Hub
from andon.contract.isolation import AT_FAULT, each_alone_blocking
from andon.contract.limits import SCAN_BUDGET
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.outcomes import Changed, Created, Due, Verdict
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.refusals import create_refused
from andon.contract.requests import Change, ClaimRequest, NotedTask, Renewal, Snapshot
from andon.contract.topics import CONFIG_TOPIC, Listener, ready_topic, run_topic
from andon.lifecycle.constants import JUMP_MS, SLOW_POLL_S, WORKER_SEEN_MS
from andon.lifecycle.discarded import Discarded
from andon.lifecycle.timers import next_timer
from andon.model.errors import ConfigurationError
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import RECORD_VERSION, RunCell, Task, Tombstone
from andon.model.urls import shown
from andon.model.words import State
from andon.stores.kit.monotone_clock import MonotoneClock
from andon.stores.kit.partitions import partition_of
from andon.stores.kit.url_options import MAX_EVENTS
from andon.stores.memory.claims import Claims
from andon.stores.memory.committing import commit
from andon.stores.memory.creating import Creating
from andon.stores.memory.events import EventLog
from andon.stores.memory.fleet import Fleet
from andon.stores.memory.notes import Notes
from andon.stores.memory.records import Records

if TYPE_CHECKING:
    from andon.stores.memory.row import Row

_DEFAULTS = {"partitions": 1, "max_events": MAX_EVENTS}


class MemoryStore:
    """`memory://`, with options `?partitions=4` and `?max_events=1000`.

    `clock` gives ms UTC, for tests that run virtual time; `steady` the elapsed time to hold it
    against, where a test sets the clock.
    """

    slack_ms = 0
    in_flight = 1
    creates_in_flight = 1
    claims_ahead = False

    def __init__(
        self,
        url: str = "memory://",
        *,
        clock: Callable[[], int] | None = None,
        steady: Callable[[], int] | None = None,
        poll_s: float = SLOW_POLL_S,
    ) -> None:
        """`poll_s`: how often loops that wait for its hints look without one. None of its hints is
        lost, so in virtual time that may be rare."""
        options = _options(url)
        self.url = url
        self.partitions = options["partitions"]
        self._clock = MonotoneClock(clock, steady=steady)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cells = threading.Lock()  # held from reading a run cell to writing the record
        self._hub = Hub()
        self._notes = Notes()
        self._fleet = Fleet(seen_ms=WORKER_SEEN_MS * poll_s / SLOW_POLL_S)
        self._log = EventLog(self.partitions, options["max_events"])
        self._records = Records(
            fleet=self._fleet,
            log=self._log,
            hub=self._hub,
            partitions=self.partitions,
            poll_s=poll_s,
        )
        self._creating = Creating(
            records=self._records,
            fleet=self._fleet,
            notes=self._notes,
            now=self._clock.now,
            partitions=self.partitions,
        )
        self._claims = Claims(records=self._records, fleet=self._fleet, hub=self._hub)

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        self._claims.close()
        self._hub.close()

    def now(self) -> int:
        return self._clock.now()

    def partition_of(self, task_id: str) -> int:
        return partition_of(task_id, self.partitions)

    # --- the life of a task ---

    async def create(self, tasks: Sequence[Task]) -> list[Created]:
        try:
            return self._creating.create(tasks)
        except AT_FAULT:
            return each_alone_blocking(self._creating.create, tasks, create_refused)

    async def create_together(self, tasks: Sequence[Task]) -> bool:
        return self._creating.create_together(tasks)

    async def create_with_notes(self, noted: Sequence[NotedTask]) -> list[Created]:
        try:
            return self._creating.create_with_notes(noted)
        except AT_FAULT:
            return each_alone_blocking(self._creating.create_with_notes, noted, create_refused)

    async def claim(self, request: ClaimRequest) -> list[Task]:
        return self._claims.claim(request, self._clock.now())

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        verdicts = self._renew_all(renewals)
        self._hint_progress(renewals)
        return verdicts

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        verdicts = self._renew_all(renewals)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._hint_progress, renewals)
        return verdicts

    def _renew_all(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        now = self.now()
        with self._cells:
            return [self._renew(renewal, now) for renewal in renewals]

    def _hint_progress(self, renewals: Sequence[Renewal]) -> None:
        for renewal in renewals:
            if renewal.progress is not None or renewal.message is not None:
                self._hub.hint(run_topic(renewal.task))

    def _renew(self, renewal: Renewal, now: int) -> Verdict:
        row = self._records.rows.get(renewal.task)
        if row is None or row.task.cell is None or row.task.cell.run != renewal.run:
            return Verdict.LOST
        cell = row.task.cell
        renewed = RunCell(
            run=cell.run,
            lease_until=max(cell.lease_until, now + renewal.lease_ms),
            heartbeat_at=now if renewal.heartbeat else cell.heartbeat_at,
            progress=cell.progress if renewal.progress is None else renewal.progress,
            message=cell.message if renewal.message is None else renewal.message,
        )
        self._records.put_cell(row, renewed)
        return Verdict.OK if row.task.status.cancel_requested_at is None else Verdict.CANCEL

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        now = self._clock.now()
        with self._cells:
            return [commit(self._records, change, now) for change in changes]

    # --- timers ---

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        now = self.now()
        if self._clock.jumped() > JUMP_MS:
            with self._cells:
                self._grant_leases(now)
        timers = self._records.timers[partition]
        taken: list[Row] = []
        looked = 0
        while len(taken) < limit and looked < SCAN_BUDGET:
            first = timers.first()
            if first is None or first[0] > now:
                break
            looked += 1
            timers.discard(first[1])
            row = self._records.rows[first[1]]
            renewed = next_timer(row.task) if row.entry.state is State.ACTIVE else None
            if renewed is not None and renewed > now:
                timers.put(first[1], renewed)
            else:
                taken.append(row)
        for row in taken:
            timers.put(row.id, now + hold_ms)
            row.held = True
        first = timers.first()
        return Due(tuple(row.copy() for row in taken), now, None if first is None else first[0])

    def _grant_leases(self, now: int) -> None:
        """After a jump of the clock every run gets one full lease to be renewed (docs/rulings.md,
        R19)."""
        for row in self._records.lists.of(State.ACTIVE):
            cell = row.task.cell
            assert cell is not None
            lease_until = max(cell.lease_until, now + round(row.task.policy.lease * 1000))
            self._records.put_cell(row, replace(cell, lease_until=lease_until, heartbeat_at=now))

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        now = self.now()
        for task_id, at in timers:
            row = self._records.rows.get(task_id)
            if row is not None and row.held:
                self._records.arm(row, at, now)

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        now = self.now()
        return [ended for link in links for ended in self._records.link(link, now)]

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        now = self.now()
        return [self._records.settle(settlement, now) for settlement in settlements]

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        return self._records.edges.page(parent, after, limit)

    async def dependents_of_each(
        self, parents: Sequence[tuple[str, str]], limit: int
    ) -> list[list[Edge]]:
        return [self._records.edges.page(parent, after, limit) for parent, after in parents]

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        for parent, child in edges:
            self._records.edges.release_edges(parent, child)
        self._records.free(dict.fromkeys(parent for parent, _ in edges), self.now())

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        for parent, child in edges:
            self._records.edges.remove(parent, child)
        self._records.free(dict.fromkeys(parent for parent, _ in edges), self.now())

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        taken = self._records.edges.take_unsettled(limit)
        return [(parent, self._records.rows[parent].entry.state) for parent in taken]

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        now = self.now()
        return [self._restore(snapshot, now) for snapshot in snapshots]

    def _restore(self, snapshot: Snapshot, now: int) -> bool:
        task_id = snapshot.task.id
        if task_id in self._records.rows or self._records.stub(task_id, now) is not None:
            return False
        self._records.restore(snapshot, self.partition_of(task_id), now)
        return True

    # --- reading ---

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        rows = self._records.rows
        return [rows[task_id].copy() if task_id in rows else None for task_id in ids]

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        now = self.now()
        return [self._records.state(task_id, now) for task_id in ids]

    async def tombstones(self, ids: Sequence[str]) -> list[Tombstone | None]:
        now, rows = self.now(), self._records.rows
        stubs = [None if i in rows else self._records.stub(i, now) for i in ids]
        return [None if stub is None else stub.left for stub in stubs]

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        now, rows = self.now(), self._records.rows
        stubs = [None if i in rows else self._records.stub(i, now) for i in ids]
        return [None if stub is None else stub.discarded for stub in stubs]

    async def history(self, task_id: str) -> History:
        row = self._records.rows.get(task_id)
        if row is None:
            return History(())
        return History(tuple(row.history), row.task.status.revision - len(row.history))

    async def find(self, query: Query) -> Page:
        return self._records.lists.find(query)

    async def stats(self) -> list[QueueStats]:
        return self._records.stats()

    async def tallies(self, queue: str | None, since: int) -> list[Tallied]:
        return self._records.days.read(queue, since)

    async def ready_kinds(self, queues: Sequence[str] = ()) -> list[ReadyKind]:
        return self._records.ready.kinds(queues)

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        return self._log.read(cursor, limit)

    async def events_end(self) -> str:
        return self._log.end()

    def listen(self, topics: Iterable[str]) -> Listener:
        return self._hub.listen(topics)

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        return [self._fleet.queues[name] for name in sorted(self._fleet.queues)]

    async def put_queue(self, config: QueueConfig, *, expect: QueueConfig) -> bool:
        if self._fleet.queue(config.name) != expect:
            return False
        self._fleet.queues[config.name] = config
        self._claims.configured(config.name)
        self._records.ready.set_key_limit(config.name, config.max_concurrent_per_key)
        self._hub.hint(CONFIG_TOPIC)
        self._hub.hint(ready_topic(config.name))
        return True

    async def types(self) -> list[TypeInfo]:
        return self._fleet.types()

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        self._fleet.put_types(types)
        self._hub.hint(CONFIG_TOPIC)

    async def workers(self) -> list[WorkerInfo]:
        return self._fleet.workers(self.now())

    async def put_worker(self, info: WorkerInfo) -> None:
        self._fleet.put_worker(info, self.now())

    async def remove_worker(self, worker: str) -> None:
        self._fleet.remove_worker(worker)

    async def setting(self, name: str) -> bytes | None:
        return self._fleet.settings.get(name)

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        if self._fleet.settings.get(name) != expect:
            return False
        self._fleet.settings[name] = value
        return True

    # --- notes ---

    async def notes(self, names: Sequence[NoteName]) -> list[bytes | None]:
        return [self._notes.get(name) for name in names]

    async def put_notes(self, puts: Sequence[PutNote]) -> list[NotePut]:
        return [self._notes.put(put) for put in puts]

    async def list_notes(
        self, kind: str, scope: str, after: str = "", limit: int = 100
    ) -> list[Note]:
        return list(self._notes.page(kind, scope, after, limit))

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        now = self.now()
        self._records.days.trim(now)
        events = self._log.trim(now, limit)
        return events + self._records.trim_stubs(now, limit - events)

    async def info(self) -> StoreInfo:
        rows = self._records.rows.values()
        payload = sum(len(r.task.definition.args) + len(r.task.result or b"") for r in rows)
        return StoreInfo(
            kind="memory",
            location="this process",
            schema_version=RECORD_VERSION,
            min_writer=RECORD_VERSION,
            partitions=self.partitions,
            entries=len(rows),
            bytes=payload,
            in_memory=True,
            replicas=1,
            retention=None,
            durability=dict.fromkeys(("process_crash", "os_crash", "power_cut"), "nothing"),
        )


def _options(url: str) -> dict[str, int]:
    """The options in a `memory://` URL, each a number from 1."""
    parts = urlsplit(url)
    if parts.scheme != "memory":
        raise ConfigurationError(f"{shown(url)!r} does not name a memory store; use memory://.")
    options = dict(_DEFAULTS)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in options or not value.isdecimal() or int(value) < 1:
            known = ", ".join(_DEFAULTS)
            raise ConfigurationError(
                f"{shown(url)!r}: {name}={value} is not an option of the memory store. "
                f"It has {known}, each a number from 1."
            )
        options[name] = int(value)
    return options
