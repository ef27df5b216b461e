"""The NATS store: hands each method of the contract to the module that does it."""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.outcomes import Changed, Created, Due, Verdict
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.requests import Change, ClaimRequest, Renewal, Snapshot
from andon.contract.topics import CONFIG_TOPIC, Listener, ready_topic
from andon.lifecycle.constants import JUMP_MS, LEASE_PATIENCE_MS
from andon.lifecycle.daily import day_of
from andon.lifecycle.discarded import Discarded
from andon.model.errors import StoreUnavailable
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import Task, Tombstone
from andon.model.words import State
from andon.stores.kit.partitions import partition_of
from andon.stores.kit.server_clock import ServerClock
from andon.stores.nats.claiming import Claims
from andon.stores.nats.committing import commit
from andon.stores.nats.context import StoreContext
from andon.stores.nats.creating import create
from andon.stores.nats.daily_history import DailyHistory
from andon.stores.nats.dead_letter_index import oldest_dead_letters
from andon.stores.nats.dependents import Dependents
from andon.stores.nats.due_timers import take_due
from andon.stores.nats.edges import last_moves_of, state_of, tombstone_of
from andon.stores.nats.end_marks import take_unsettled
from andon.stores.nats.event_log import EventLog
from andon.stores.nats.hints import Hints
from andon.stores.nats.index import Index
from andon.stores.nats.jetstream import JetStream
from andon.stores.nats.linking import Linking
from andon.stores.nats.location import parse
from andon.stores.nats.opening import open_streams
from andon.stores.nats.ready_kinds import ready_kinds
from andon.stores.nats.renewing import RenewalThread, progress_topics, renew
from andon.stores.nats.restoring import restore
from andon.stores.nats.server_time import ms_of
from andon.stores.nats.settling import settle
from andon.stores.nats.store_info import describe
from andon.stores.nats.stream_recovery import StreamRecovery
from andon.stores.nats.timers import writable

_LAST_SUMMARY_S = 1.0
"""How long closing may take to write summaries; what is missing in them is read from the log."""

_TELL_S = 30.0
"""How often a process that fires timers asks the server for its time."""


