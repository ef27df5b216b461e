"""One claim: its token, the stamps it writes over records, and what it has handed out.

A repeated claim is recognised by its token: the ids of the claim's tasks are written under it
before their records. The timers of the runs are written with them, also before the records.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.requests import ClaimRequest
from andon.contract.topics import EVENTS_TOPIC, TIMER_TOPIC, run_topic
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.timers import next_timer
from andon.lifecycle.unique import key_freed_by_claim
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import CONFLICT, GUARD, Write, seq_of
from andon.stores.nats.quarantine import is_unreadable, quarantine
from andon.stores.nats.record_codec import RecordBody, StoredRecord
from andon.stores.nats.subjects import hashed
from andon.stores.nats.timers import Wanted, schedules

if TYPE_CHECKING:
    from andon.stores.nats.record_cache import RecordCache


class ClaimAttempt:
    """One claim, over all the queues it asks."""

    def __init__(self, context: StoreContext, request: ClaimRequest) -> None:
        self.context = context
        self.request = request
        self.records: RecordCache = context.records[request.partition]
        self.timers = context.timers[request.partition]
        self.room = dict(request.room)
        self.claimed: list[Task] = []
        self.repeat: list[Task] | None = None  #: what the same claim had handed out before
        self._named: list[str] = []  # ids under the token
        self._token_seq = 0
        self._due = False
        self._aside: list[str] = []  # topics

    @property
    def wanted(self) -> int:
        """For how many more tasks there is room."""
        return self.request.limit - len(self.claimed)

    def add(self, task: Task) -> None:
        """The task is handed out."""
        name = task.definition.name
        if name in self.room:
            self.room[name] -= 1
        self.claimed.append(task)
        key = key_freed_by_claim(task)
        if key is not None:
            self.context.drop_key(key, task.id, task.status.revision)

    def hint(self) -> None:
        """Hint to listeners what this claim changed."""
        topics = [*self._aside, *(run_topic(task.id) for task in self.claimed)]
        if self.claimed:
            topics.append(EVENTS_TOPIC)
            ats = (at for t in self.claimed if (at := next_timer(t)) is not None)
            topics += self.context.timer_topic(ats)
        if self._due:
            topics.append(TIMER_TOPIC)
        if topics:
            self.context.hint(topics)

    # --- repeats ---

    def _token_subject(self) -> str:
        return self.records.subjects.of("k", hashed(self.request.token))

    async def is_repeat(self) -> bool:
        """Whether the token was used, and some of its runs are active: then they are the answer."""
        if self._token_seq:
            return False
        found = await self.records.last([self._token_subject()])
        if not found:
            return False
        self._token_seq = seq_of(found[0])
        self._named = found[0].data.decode().split()
        records = await self.records.read(self._named)
        same = [
            stored.task
            for i in self._named
            if (stored := records.get(i)) is not None
            and stored.task is not None
            and stored.task.state is State.ACTIVE
            and stored.body.token == self.request.token
        ]
        if same:
            self.repeat = same
        return bool(same)

    async def write_token(self, timers: Sequence[tuple[str, int, int]], ids: Sequence[str]) -> bool:
        """Write timers and the token's tasks before the records; False if this is a repeat."""
        subjects = self.records.subjects
        while True:
            named = list(dict.fromkeys([*self._named, *ids]))
            body = " ".join(named).encode()
            headers = {GUARD: str(self._token_seq), "Nats-TTL": "86400s"}
            writes: list[Write] = [(self._token_subject(), body, headers)]
            shared = self.timers.shared
            writes += schedules(subjects, timers, self.context.clock.now(), shared=shared)
            (seq, *_) = await self.records.js.write(subjects.stream, writes)
            if seq > CONFLICT:
                self._token_seq, self._named = seq, named
                return True
            timers = ()
            self._token_seq = 0
            if await self.is_repeat():
                if self.claimed:
                    self.repeat = None  # our own write, whose answer was lost
                    continue
                return False

    # --- what is written ---

    async def reject(self, dead: Sequence[StoredRecord]) -> None:
        """Handles records that are not handed out: past their time they are made due, unreadable
        they are quarantined."""
        now = self.context.clock.now()
        wanted = [
            (stored.body.id, stored.body.revision, now)
            for stored in dead
            if stored.task is not None and stored.task.state is not State.UNKNOWN
        ]
        await self.make_due(wanted)
        broken = [stored for stored in dead if is_unreadable(stored)]
        self._aside += await quarantine(self.records, broken, now)

    async def make_due(self, wanted: Sequence[Wanted]) -> None:
        """Set timers that a timekeeper is to take at once."""
        if wanted:
            await self.timers.set(wanted, self.context.clock.now())
            self._due = True

    def stamped_records(self, records: Sequence[StoredRecord], now: int) -> list[Task]:
        """The records as this claim would leave them, claimed at a time in ms UTC."""
        return [
            self._stamped(stored.task, len(self._named) + n, now)
            for n, stored in enumerate(records)
            if stored.task is not None
        ]

    def _stamped(self, task: Task, index: int, now: int) -> Task:
        request = self.request
        stamp = Stamp(
            run=f"{hashed(request.token)[:20]}-{index}",
            fence=next_fence(task.status.fence, now),
            worker=request.worker,
            token=request.token,
            at=now,
            lease_until=now + request.lease_ms,
        )
        return stamped(task, stamp)

    @staticmethod
    def timers_of(tasks: Sequence[Task]) -> list[Wanted]:
        """The first timers of the runs."""
        return [
            (task.id, task.status.revision, at)
            for task in tasks
            if (at := next_timer(task)) is not None
        ]

    async def writes(
        self, chosen: Sequence[StoredRecord], tasks: Sequence[Task]
    ) -> tuple[list[Write], list[RecordBody]]:
        """The writes of the records. What must stand in front of them is written before: readers of
        the log rely on it."""
        records, token = self.records, self.request.token
        archives: list[Write] = []
        writes: list[Write] = []
        bodies: list[RecordBody] = []
        for stored, task in zip(chosen, tasks, strict=True):
            body = records.body(task, stored, token=token)
            subject = records.subjects.rest(task.id)
            archive = records.archive(stored, task.status.revision)
            if archive is not None:
                archives.append(archive)
            purge = records.purged_by(stored, subject)
            writes.append(records.write(body, subject, guard=stored.guard, purge=purge))
            bodies.append(body)
        if archives:
            await records.js.write(records.subjects.stream, archives)
        return writes, bodies
