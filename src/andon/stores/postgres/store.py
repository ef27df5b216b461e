"""The PostgreSQL store: tasks in a schema of their own, next to the application's tables or apart.

Each operation of the contract is one call of one function in the database (`sql/`), so it is one
round trip and one transaction. An outcome is returned only after its commit; whether a commit
survives a power cut is the server's setting and `?synchronous_commit=`, and `info` says which.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.isolation import (
    AT_FAULT,
    each_alone,
    each_alone_blocking,
    why_of,
)
from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.outcomes import CREATED, Changed, Created, CreateKind, Due, Verdict
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.refusals import create_refused, renewal_refused
from andon.contract.requests import Change, ClaimRequest, Renewal, Snapshot
from andon.contract.topics import CONFIG_TOPIC, TIMER_TOPIC, Listener, ready_topic
from andon.lifecycle.constants import EVENTS_KEPT_MS
from andon.lifecycle.daily import day_of, first_day
from andon.lifecycle.discarded import Discarded
from andon.lifecycle.effects import of_new
from andon.model.errors import InvalidSubmission, StoreIncompatible, StoreUnavailable
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import RECORD_VERSION, Task, Tombstone
from andon.model.words import State
from andon.stores.kit.codec import task_of_row
from andon.stores.kit.partitions import partition_of
from andon.stores.postgres import alike, joining, restoring
from andon.stores.postgres.claiming import Claiming
from andon.stores.postgres.clock import PostgresClock
from andon.stores.postgres.committing import Committing
from andon.stores.postgres.connection import Connection
from andon.stores.postgres.connections import Connections
from andon.stores.postgres.creating import (
    MOST_OFFERED,
    Creation,
    arguments_of_one,
    first_repeat,
    is_plain,
)
from andon.stores.postgres.edges import Edges
from andon.stores.postgres.files import PostgresFiles
from andon.stores.postgres.fleet import Fleet
from andon.stores.postgres.info import describe
from andon.stores.postgres.joining import Calls, Joined, is_awaited
from andon.stores.postgres.location import parse
from andon.stores.postgres.migrating import Facts, prepare, read
from andon.stores.postgres.notes import Notes
from andon.stores.postgres.reading import Reading
from andon.stores.postgres.renewing import Renewer, columns_of, progressed
from andon.stores.postgres.server import Server
from andon.stores.postgres.timers import Timers

if TYPE_CHECKING:
    from types import CoroutineType


class PostgresStore:
    """A `Store` in a PostgreSQL database. `url` as in `andon.stores.postgres.location`."""

    slack_ms = 50
    in_flight = 1
    creates_in_flight = 2
    claims_ahead = True
    most_created = 600
    """A call costs as much as 30 to 50 of its records, and waits for the disk once; encoding them
    blocks the loop for a millisecond."""

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.partitions = 1
        self._location = parse(url)
        self.url = url
        self._time = PostgresClock(clock)
        self._server = Server(self._location, self._time)
        self._names, self._wake = self._server.names, self._server.wake
        self._calls, self._sql = self._server.calls, self._server.sql
        self._facts: Facts | None = None
        self._sleepers = False  #: another process was asleep when a record was last created alone
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading = Reading(self._server.run, self._sql)
        self._claiming = Claiming(self._server)
        self._timers = Timers(self._server)
        self._edges = Edges(self._server)
        self._committing = Committing(
            self._server, self._reading, self._timers, self._edges, self.partition_of
        )
        self._fleet = Fleet(self._server)
        self._notes = Notes(self._server)
        self._renewer = Renewer(self._location, self._calls.renew, self._time)

    # --- opening and closing ---

    async def open(self) -> None:
        if self._server.connections is not None:
            return
        self._loop = asyncio.get_running_loop()
        connections = Connections(self._location, check=self._check)
        try:
            self._facts = await connections.once(lambda db: prepare(db, self._location))
            self.partitions = self._facts.partitions
            self._server.connections = connections
            rows = await self._server.run(self._sql.opening, self._time.argument())
            self._time.tell(rows[0][0])
            self._wake.newest_own = rows[0][1]
            self._renewer.open()
        except BaseException:
            self._server.connections = None
            await connections.close()
            raise

    async def close(self) -> None:
        connections = self._server.connections
        if connections is None:
            return
        await self._wake.close()
        self._server.connections = None
        self._server.hub.close()
        await asyncio.gather(connections.close(), asyncio.to_thread(self._renewer.close))

    async def _check(self, db: Connection) -> None:
        """Check that a new connection still leads to the schema we opened."""
        if self._facts is None:
            return
        facts = await read(db, self._location)
        if facts is None or facts.birth != self._facts.birth:
            raise StoreIncompatible(
                f"Schema {self._location.namespace} of {self._location.shown} was dropped or "
                "replaced while this process had it open; restart it to use what is there now."
            )
        if facts.min_writer > RECORD_VERSION:
            raise StoreIncompatible(
                f"Schema {self._location.namespace} of {self._location.shown} now holds records "
                f"of version {facts.min_writer}; this process writes {RECORD_VERSION}. Upgrade "
                "and restart it."
            )

    def now(self) -> int:
        return self._time.now()

    def blobs(self) -> PostgresFiles:
        """Files in the database, for artifacts and logs where no other place was named."""
        return PostgresFiles(self._server)

    def partition_of(self, task_id: str) -> int:
        return partition_of(task_id, self.partitions)

    # --- the life of a task ---

    def create(self, tasks: Sequence[Task]) -> "CoroutineType[Any, Any, list[Created]]":
        return each_alone(self._create, tasks, create_refused)

    async def _create(self, tasks: Sequence[Task]) -> list[Created]:
        if not tasks:
            return []
        if len(tasks) == 1 and await self._created_alone(tasks[0]):
            return [CREATED]
        repeats = first_repeat(tasks)
        if repeats is not None:  # its outcome depends on that of the first
            before, after = tasks[:repeats], tasks[repeats:]
            return [*await self._create(before), *await self._create(after)]
        creation = Creation(tasks, self.partitions)
        if await self._created_alike(creation):
            return [CREATED] * len(tasks)
        if len(tasks) > MAX_BATCH:  # each would block the loop several times as long
            return [made for some in in_batches(tasks) for made in await self._create(some)]
        columns, topics = await creation.arguments(self._names)
        rows = list(zip(*columns, strict=True))
        row = await self._server.call(
            self._calls.create, False, rows, *creation.summary(self._names)
        )
        outcomes = creation.outcomes(row)
        if row["outcomes"] is None or any(o.kind is CreateKind.CREATED for o in outcomes):
            await self._server.tell(topics, row)
        if any(o.kind is CreateKind.FULL for o in outcomes):
            return await self._with_oldest(tasks, outcomes)
        return outcomes

    async def create_together(self, tasks: Sequence[Task]) -> bool:
        if first_repeat(tasks) is not None:
            return False
        creation = Creation(tasks, self.partitions)
        columns, topics = await creation.arguments(self._names)
        rows = list(zip(*columns, strict=True))
        row = await self._server.call(
            self._calls.create_together, rows, *creation.summary(self._names)
        )
        if row["created"]:
            await self._server.tell(topics, row)
        return row["created"]

    async def _created_alike(self, creation: Creation) -> bool:
        """Create records by the call for those alike; False if that left it to the other."""
        partition = creation.partition
        if partition is None or creation.is_heavy:
            return False
        if not alike.are_alike(creation.batches):
            return False
        arguments, topics = await alike.arguments(
            creation.batches, creation.ids, partition, self._names
        )
        row = await self._server.call(self._calls.create_alike, *arguments)
        if row["created"]:
            self._wake.tell(topics, row["wanted"], creation.ids)
        return row["created"]

    async def _created_alone(self, task: Task) -> bool:
        """Create one record by the call for plain ones; False if that left it to the other."""
        effects = of_new(task)
        if not is_plain(effects):
            return False
        partition = self.partition_of(task.definition.id)
        arguments, topics = await arguments_of_one(task, effects, partition, self._names)
        # Arguments for waking others cost a call more than they save while no process is asleep, so
        # they are sent with the record only if one was asleep the last time, or a claim of this
        # process is parked.
        tells = self._sleepers or self._wake.parked.any
        if tells and not self._location.pgbouncer:
            row = await self._created_and_told(task, arguments, topics)
            wanted, created = row["wanted"], bool(row["created"])
        else:
            wanted, created = await self._server.call_for_one(self._calls.create_one, *arguments)
            if created:
                self._wake.tell(topics, wanted)
        self._sleepers = bool(wanted)
        return created

    async def _created_and_told(
        self, task: Task, arguments: Sequence[Any], topics: set[str]
    ) -> Any:
        """The same by the call that also wakes processes that are asleep elsewhere. (Not behind a
        pooler, where every statement is in a transaction.)"""
        work = topics - {CONFIG_TOPIC}
        row = await self._server.call(
            self._calls.create_and_tell, *arguments, self._wake.work, list(work)
        )
        if row["created"]:
            unready = {ready_topic(task.definition.queue)} if row["handed"] else set[str]()
            self._wake.tell(work - unready, None)
            self._wake.tell(topics - work, row["wanted"])
        return row

    def is_awaited(self, connection: Any) -> bool:
        """Whether a user's connection is one whose calls are awaited."""
        return is_awaited(connection)

    async def join(self, tasks: Sequence[Task]) -> Joined:
        """Make ready what creates these records in a user's transaction."""
        ids = [task.definition.id for task in tasks]
        try:
            creation = Creation(tasks, self.partitions)
            columns, topics = await creation.arguments(self._names)
        except AT_FAULT as error:
            raise InvalidSubmission(f"The tasks cannot be stored: {why_of(error)}") from error
        joining.refuse_unwritable(ids, columns)
        return Joined(
            Calls(self._calls.create_by_columns, self._calls.notify, self._sql.states),
            creation,
            columns,
            summary=lambda some: some.summary(self._names),
            now=self._time.argument,
            notes=lambda row: self._wake.notes(topics | {TIMER_TOPIC}, row["wanted"]),
        )

    async def _with_oldest(self, tasks: Sequence[Task], outcomes: list[Created]) -> list[Created]:
        """The tasks that `discard-old` may evict, for those that a full queue refused."""
        oldest: dict[str, tuple[Task, ...]] = {}
        found: list[Created] = []
        for task, outcome in zip(tasks, outcomes, strict=True):
            if outcome.kind is not CreateKind.FULL:
                found.append(outcome)
                continue
            queue = task.definition.queue
            if queue not in oldest:
                rows = await self._server.run(self._sql.oldest, queue, MOST_OFFERED)
                oldest[queue] = tuple(task_of_row(row) for row in rows)
            found.append(Created(CreateKind.FULL, oldest=oldest[queue]))
        return found

    async def claim(self, request: ClaimRequest) -> list[Task]:
        return await self._claiming.claim(request)

    @property
    def parks_claims(self) -> bool:
        return self.partitions == 1 and not self._location.pgbouncer

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        self._wake.on_handoff(worker, act)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return await each_alone(self._renew, renewals, renewal_refused) if renewals else []

    async def _renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        row = await self._server.call(self._calls.renew, *columns_of(renewals))
        topics = progressed(renewals)
        self._wake.tell(topics, row["wanted"])
        return [Verdict(verdict) for verdict in row["verdicts"]]

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        if self._server.connections is None or self._loop is None:
            raise StoreUnavailable(f"The store {self._location.shown} is not open.")
        return (
            each_alone_blocking(self._renew_blocking, renewals, renewal_refused) if renewals else []
        )

    def _renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        row = self._renewer.renew(self._server.instance, columns_of(renewals))
        topics = progressed(renewals)
        if topics and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.tell, topics, row["wanted"])
        return [Verdict(verdict) for verdict in row["verdicts"]]

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        return await self._committing.commit(changes)

    # --- timers ---

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        return await self._timers.take_due(partition, limit, hold_ms)

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        await self._timers.rearm(timers)

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        return await self._edges.link(links)

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        return await self._edges.settle(settlements)

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        [edges] = await self.dependents_of_each([(parent, after)], limit)
        return edges

    async def dependents_of_each(
        self, parents: Sequence[tuple[str, str]], limit: int
    ) -> list[list[Edge]]:
        return await self._edges.dependents(parents, limit)

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        await self._edges.release_edges(edges)

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        await self._edges.unlink(edges)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        return await self._edges.take_unsettled(limit)

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        if not snapshots:
            return []
        columns, topics = await restoring.arguments(snapshots, self._names, self.partitions)
        row = await self._server.call(self._calls.restore, *columns)
        if any(row["stored"]):
            await self._server.tell(topics, row)
        return list(row["stored"])

    # --- reading ---

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        return await self._reading.tasks(ids)

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        return await self._reading.states(ids, self._time.argument())

    async def tombstones(self, ids: Sequence[str]) -> list[Tombstone | None]:
        return await self._reading.tombstones(ids, self._time.argument())

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        return await self._reading.discarded(ids, self._time.argument())

    async def history(self, task_id: str) -> History:
        return await self._reading.history(task_id)

    async def find(self, query: Query) -> Page:
        return await self._reading.find(query)

    async def stats(self) -> list[QueueStats]:
        return await self._reading.stats()

    async def tallies(self, queue: str | None, since: int) -> list[Tallied]:
        return await self._reading.tallies(queue, range(since, day_of(self.now()) + 1))

    async def ready_kinds(self, queues: Sequence[str] = ()) -> list[ReadyKind]:
        return await self._reading.ready_kinds(queues)

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        return await self._reading.events(cursor, limit)

    async def events_end(self) -> str:
        return await self._reading.events_end()

    def listen(self, topics: Iterable[str]) -> Listener:
        return self._wake.listen(topics)

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        return await self._fleet.queues()

    async def put_queue(self, config: QueueConfig, *, expect: QueueConfig) -> bool:
        return await self._fleet.put_queue(config, expect)

    async def types(self) -> list[TypeInfo]:
        return await self._fleet.types()

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        await self._fleet.put_types(types)

    async def workers(self) -> list[WorkerInfo]:
        return await self._fleet.workers()

    async def put_worker(self, info: WorkerInfo) -> None:
        await self._fleet.put_worker(info)

    async def remove_worker(self, worker: str) -> None:
        await self._fleet.remove_worker(worker)

    async def setting(self, name: str) -> bytes | None:
        return await self._fleet.setting(name)

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        return await self._fleet.put_setting(name, value, expect)

    # --- notes ---

    async def notes(self, names: Sequence[NoteName]) -> list[bytes | None]:
        return await self._notes.get(names)

    async def put_notes(self, puts: Sequence[PutNote]) -> list[NotePut]:
        return await self._notes.put(puts)

    async def list_notes(
        self, kind: str, scope: str, after: str = "", limit: int = 100
    ) -> list[Note]:
        return await self._notes.page(kind, scope, after, limit)

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        ((gone,),) = await self._server.write(
            self._calls.trim,
            self._time.argument(),
            limit,
            self._location.max_events,
            EVENTS_KEPT_MS,
            first_day(self.now()),
        )
        return gone

    async def info(self) -> StoreInfo:
        assert self._facts is not None
        return await describe(self._server.run, self._sql, self._location, self._facts)
