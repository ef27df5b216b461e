"""The store in a Redis or Valkey server, or in a cluster of them.

Every operation is one script per partition (folder `lua`), so a record, its indexes and its event
are one atomic step. What this process keeps is an estimate of the server's clock, and which timers
it has taken.
"""

import asyncio
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.model.errors import ConfigurationError, StoreIncompatible, StoreUnavailable
from andon.model.fleet import QueueConfig, QueueStats, StoreInfo, TypeInfo, WorkerInfo
from andon.model.task import RECORD_VERSION, Task
from andon.model.words import WAITING, State
from andon.stores.base import (
    SLOW_POLL_S,
    Change,
    Changed,
    ChangeKind,
    ClaimRequest,
    Created,
    CreateKind,
    Due,
    Edge,
    Ended,
    EventPage,
    History,
    Link,
    Listener,
    Page,
    Query,
    Renewal,
    Settlement,
    Snapshot,
    Verdict,
    ready_topic,
)
from andon.stores.hints import Hub
from andon.stores.redis import (
    claiming,
    committing,
    creating,
    durability,
    fleet,
    reading,
    renewing,
    reserving,
    restoring,
    spread,
)
from andon.stores.redis.blocking import BlockingLine
from andon.stores.redis.clock import RemoteClock
from andon.stores.redis.hints import Subscription
from andon.stores.redis.location import parse
from andon.stores.redis.network import Network
from andon.stores.redis.records import body, encode, records_in
from andon.stores.redis.scripts import script

SCHEMA_VERSION = 1

Answer = TypeVar("Answer")
Item = TypeVar("Item")


