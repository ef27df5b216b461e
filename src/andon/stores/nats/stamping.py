"""One claim: its token, the stamps it writes over records, and what it has handed out.

A repeat of a claim is told by its token, under which the ids of its tasks stand before their
records are written. The timers of the runs are written with them: they come before the records.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.requests import ClaimRequest
from andon.contract.topics import EVENTS_TOPIC, TIMER_TOPIC, task_topic
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.timers import first_limit, next_timer
from andon.model.task import Stamp, Task
from andon.model.words import State
from andon.stores.nats.aside import is_broken, put_aside
from andon.stores.nats.bodies import Body, Head
from andon.stores.nats.core import Core
from andon.stores.nats.names import hashed
from andon.stores.nats.timing import Wanted, schedules
from andon.stores.nats.wire import CONFLICT, GUARD, Write, seq_of

if TYPE_CHECKING:
    from andon.stores.nats.heads import Heads


class Stamping:
    """One claim, over all the queues it asks."""

    def __init__(self, core: Core, request: ClaimRequest) -> None:
        self.core = core
        self.request = request
        self.heads: Heads = core.heads[request.partition]
        self.timers = core.timers[request.partition]
        self.room = dict(request.room)
        self.claimed: list[Task] = []
        self.repeat: list[Task] | None = None  #: what the same claim had handed out before
        self._named: list[str] = []  # ids under the token
        self._token_seq = 0
        self._due = False
        self._aside: list[str] = []  # topics

    @property
    def wanted(self) -> int:
        """How many more there is room for."""
        return self.request.limit - len(self.claimed)

    def take(self, task: Task) -> None:
        """The task is handed out."""
        name = task.definition.name
        if name in self.room:
            self.room[name] -= 1
        self.claimed.append(task)

    async def hint(self) -> None:
        """Tell who listens what this claim changed."""
        topics = [*self._aside, *(task_topic(task.id) for task in self.claimed)]
        if self.claimed:
            topics.append(EVENTS_TOPIC)
            ats = (at for t in self.claimed if (at := next_timer(t)) is not None)
            topics += self.core.timer_topic(ats)
        if self._due:
            topics.append(TIMER_TOPIC)
        if topics:
            await self.core.hint(topics)

    # --- repeats ---

    def _token_subject(self) -> str:
        return self.heads.names.of("k", hashed(self.request.token))

    async def is_repeat(self) -> bool:
        """Whether the token was used, and some of its runs are active: then they are the answer."""
        if self._token_seq:
            return False
        found = await self.heads.last([self._token_subject()])
        if not found:
            return False
        self._token_seq = seq_of(found[0])
        self._named = found[0].data.decode().split()
        heads = await self.heads.read(self._named)
        same = [
            head.task
            for i in self._named
            if (head := heads.get(i)) is not None
            and head.task is not None
            and head.task.state is State.ACTIVE
            and head.body.token == self.request.token
        ]
        if same:
            self.repeat = same
        return bool(same)

    async def announce(self, timers: Sequence[tuple[str, int, int]], ids: Sequence[str]) -> bool:
        """Write timers and the token's tasks before the records; False if this is a repeat."""
        names = self.heads.names
        while True:
            named = list(dict.fromkeys([*self._named, *ids]))
            body = " ".join(named).encode()
            headers = {GUARD: str(self._token_seq), "Nats-TTL": "86400s"}
            writes: list[Write] = [(self._token_subject(), body, headers)]
            shared = self.timers.shared
            writes += schedules(names, timers, self.core.clock.now(), shared=shared)
            (seq, *_) = await self.heads.wire.write(names.stream, writes)
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

    async def bury(self, dead: Sequence[Head]) -> None:
        """Not handed out: those past their time are made due, those unreadable set aside."""
        now = self.core.clock.now()
        wanted = [
            (head.body.id, head.body.revision, now)
            for head in dead
            if head.task is not None and head.task.state is not State.UNKNOWN
        ]
        await self.make_due(wanted)
        broken = [head for head in dead if is_broken(head)]
        self._aside += await put_aside(self.heads, broken, now)

    async def make_due(self, wanted: Sequence[Wanted]) -> None:
        """Set timers that a timekeeper is to take at once."""
        if wanted:
            await self.timers.set(wanted, self.core.clock.now())
            self._due = True

    def stamps(self, heads: Sequence[Head]) -> list[Task]:
        """The records as this claim would leave them."""
        return [
            self._stamped(head.task, len(self._named) + n)
            for n, head in enumerate(heads)
            if head.task is not None
        ]

    def _stamped(self, task: Task, index: int) -> Task:
        request, now = self.request, self.core.clock.now()
        stamp = Stamp(
            run=f"{hashed(request.token)[:20]}-{index}",
            fence=next_fence(task.status.fence, now),
            worker=request.worker,
            token=request.token,
            at=now,
            lease_until=now + request.lease_ms,
        )
        return stamped(task, stamp)

    def timers_of(self, heads: Sequence[Head], tasks: Sequence[Task]) -> list[tuple[str, int, int]]:
        """The first timers of the runs."""
        found: list[tuple[str, int, int]] = []
        for head, task in zip(heads, tasks, strict=True):
            assert head.task is not None
            found.append((task.id, task.status.revision, _first_timer(head.task, task)))
        return found

    def writes(
        self, chosen: Sequence[Head], tasks: Sequence[Task]
    ) -> tuple[list[Write], list[Write], list[Body]]:
        """What must stand in front of the records (who reads the log relies on it), and they."""
        heads, token = self.heads, self.request.token
        archives: list[Write] = []
        writes: list[Write] = []
        bodies: list[Body] = []
        for head, task in zip(chosen, tasks, strict=True):
            body = heads.body(task, head, token=token)
            subject = heads.names.rest(task.id)
            archive = heads.archive(head, task.status.revision)
            if archive is not None:
                archives.append(archive)
            purge = heads.purged_by(head, subject)
            writes.append(heads.write(body, subject, guard=head.guard, purge=purge))
            bodies.append(body)
        return archives, writes, bodies


def _first_timer(pending: Task, task: Task) -> int:
    """The first timer of a run, by what its ready entry says."""
    assert task.cell is not None
    timer = task.cell.lease_until
    limit, dead_at = first_limit(pending), next_timer(pending)
    if limit is not None:
        timer = min(timer, (task.status.runs[-1].claimed_at or 0) + limit)
    return timer if dead_at is None else min(timer, dead_at)
