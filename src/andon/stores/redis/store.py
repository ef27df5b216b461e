"""The store in a Redis or Valkey server, or in a cluster of them.

Every operation is one script per partition (folder `lua`), so a record, its indexes and its event
are one atomic step. This process keeps only an estimate of the server's clock, and which timers it
has taken.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from andon.contract.edges import Edge, Ended, Link, Settlement
from andon.contract.hints import Hub
from andon.contract.isolation import AT_FAULT, each_alone, each_alone_blocking
from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.contract.outcomes import Changed, ChangeKind, Created, Due, Verdict
from andon.contract.queries import EventPage, History, Page, Query, ReadyKind
from andon.contract.refusals import (
    change_refused,
    create_refused,
    edge_refused,
    link_refused,
    note_refused,
    renewal_refused,
    settlement_refused,
    timer_refused,
    type_refused,
)
from andon.contract.requests import Change, ClaimRequest, Renewal, Snapshot
from andon.contract.topics import Listener
from andon.lifecycle.discarded import Discarded
from andon.model.errors import StoreUnavailable
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, Tallied, TypeInfo, WorkerInfo
from andon.model.task import Task, Tombstone
from andon.model.words import State
from andon.stores.kit.partitions import partition_of
from andon.stores.redis import (
    claiming,
    committing,
    creating,
    daily,
    dependencies,
    durability,
    events,
    fleet,
    notes,
    opening,
    reading,
    renewing,
    restoring,
    timing,
)
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.hints import Refills, Subscription
from andon.stores.redis.location import Location, parse
from andon.stores.redis.network import Network
from andon.stores.redis.partitions import Partitions

if TYPE_CHECKING:
    from types import CoroutineType

Answer = TypeVar("Answer")


class RedisStore:
    """A `Store` in Redis. `url` as in `andon.stores.redis.location`.

    `clock` gives ms UTC in the server's place, for tests that run virtual time.
    """

    slack_ms = 50
    in_flight = 2
    creates_in_flight = 2
    claims_ahead = False

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.url = url
        self._location = parse(url)
        self.partitions = self._location.partitions or 1
        self._clock = RedisClock(clock)
        self._hub = Hub()
        self._open: _Open | None = None
        self._left: set[asyncio.Task[Any]] = set()
        self._under_way = 0
        self._quiet: asyncio.Future[None] | None = None  #: for closing
        self._held = timing.Held()

    # --- opening and closing ---

    async def open(self) -> None:
        if self._open is not None:
            return
        opened = _Open(self._location, self._clock, self._hub)
        try:
            await opening.set_up(opened.at)
            await opened.subscription.open()
        except BaseException:
            await opened.close()
            raise
        self.partitions = opened.at.count
        self._open = opened

    async def close(self) -> None:
        if self._open is not None:
            self._open.network.leaving = True
        while self._left or self._under_way:
            await asyncio.gather(*self._left, return_exceptions=True)
            if self._under_way:
                self._quiet = self._quiet or asyncio.get_running_loop().create_future()
                await asyncio.wait([self._quiet])
        self._hub.close()
        opened, self._open = self._open, None
        if opened is not None:
            await opened.close()

    def now(self) -> int:
        return self._clock.now()

    def partition_of(self, task_id: str) -> int:
        return partition_of(task_id, self.partitions)

    # --- the life of a task ---

    def create(self, tasks: Sequence[Task]) -> "CoroutineType[Any, Any, list[Created]]":
        return self._finish(creating.create, tasks, create_refused)

    async def claim(self, request: ClaimRequest) -> list[Task]:
        if request.parks and self._open is not None and self.parks_claims:
            self._open.subscription.hear_of_handoffs()
        return await self._finish(claiming.claim, request)

    @property
    def parks_claims(self) -> bool:
        return self._open is not None and self._open.at.parks_claims

    def on_handoff(self, worker: str, act: Callable[[list[Task]], None] | None) -> None:
        self._at.parked.on_handoff(worker, act)

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        write = partial(renewing.renew, self._at)
        return await each_alone(write, renewals, renewal_refused)

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return each_alone_blocking(self._renew_blocking, renewals, renewal_refused)

    def _renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        opened, at = self._open, self._at
        assert opened is not None
        verdicts: list[Verdict] = [Verdict.LOST] * len(renewals)
        for partition, places in at.places([r.task for r in renewals]).items():
            told = opened.renewer.renew(partition, [renewals[place] for place in places])
            for place, verdict in zip(places, told, strict=True):
                verdicts[place] = verdict
        return verdicts

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        outcomes = await self._finish(committing.commit, changes, change_refused)
        if self._held:  # a move sets a timer of its own; the taken one is never set anew
            for change, outcome in zip(changes, outcomes, strict=True):
                if outcome.kind is ChangeKind.APPLIED:
                    self._held.pop(change.before.id, None)
        return outcomes

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        return await timing.take_due(self._at, partition, limit, hold_ms, self._held)

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        write = partial(timing.rearm, self._at, self._held)
        await each_alone(write, timers, timer_refused)

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        at = self._at
        try:
            return await dependencies.link(at, links)
        except AT_FAULT:
            write = partial(dependencies.link_each, at)
            each = await each_alone(write, links, link_refused)
            return [ended for of in each for ended in of]

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        write = partial(dependencies.settle, self._at)
        return await each_alone(write, settlements, settlement_refused)

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        [edges] = await self.dependents_of_each([(parent, after)], limit)
        return edges

    async def dependents_of_each(
        self, parents: Sequence[tuple[str, str]], limit: int
    ) -> list[list[Edge]]:
        return await dependencies.dependents(self._at, parents, limit)

    async def release_edges(self, edges: Sequence[tuple[str, str]]) -> None:
        write = partial(dependencies.release_edges, self._at)
        await each_alone(write, edges, edge_refused)

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        write = partial(dependencies.unlink, self._at)
        await each_alone(write, edges, edge_refused)

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        return await dependencies.take_unsettled(self._at, limit)

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        return await self._finish(restoring.restore, snapshots)

    # --- reading ---

    def get(self, ids: Sequence[str]) -> "CoroutineType[Any, Any, list[Task | None]]":
        return each_alone(partial(reading.read, self._at), ids, reading.absent)

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        return await each_alone(partial(reading.states, self._at), ids, reading.absent)

    async def tombstones(self, ids: Sequence[str]) -> list[Tombstone | None]:
        return await each_alone(partial(reading.tombstones, self._at), ids, reading.absent)

    async def discarded(self, ids: Sequence[str]) -> list[Discarded | None]:
        return await each_alone(partial(reading.discarded, self._at), ids, reading.absent)

    async def history(self, task_id: str) -> History:
        return await reading.history(self._at, task_id)

    async def find(self, query: Query) -> Page:
        return await reading.find(self._at, query)

    async def stats(self) -> list[QueueStats]:
        return await reading.stats(self._at)

    async def tallies(self, queue: str | None, since: int) -> list[Tallied]:
        return await daily.read(self._at, queue, since)

    async def ready_kinds(self, queues: Sequence[str] = ()) -> list[ReadyKind]:
        return await reading.ready_kinds(self._at, queues)

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        return await events.read(self._at, cursor, limit)

    async def events_end(self) -> str:
        return await events.end(self._at)

    def listen(self, topics: Iterable[str]) -> Listener:
        if self._open is None:
            return self._hub.listen(topics)
        return self._open.subscription.listen(topics)

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        return await fleet.queues(self._at)

    async def put_queue(self, config: QueueConfig, *, expect: QueueConfig) -> bool:
        return await fleet.put_queue(self._at, config, expect)

    async def types(self) -> list[TypeInfo]:
        return await fleet.types(self._at)

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        await each_alone(partial(fleet.put_types, self._at), types, type_refused)

    async def workers(self) -> list[WorkerInfo]:
        return await fleet.workers(self._at)

    async def put_worker(self, info: WorkerInfo) -> None:
        await fleet.put_worker(self._at, info)

    async def remove_worker(self, worker: str) -> None:
        await fleet.remove_worker(self._at, worker)

    async def setting(self, name: str) -> bytes | None:
        return await fleet.setting(self._at, name)

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        return await fleet.put_setting(self._at, name, value, expect)

    # --- notes ---

    async def notes(self, names: Sequence[NoteName]) -> list[bytes | None]:
        return await notes.notes(self._at, names)

    async def put_notes(self, puts: Sequence[PutNote]) -> list[NotePut]:
        return await each_alone(partial(notes.put_notes, self._at), puts, note_refused)

    async def list_notes(
        self, kind: str, scope: str, after: str = "", limit: int = 100
    ) -> list[Note]:
        return await notes.page(self._at, kind, scope, after, limit)

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        await daily.trim(self._at)
        return await events.trim(self._at, limit, self._location.max_events)

    async def info(self) -> StoreInfo:
        return await durability.info(self._at, await self.setting("retention"))

    # --- within ---

    @property
    def _at(self) -> Partitions:
        if self._open is None:
            raise StoreUnavailable(f"The Redis store at {self._location.shown} is not open.")
        return self._open.at

    async def _finish(
        self,
        write: Callable[[Partitions, Any], Awaitable[Answer]],
        asked: Any,
        refused: Callable[[Any, str], Any] | None = None,
    ) -> Answer:
        """Write even if the caller is cancelled; an item that cannot be written is refused by
        itself (docs/rulings.md, R36). If the caller is cancelled the write is made again, which
        changes nothing if it was made already: so a caller that stays does not pay for an asyncio
        task, two turns of the loop."""
        at = self._at
        self._under_way += 1
        try:
            return await write(at, asked)
        except asyncio.CancelledError:
            again = asyncio.ensure_future(write(at, asked))
            self._left.add(again)
            again.add_done_callback(self._left.discard)
            again.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise
        except AT_FAULT:
            if refused is None:
                raise
            one_by_one: Any = await each_alone(cast("Any", partial(write, at)), asked, refused)
            return one_by_one
        finally:
            self._under_way -= 1
            if self._quiet is not None and not self._under_way:
                self._quiet.set_result(None)
                self._quiet = None


class _Open:
    """The resources of an open store."""

    def __init__(self, location: Location, clock: RedisClock, hub: Hub) -> None:
        self.network = Network(location, clock)
        self.subscription = Subscription(location, hub, self.network.any_address)
        self.refills = Refills(hub)
        self.renewer = renewing.Renewer(location, clock)
        self.at = Partitions(self.network, clock, self.subscription, self.refills)

    async def close(self) -> None:
        """Close every connection and alarm."""
        self.refills.close()
        await self.subscription.close()
        await asyncio.gather(self.network.close(), asyncio.to_thread(self.renewer.close))