class RedisStore:
    """A `Store` in Redis. `url` as in `andon.stores.redis.location`.

    `clock` gives ms UTC in the server's place, for tests that run virtual time.
    """

    slack_ms = 50

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None) -> None:
        self.url = url
        self._location = parse(url)
        self.partitions = self._location.partitions or 1
        self._clock = RemoteClock(clock)
        self._hub = Hub()
        self._network: Network | None = None
        self._subscription: Subscription | None = None
        self._blocking: BlockingLine | None = None
        self._writing: set[asyncio.Task[Any]] = set()
        self._held: dict[str, int] = {}
        self._refills: dict[str, asyncio.TimerHandle] = {}

    # --- opening and closing ---

    async def open(self) -> None:
        if self._network is not None:
            return
        network = self._network = Network(self._location)
        try:
            await self._set_up()
        except BaseException:
            self._network = None
            network.close()
            raise
        self._subscription = Subscription(self._location, self._hub, network.any_address)
        self._blocking = BlockingLine(self._location, self._clock)
        await self._subscription.open()

    async def _set_up(self) -> None:
        """Make the namespace, or find that it is ours and fits."""
        wanted = self._location.partitions
        reply = await self._prepare(0, wanted or 1)
        partitions = int(reply[4])
        if wanted is not None and wanted != partitions:
            raise ConfigurationError(
                f"The store at {self._location.shown} was made with partitions={partitions}; "
                f"partitions={wanted} cannot be had there. Leave the option out."
            )
        self.partitions = partitions
        for partition in range(1, partitions):
            await self._prepare(partition, partitions)

    async def _prepare(self, partition: int, partitions: int) -> list[Any]:
        mark = secrets.token_hex(4)
        arguments = (mark, str(SCHEMA_VERSION), str(RECORD_VERSION), str(partitions))
        reply = await self._run("setup", partition, arguments)
        if reply[1] == b"strange":
            raise StoreIncompatible(
                f"At {self._location.shown}, another application uses keys under our namespace. "
                "Choose another with ?namespace=NAME."
            )
        if int(reply[2]) > SCHEMA_VERSION or int(reply[3]) > RECORD_VERSION:
            raise StoreIncompatible(
                f"The store at {self._location.shown} has schema {int(reply[2])}, made by a newer "
                f"release; this one knows {SCHEMA_VERSION}. Upgrade Andon here."
            )
        return reply

    async def close(self) -> None:
        if self._writing:
            await asyncio.gather(*self._writing, return_exceptions=True)
        for alarm in self._refills.values():
            alarm.cancel()
        self._refills.clear()
        self._hub.close()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()
        network, self._network = self._network, None
        if network is not None:
            network.close()

    def now(self) -> int:
        return self._clock.now()

    def partition_of(self, task_id: str) -> int:
        return zlib.crc32(task_id.encode()) % self.partitions

    # --- the life of a task ---

    async def create(self, tasks: Sequence[Task]) -> list[Created]:
        return await self._written(self._create(tasks))

    async def _create(self, tasks: Sequence[Task]) -> list[Created]:
        entries = [entry_of(task) for task in tasks]
        refused: dict[str, str] = {}
        if self.partitions > 1 and any(entry.unique_key for entry in entries):
            refused = await self._reserve_for(tasks, entries)
        items = [
            creating.item(task, entry, keeps_key=self.partitions == 1)
            for task, entry in zip(tasks, entries, strict=True)
            if task.id not in refused
        ]
        wanted = [task.id for task in tasks if task.id not in refused]
        replies = iter(await self._spread("create", items, wanted))
        outcomes = [
            Created(CreateKind.KEY_HELD, holder=refused[task.id])
            if task.id in refused
            else creating.outcome(next(replies))
            for task in tasks
        ]
        if self.partitions > 1:
            await reserving.let_go(
                self,
                [
                    (entry.unique_key, task.id)
                    for task, entry, outcome in zip(tasks, entries, outcomes, strict=True)
                    if entry.unique_key is not None
                    and outcome.kind in (CreateKind.FULL, CreateKind.EXISTS)
                ],
            )
        return outcomes

    async def _reserve_for(
        self, tasks: Sequence[Task], entries: Sequence[IndexEntry]
    ) -> dict[str, str]:
        """Reserve the unique keys of new records; ids of those refused, to the holders."""
        known = await self.states([task.id for task in tasks])
        now = self.now()
        wishes = [
            reserving.Wish(entry.unique_key, entry.unique_until, task.id)
            for task, entry, state in zip(tasks, entries, known, strict=True)
            if entry.unique_key is not None
            and state is None  # else the id is taken, which create will say
            and (entry.unique_until is None or entry.unique_until > now)
        ]
        return await reserving.reserve(self, wishes)

    async def claim(self, request: ClaimRequest) -> list[Task]:
        return await self._written(self._claim(request))

    async def _claim(self, request: ClaimRequest) -> list[Task]:
        tasks, reply = await self._claim_with(request, None)
        if self.partitions > 1:
            tasks += await self._claim_spread(request, tasks, reply)
            frees = [
                (task.definition.unique_key, task.id)
                for task in tasks
                if task.definition.unique_key is not None
                and State.ACTIVE.value not in task.policy.unique_states
            ]
            await reserving.let_go(self, frees)
        return tasks

    async def _claim_with(
        self, request: ClaimRequest, grants: dict[str, Any] | None
    ) -> tuple[list[Task], list[Any]]:
        packed = claiming.packed(request, grants)
        reply = await self._run_packed("claim", request.partition, packed)
        tasks, broken = claiming.claimed(reply, request)
        if broken:
            await self._run("set_aside", request.partition, broken)
        for queue, seconds in claiming.refills(reply):
            self.hint_when_refilled(queue, seconds)
        return tasks, reply

    async def _claim_spread(
        self, request: ClaimRequest, tasks: Sequence[Task], reply: list[Any]
    ) -> list[Task]:
        """What the queues have whose limits all partitions share."""
        if reply[1] == b"again":
            # a repeat: what was claimed with grants has a token of its own
            repeat = spread.again(request, limit=0, room={})
            return (await self._claim_with(repeat, None))[0]
        limited = spread.limited_in(reply)
        left = request.limit - len(tasks)
        if not limited or left <= 0:
            return []
        room = dict(request.room)
        for task in tasks:
            if task.definition.name in room:
                room[task.definition.name] -= 1
        more = spread.again(request, limit=left, room=room)
        grants = spread.Grants(self, more.token)
        used: Counter[str] = Counter()
        try:
            await grants.take(limited, left)
            claimed, _ = await self._claim_with(more, grants.granted)
            used.update(task.definition.queue for task in claimed)
        finally:
            await grants.give_back(used)
        return claimed

    async def renew(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        replies = await self._spread(
            "renew", [renewing.item(r) for r in renewals], [r.task for r in renewals]
        )
        return [renewing.VERDICTS[reply] for reply in replies]

    def renew_blocking(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        if self._blocking is None:
            raise StoreUnavailable(f"The store {self._location.shown} is not open.")
        verdicts: list[Verdict] = [Verdict.LOST] * len(renewals)
        for partition, places in self._places([r.task for r in renewals]).items():
            items = [renewing.item(renewals[place]) for place in places]
            reply = self._blocking.run(script("renew"), partition, encode(items), self._told())
            for place, verdict in zip(places, reply[1:], strict=True):
                verdicts[place] = renewing.VERDICTS[verdict]
        return verdicts

    async def commit(self, changes: Sequence[Change]) -> list[Changed]:
        return await self._written(self._commit(changes))

    async def _commit(self, changes: Sequence[Change]) -> list[Changed]:
        prepared = [committing.prepare(change) for change in changes]
        refused: dict[str, str] = {}
        if self.partitions > 1:
            wishes = [wish for p in prepared if (wish := committing.wish(p)) is not None]
            refused = await reserving.reserve(self, wishes) if wishes else {}
        apart = self.partitions > 1
        written = [p for p in prepared if p.change.before.definition.id not in refused]
        items = [committing.item(p, reserved=apart) for p in written]
        ids = [p.change.before.definition.id for p in written]
        replies = iter(await self._spread("commit", items, ids))
        outcomes: list[Changed] = []
        for change in changes:
            task_id = change.before.definition.id
            if task_id in refused:
                outcomes.append(Changed(ChangeKind.KEY_HELD, holder=refused[task_id]))
                continue
            reply = next(replies)
            if isinstance(reply, list) and reply[0] == b"n":
                outcomes.append(await self._delete_needed(change, reply))
            else:
                outcomes.append(committing.outcome(reply, change))
            if outcomes[-1].kind is ChangeKind.APPLIED:
                self._held.pop(task_id, None)
        await self._unlink_deleted(changes, outcomes)
        if apart:
            await reserving.let_go(self, committing.perhaps_free(prepared))
        return outcomes

    async def _delete_needed(self, change: Change, reply: list[Any]) -> Changed:
        """A deletion that edges forbid: those of children that have ended hold nothing."""
        parent = change.before.definition.id
        children = sorted({child.decode() for child in reply[1:]})
        states = await self.states(children)
        ended = [c for c, state in zip(children, states, strict=True) if not _lives(state)]
        if len(ended) < len(children):
            (current,) = await self.get([parent])
            if current is None:
                return committing.GONE
            return Changed(ChangeKind.CONFLICT, current=current)
        await self.unlink([(parent, child) for child in ended])
        (changed,) = await self._commit([change])
        return changed

    async def _unlink_deleted(self, changes: Sequence[Change], outcomes: Sequence[Changed]) -> None:
        """Edges that end in a deleted task go with it."""
        gone = [
            (parent, change.before.definition.id)
            for change, outcome in zip(changes, outcomes, strict=True)
            if outcome.kind is ChangeKind.APPLIED
            and (change.after is None or change.discard is not None)
            for parent in change.before.definition.dependencies
        ]
        if gone:
            await self.unlink(gone)

    # --- timers ---

    async def take_due(self, partition: int, limit: int, hold_ms: int) -> Due:
        reply = await self._run("take_due", partition, (limit, hold_ms, self._clock.patience))
        now = reply[0]
        tasks: list[Task] = []
        broken: list[str] = []
        for task_id, task in records_in(reply, 2):
            if task.state is State.UNKNOWN:
                broken.append(task_id)
                continue
            self._held[task_id] = now + hold_ms
            tasks.append(task)
        if broken:
            await self._run("set_aside", partition, broken)
        return Due(tuple(tasks), now, int(reply[1]) if reply[1] else None)

    async def rearm(self, timers: Sequence[tuple[str, int | None]]) -> None:
        held = [(task_id, at, self._held.pop(task_id, None)) for task_id, at in timers]
        items = [item for item in held if item[2] is not None]
        await self._each("rearm", items, [item[0] for item in items])

    # --- dependencies ---

    async def link(self, links: Sequence[Link]) -> list[Ended]:
        waits = await self._spread(
            "waits", [(link.child, *link.parents) for link in links], [x.child for x in links]
        )
        wished: list[tuple[Link, str]] = []
        items: list[tuple[Any, ...]] = []
        for link, row in zip(links, waits, strict=True):
            for parent, counted in zip(link.parents, row[1:], strict=False):
                if parent != link.child:  # else it waits only to be scheduled
                    wished.append((link, parent))
                    items.append((parent, link.child, link.loads, link.any_end, bool(counted)))
        replies = await self._spread("link", items, [parent for _, parent in wished])
        return [
            Ended(
                link.child,
                parent,
                None if reply == b"-" else State(reply.decode()),
                link.any_end,
            )
            for (link, parent), reply in zip(wished, replies, strict=True)
            if reply
        ]

    async def settle(self, settlements: Sequence[Settlement]) -> list[int]:
        told = [(s.parent, s.child) for s in settlements]
        counted = [(s.child, s.parent, s.satisfied) for s in settlements]
        # The count first: an edge is told only when its child cannot miss it any more.
        remaining = await self._spread("settle", counted, [s.child for s in settlements])
        await self._each("tell", told, [s.parent for s in settlements])
        return remaining

    async def dependents(self, parent: str, after: str = "", limit: int = 1000) -> list[Edge]:
        reply = await self._run("dependents", self.partition_of(parent), (parent, after, limit))
        return [
            Edge(parent, reply[i].decode(), bool(flags & 1), bool(flags & 2), bool(flags & 4))
            for i in range(1, len(reply), 2)
            for flags in (reply[i + 1],)
        ]

    async def unlink(self, edges: Sequence[tuple[str, str]]) -> None:
        await self._each("unlink", edges, [parent for parent, _ in edges])

    async def take_unsettled(self, limit: int) -> list[tuple[str, State]]:
        taken: list[tuple[str, State]] = []
        for partition in range(self.partitions):
            if len(taken) < limit:
                reply = await self._run("take_unsettled", partition, (limit - len(taken),))
                for i in range(1, len(reply), 2):
                    taken.append((reply[i].decode(), State(reply[i + 1].decode())))
        return taken

    # --- moving in from another store ---

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        return await self._written(self._restore(snapshots))

    async def _restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        items = [
            restoring.item(s, entry_of(s.task), keeps_key=self.partitions == 1) for s in snapshots
        ]
        replies = await self._spread("restore", items, [s.task.id for s in snapshots])
        if self.partitions > 1:
            restored = [s.task for s, reply in zip(snapshots, replies, strict=True) if reply == 1]
            # a key that another task holds stays with that one
            await reserving.reserve(self, [w for t in restored if (w := restoring.wish(t))])
        return [reply == 1 for reply in replies]

    # --- reading ---

    async def get(self, ids: Sequence[str]) -> list[Task | None]:
        found: list[Task | None] = [None] * len(ids)
        for partition, places in self._places(ids).items():
            reply = await self._run("get", partition, [ids[place] for place in places])
            for i, place in enumerate(places):
                found[place] = reading.record_at(reply, i)
        return found

    async def states(self, ids: Sequence[str]) -> list[State | None]:
        replies = await self._spread("states", ids, ids)
        return [State(reply.decode()) if reply else None for reply in replies]

    async def history(self, task_id: str) -> History:
        reply = await self._run("history", self.partition_of(task_id), (task_id,))
        return reading.history(task_id, reply)

    async def find(self, query: Query) -> Page:
        return await reading.find(self, query)

    async def stats(self) -> list[QueueStats]:
        states = [state.value for state in State]
        replies = await self._everywhere("stats", states)
        return reading.stats(replies)

    async def events(self, cursor: str, limit: int = 500) -> EventPage:
        return await reading.events(self, cursor, limit)

    async def events_end(self) -> str:
        return await reading.events_end(self)

    def listen(self, topics: Iterable[str]) -> Listener:
        if self._subscription is None:
            return self._hub.listen(topics)
        return self._subscription.listen(topics)

    # --- the fleet and its configuration ---

    async def queues(self) -> list[QueueConfig]:
        return await fleet.queues(self)

    async def put_queue(self, config: QueueConfig) -> None:
        await fleet.put_queue(self, config)

    async def types(self) -> list[TypeInfo]:
        return await fleet.types(self)

    async def put_types(self, types: Sequence[TypeInfo]) -> None:
        await fleet.put_types(self, types)

    async def workers(self) -> list[WorkerInfo]:
        return await fleet.workers(self)

    async def put_worker(self, info: WorkerInfo) -> None:
        await self._run("put_worker", 0, (info.id, body(encode(info))))

    async def remove_worker(self, worker: str) -> None:
        await self._run("put_worker", 0, (worker, None))

    async def setting(self, name: str) -> bytes | None:
        return (await self._run("registry", 0, ("settings", name)))[1]

    async def put_setting(self, name: str, value: bytes, *, expect: bytes | None) -> bool:
        expected = None if expect is None else body(expect)
        return (await self._run("put_setting", 0, (name, body(value), expected)))[1] == 1

    # --- housekeeping ---

    async def trim(self, limit: int) -> int:
        return await reading.trim(self, limit, self._location.max_events)

    async def info(self) -> StoreInfo:
        if self._network is None:
            raise StoreUnavailable(f"The store {self._location.shown} is not open.")
        return await durability.info(self, self._network, SCHEMA_VERSION)

    # --- how operations reach the servers ---

    def _told(self) -> bytes:
        """The time that scripts are given: none, unless it is virtual."""
        virtual = self._clock.virtual
        return b"" if virtual is None else str(self._clock.now()).encode()

    async def run(self, name: str, partition: int, arguments: Any) -> list[Any]:
        """Run a script in a partition; its reply, the server's time first."""
        return await self._run_packed(name, partition, encode(arguments))

    _run = run

    async def _run_packed(self, name: str, partition: int, packed: bytes) -> list[Any]:
        network = self._network
        if network is None:
            raise StoreUnavailable(f"The store {self._location.shown} is not open.")
        subscription = self._subscription
        if subscription is not None and not subscription.is_settled:
            await subscription.settled()
        reply = await network.run(script(name), partition, packed, self._told())
        self._clock.tell(reply[0])
        return reply

    async def _spread(self, name: str, items: Sequence[Any], ids: Sequence[str]) -> list[Any]:
        """Run a script over items, each in the partition of its id; replies in their order."""
        if not items:
            return []
        if self.partitions == 1:
            return (await self._run(name, 0, items))[1:]
        answers: list[Any] = [None] * len(items)

        async def one(partition: int, places: list[int]) -> None:
            reply = await self._run(name, partition, [items[place] for place in places])
            for place, answer in zip(places, reply[1:], strict=True):
                answers[place] = answer

        await asyncio.gather(*(one(p, places) for p, places in self._places(ids).items()))
        return answers

    async def _each(self, name: str, items: Sequence[Any], ids: Sequence[str]) -> None:
        """The same for a script that answers nothing."""
        if items:
            await asyncio.gather(
                *(
                    self._run(name, partition, [items[place] for place in places])
                    for partition, places in self._places(ids).items()
                )
            )

    async def _everywhere(self, name: str, arguments: Any) -> list[list[Any]]:
        """Run a script in every partition."""
        return await asyncio.gather(
            *(self._run(name, partition, arguments) for partition in range(self.partitions))
        )

    everywhere = _everywhere

    def _places(self, ids: Sequence[str]) -> dict[int, list[int]]:
        """Partition to the places of its ids."""
        places: dict[int, list[int]] = {}
        for place, task_id in enumerate(ids):
            places.setdefault(self.partition_of(task_id), []).append(place)
        return places

    async def _written(self, writing: Any) -> Any:
        """Write even if the caller goes; it then finds what was written under its token or id."""
        task = asyncio.ensure_future(writing)
        self._writing.add(task)
        task.add_done_callback(self._note_done)
        return await asyncio.shield(task)

    def _note_done(self, task: asyncio.Task[Any]) -> None:
        self._writing.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has seen it, or has gone

    # --- hints ---

    def hint_when_refilled(self, queue: str, seconds: float) -> None:
        """Wake the claimers of a rate-limited queue when its next token is there: no write will."""
        if queue in self._refills or seconds > SLOW_POLL_S:
            return

        def refilled() -> None:
            del self._refills[queue]
            self._hub.hint(ready_topic(queue))

        self._refills[queue] = asyncio.get_running_loop().call_later(seconds, refilled)


def _lives(state: State | None) -> bool:
    return state is not None and (state in WAITING or state is State.ACTIVE)