class NatsStore:
    """`nats://host:4222?namespace=andon`; see `docs/stores/nats.md` for the options."""

    slack_ms = 500
    in_flight = 1
    creates_in_flight = 2
    claims_ahead = False

    def __init__(self, url: str) -> None:
        self.url = url
        self._location = parse(url)
        self.partitions = self._location.partitions or 1
        self._clock = ServerClock()
        self._hints = Hints(self._location.namespace)
        self._context: StoreContext | None = None
        self._told_at = 0.0
        self._grace_until = 0
        self._is_looking = False

    # --- open and close ---

    async def open(self) -> None:
        location = self._location
        js = JetStream(location, name="andon")
        await js.connect()
        try:
            self.partitions, info = await open_streams(js, location)
        except BaseException:
            await js.close()
            raise
        self._clock.tell(ms_of(info["ts"]))
        self._told_at = time.monotonic()
        self._streams = StreamRecovery(location, self.partitions, info)
        self._use(StoreContext(location, js, self._clock, self.partitions, self._hints), info)
        js.reconnected = self._reconnected
        js.troubled = self._look_again
        await self._hints.open(js)
        self._config_changes = self._hints.hub.listen([CONFIG_TOPIC])
        self._following = asyncio.ensure_future(self._follow())

    def _use(self, context: StoreContext, info: dict[str, Any]) -> None:
        self._context = context
        self._index = Index(context)
        self._claims = Claims(context, self._index)
        self._log = EventLog(context, f"n{abs(hash_of(info['created'])):x}")
        self._daily = DailyHistory(context, self._log)
        self._linking = Linking(context.edges)
        self._dependents = Dependents(context.edges)
        self._renewal_thread = RenewalThread(
            self._location, [records.notes for records in context.records], self._clock
        )

    async def close(self) -> None:
        context, self._context = self._context, None
        if context is None:
            return
        context.js.leaving = True
        await context.finish_background()
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(_LAST_SUMMARY_S):
                await self._daily.write_summaries()
        self._daily.close()
        self._claims.close()
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)
        await self._hints.close()
        await asyncio.to_thread(self._renewal_thread.close)
        await context.js.close()

    async def _follow(self) -> None:
        """Read the queues' configuration again when it has changed."""
        while True:
            if await self._config_changes.wait(None) and self._context is not None:
                self._context.fleet.stale()

    def _reconnected(self) -> None:
        context = self._context
        if context is None:
            return
        context.fleet.stale()
        self._hints.missed()
        if context.js.away_s > JUMP_MS / 1000:
            # Renewals are first: a worker that could not reach the server gets a full lease
            # (docs/rulings.md, R19).
            self._grace_until = self.now() + LEASE_PATIENCE_MS
        self._told_at = 0.0
        self._look_again()

    def _look_again(self) -> None:
        """Check whether the streams are still those that were opened; in the background."""
        context = self._context
        if context is not None and not context.js.leaving and not self._is_looking:
            self._is_looking = True
            context.in_background(self._look(context))

    async def _look(self, context: StoreContext) -> None:
        try:
            info = await self._streams.check(context.js)
        finally:
            self._is_looking = False
        if info is None or self._context is not context:
            return
        self._claims.close()
        self._daily.close()
        context.in_background(asyncio.to_thread(self._renewal_thread.close))
        self._use(context.for_new_streams(), info)
        while not context.js.leaving:
            with contextlib.suppress(StoreUnavailable):
                await self._open.fleet.take_over(context.fleet)
                break
        self._hints.hub.hint_all(set(self._hints.hub.listeners))

    @property
    def _open(self) -> StoreContext:
        if self._context is None:
            raise StoreUnavailable(f"The store at {self._location.shown} is closed.")
        return self._context

    def now(self) -> int:
        return self._clock.now()

    def partition_of(self, task_id: str) -> int:
        return partition_of(task_id, self.partitions)

    # --- the life of a task ---

    async def create(self, tasks: Sequence[Task]) -> list[Created]:
        return await self._open.run_to_end(create(self._open, self._index, tasks))

    async def claim(self, request: ClaimRequest) -> list[Task]:
        self._hints.count_ready()
        await self._hints.settled()
        return await self._open.run_to_end(self._claims.claim(request))

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        context = self._open
        verdicts = await context.run_to_end(renew(context.records, renewals, self._clock))
        context.hint(progress_topics(renewals))
        return verdicts

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return self._renewal_thread.renew(renewals, self._hints.root)

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        return await self._open.run_to_end(commit(self._open, changes))

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        context = self._open
        if time.monotonic() - self._told_at > _TELL_S:
            self._told_at = time.monotonic()
            info = await context.js.api(f"STREAM.INFO.{context.records[partition].subjects.stream}")
            if "ts" in info:
                self._clock.tell(ms_of(info["ts"]))
        taking = take_due(
            context.timers[partition],
            self._clock,
            limit=limit,
            hold_ms=hold_ms,
            grace_until=self._grace_until,
        )
        due, topics = await context.run_to_end(taking)
        if topics:
            context.hint(topics)
        return due

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        context = self._open
        good = writable(timers)
        for partition in range(self.partitions):
            mine = [t for t in good if self.partition_of(t[0]) == partition]
            await context.timers[partition].rearm(mine, self.now())
        ats = [at for _, at in good if at is not None]
        context.hint(context.timer_topic(ats))

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        return await self._open.run_to_end(self._linking.link(links, self.now()))

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        return await self._open.run_to_end(settle(self._open.edges, settlements, self.now()))

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        self._open  # noqa: B018 - refuses a closed store
        return await self._dependents.page(parent, after, limit)

    async def dependents_of_each(
        self, parents: Sequence[tuple[str, str]], limit: int
    ) -> list[list[Edge]]:
        self._open  # noqa: B018 - refuses a closed store
        return await self._dependents.to_tell(parents, limit)

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        await self._open.run_to_end(self._open.edges.release_edges(edges, self.now()))

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        await self._open.run_to_end(self._open.edges.unlink(edges, self.now()))

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        edges = self._open.edges
        return await take_unsettled(edges.records, edges.unsettled, limit, self.now())

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        return await self._open.run_to_end(restore(self._open, snapshots))

    # --- reading ---

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        self._open  # noqa: B018 - refuses a closed store
        found = await self._index.read(ids)
        return [found[i].task if i in found else None for i in ids]

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        self._open  # noqa: B018 - as above
        found = await self._index.read(ids)
        now = self.now()
        return [state_of(found.get(i), now) for i in ids]

    async def tombstones(self, ids: Sequence[str]) -> list[Tombstone | None]:
        self._open  # noqa: B018 - as above
        found = await self._index.read(ids)
        now = self.now()
        return [tombstone_of(found.get(i), now) for i in ids]

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        self._open  # noqa: B018 - as above
        found = await self._index.read(ids)
        now = self.now()
        return [last_moves_of(found.get(i), now) for i in ids]

    async def history(self, task_id: str) -> History:
        self._open  # noqa: B018 - as above
        return await self._log.history((await self._index.read([task_id])).get(task_id))

    async def find(self, query: Query) -> Page:
        self._open  # noqa: B018 - as above
        return await self._index.find(query)

    async def stats(self) -> list[QueueStats]:
        self._open  # noqa: B018 - as above
        return await self._index.stats()

    async def tallies(self, queue: str | None, since: int) -> list[Tallied]:
        context = self._open
        return await context.run_to_end(
            self._daily.read(queue, range(since, day_of(self.now()) + 1))
        )

    async def ready_kinds(self, queues: Sequence[str] = ()) -> list[ReadyKind]:
        return await ready_kinds(self._open, self._claims, self._index, queues)

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        self._open  # noqa: B018 - as above
        return await self._log.read(cursor, limit)

    async def events_end(self) -> str:
        self._open  # noqa: B018 - as above
        return await self._log.end()

    def listen(self, topics: Iterable[str]) -> Listener:
        return self._hints.listen(topics)

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        await self._open.fleet.refresh()
        configs = await self._open.fleet.configs()
        return [configs[name] for name in sorted(configs)]

    async def put_queue(self, config: QueueConfig, *, expect: QueueConfig) -> bool:
        context = self._open
        if not await context.run_to_end(context.fleet.put_queue(config, expect)):
            return False
        context.hint([CONFIG_TOPIC, ready_topic(config.name)])
        return True

    async def types(self) -> list[TypeInfo]:
        return await self._open.fleet.types()

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        await self._open.fleet.put_types(types)
        self._open.hint([CONFIG_TOPIC])

    async def workers(self) -> list[WorkerInfo]:
        return await self._open.fleet.workers()

    async def put_worker(self, info: WorkerInfo) -> None:
        await self._open.fleet.put_worker(info)

    async def remove_worker(self, worker: str) -> None:
        await self._open.fleet.remove_worker(worker)

    async def setting(self, name: str) -> bytes | None:
        return await self._open.fleet.setting(name)

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        return await self._open.fleet.put_setting(name, value, expect)

    # --- notes ---

    async def notes(self, names: Sequence[NoteName]) -> list[bytes | None]:
        return await self._open.notes.get(names)

    async def put_notes(self, puts: Sequence[PutNote]) -> list[NotePut]:
        return await self._open.run_to_end(self._open.notes.put(puts))

    async def list_notes(
        self, kind: str, scope: str, after: str = "", limit: int = 100
    ) -> list[Note]:
        return await self._open.notes.page(kind, scope, after, limit)

    # --- housekeeping ---

    async def oldest_dead_letters(self, *, beyond: int, most: int) -> list[Task]:
        return await oldest_dead_letters(self._open, beyond=beyond, most=most)

    async def trim(self, limit: int) -> int:
        await self._open.run_to_end(self._daily.add_up())
        return await self._open.run_to_end(self._log.trim(limit))

    async def info(self) -> StoreInfo:
        return await describe(self._open, self._index)


def hash_of(text: Any) -> int:
    """A number that is the same in every process."""
    from zlib import crc32

    return crc32(str(text).encode())
