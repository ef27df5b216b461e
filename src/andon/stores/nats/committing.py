"""Committing: what must be there first (timers, archives, marks), then the guarded records.

A change whose record this process has just read or claimed needs no read of its own. Where a guard
does not hold, the record is read and the change judged anew: refused, found to be written already,
or written with the new guard when only the cell or the edges have changed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.isolation import AT_FAULT, why_of
from andon.contract.outcomes import Changed, ChangeKind
from andon.contract.requests import Change
from andon.contract.topics import EVENTS_TOPIC, control_topic, ready_topic, task_topic
from andon.lifecycle.apply import is_dead_letter
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.lifecycle.interrupting import interrupted_worker
from andon.lifecycle.unique import lapsed
from andon.model.task import Status, Task
from andon.model.words import State
from andon.stores.codec import encode
from andon.stores.nats.aside import is_broken, put_aside
from andon.stores.nats.bodies import Body, Head, moves_of
from andon.stores.nats.core import Core
from andon.stores.nats.dead import marks_of
from andon.stores.nats.edges import is_over
from andon.stores.nats.heads import LOG_AGE_S, Heads, came_back, line_of
from andon.stores.nats.names import is_token
from andon.stores.nats.wire import CONFLICT, REFUSED, Write

if TYPE_CHECKING:
    from andon.stores.nats.timing import Wanted

_APPLIED = Changed(ChangeKind.APPLIED)
_GONE = Changed(ChangeKind.GONE)
_REFUSED = "the server refuses the message"


async def commit(core: Core, changes: Sequence[Change]) -> list[Changed]:
    """Write the changes; outcomes in order."""
    outcomes: list[Changed | None] = [None] * len(changes)
    by_partition: dict[int, list[int]] = {}
    for position, change in enumerate(changes):
        if is_token(change.before.id):
            by_partition.setdefault(core.partition(change.before.id), []).append(position)
        else:
            outcomes[position] = _GONE
    for partition, positions in by_partition.items():
        await _Commit(core, partition, changes, outcomes).run(positions)
    return [outcome for outcome in outcomes if outcome is not None]


class _Plan:
    """What one change writes."""

    __slots__ = ("body", "edges", "first", "head", "purged", "subject", "timer", "ttl")

    def __init__(self, head: Head, body: Body, subject: str) -> None:
        self.head = head
        self.body = body
        self.subject = subject
        self.first: list[Write] = []
        self.timer: Wanted | None = None
        self.ttl = 0
        self.purged = ""  #: a timer of several that goes with the write
        self.edges = False


class _Commit:
    """The changes of one partition."""

    def __init__(
        self,
        core: Core,
        partition: int,
        changes: Sequence[Change],
        outcomes: list[Changed | None],
    ) -> None:
        self._core = core
        self._heads: Heads = core.heads[partition]
        self._timers = core.timers[partition]
        self._changes = changes
        self._outcomes = outcomes
        self._topics: list[str] = []

    async def run(self, positions: Sequence[int]) -> None:
        """Write them all."""
        heads: dict[int, Head] = {}
        unread: list[int] = []
        for position in positions:
            head = self._heads.known(self._changes[position].before)
            if head is None:
                unread.append(position)
            else:
                heads[position] = head
        while heads or unread:
            if unread:
                found = await self._heads.read(self._changes[i].before.id for i in unread)
                for position in unread:
                    head = found.get(self._changes[position].before.id)
                    outcome = await self._judge(self._changes[position], head)
                    if outcome is not None:
                        self._outcomes[position] = outcome
                    elif head is not None:
                        heads[position] = head
            unread = await self._write(heads)
            heads = {}
        if self._topics:
            await self._core.hint(self._topics)

    async def _judge(self, change: Change, head: Head | None) -> Changed | None:
        """The outcome that the record as it stands decides; None to write."""
        now = self._core.clock.now()
        write_id = change.event.write_id
        if head is None:
            return _GONE
        if head.body.deleted:
            fresh = head.body.deleted > now - SUBMIT_WINDOW_MS
            wrote = any(e.write_id == write_id for e in head.body.events)
            return _APPLIED if fresh and write_id and wrote else _GONE
        task = head.task
        assert task is not None
        before = change.before
        if task.state is not State.UNKNOWN:
            if task.status.created_at != before.status.created_at:
                return _GONE
            if write_id and any(e.write_id == write_id for _, e in moves_of(head.body, head.seq)):
                return await self._told(task, head)
        elif before.state is State.UNKNOWN and is_broken(head):
            # Whoever read it found that it does not decode, and no claim or timer has met it yet.
            self._topics += await put_aside(self._heads, [head], now)
            there = (await self._heads.read([before.id])).get(before.id)
            current = None if there is None else there.task
            return _GONE if current is None else Changed(ChangeKind.CONFLICT, current=current)
        lease = None if task.cell is None else task.cell.lease_until
        renewed = change.seen_lease is not None and lease != change.seen_lease
        if head.body.revision != before.status.revision or renewed:
            return Changed(ChangeKind.CONFLICT, current=task)
        return None

    async def _told(self, task: Task, head: Head) -> Changed:
        """Applied, and whether there are dependents to tell."""
        if head.body.linked and is_over(task.state) and await self._core.edges.of(task.id):
            return Changed(ChangeKind.APPLIED, has_dependents=True)
        return _APPLIED

    async def _write(self, heads: dict[int, Head]) -> list[int]:
        """Write what was planned; those whose guard did not hold."""
        plans: dict[int, _Plan] = {}
        writes: list[Write] = []
        for position, head in heads.items():
            plan = None
            try:
                plan = await self._plan(position, self._changes[position], head)
                if plan is not None:
                    writes.append(self._record(plan))
                    plans[position] = plan
            except AT_FAULT as error:
                if plan is not None:
                    self._timers.shared.refused(head.body.id, plan.purged)
                self._outcomes[position] = Changed(ChangeKind.INVALID, why=why_of(error))
        if not plans:
            return []
        first = [write for plan in plans.values() for write in plan.first]
        timers = [plan.timer for plan in plans.values() if plan.timer is not None]
        stream = self._heads.names.stream
        if first:
            await self._heads.wire.write(stream, first)
        if timers:
            await self._timers.set(timers, self._core.clock.now())
        seqs = await self._heads.wire.write(stream, writes, each=True)
        again: list[int] = []
        for (position, plan), seq in zip(plans.items(), seqs, strict=True):
            if seq <= CONFLICT:
                self._heads.forget(plan.body.id)
                self._timers.shared.refused(plan.body.id, plan.purged)
                if seq != REFUSED:
                    again.append(position)
                elif not await self._without_purge(position, plan):
                    self._outcomes[position] = Changed(ChangeKind.INVALID, why=_REFUSED)
            else:
                await self._written(position, plan, seq)
        return again

    async def _without_purge(self, position: int, plan: _Plan) -> bool:
        """Write over a message that is no schedule, though it stands where pending tasks do:
        whoever put it there was not Andon, and no write can take it along."""
        if not plan.head.is_pending:
            return False
        heads = self._heads
        write = heads.write(plan.body, plan.subject, guard=plan.head.guard, ttl=plan.ttl)
        (seq,) = await heads.wire.write(heads.names.stream, [write], each=True)
        if seq <= CONFLICT:
            return False
        await heads.delete(plan.head.seq)
        await self._written(position, plan, seq)
        return True

    def _record(self, plan: _Plan) -> Write:
        heads = self._heads
        purge: str | None = None
        if not plan.head.is_pending:
            old = plan.head.body
            held = self._timers.held.get(old.id)
            if held is not None and held[0]:
                purge = held[0]
            else:
                purge = self._timers.shared.purge(old.id, old.revision)
                plan.purged = purge or ""
        if purge is None:
            purge = heads.purged_by(plan.head, plan.subject)
        return heads.write(
            plan.body, plan.subject, guard=plan.head.guard, purge=purge, ttl=plan.ttl
        )

    async def _plan(self, position: int, change: Change, head: Head) -> _Plan | None:
        """What the change writes; None where it is refused. Raises one of `AT_FAULT` if it cannot
        be written."""
        if change.after is None or change.event not in change.after.events[-1:]:
            encode(change.event)  # else it is part of the status, which is encoded below
        if change.after is None:
            return await self._plan_deletion(position, change, head)
        old = head.task
        assert old is not None
        after = Task(
            definition=change.before.definition,
            status=change.after,
            cell=old.cell if change.after.state is State.ACTIVE else None,
            result=change.result if change.sets_result else old.result,
        )
        entry = entry_of(after)
        refused = await self._take_key(change, after, entry)
        if refused is not None:
            self._outcomes[position] = refused
            return None
        over = is_over(after.state)
        edges = over and head.body.linked > 0 and bool(await self._core.edges.of(after.id))
        if change.discard is not None and not (edges and await self._core.edges.held(after.id)):
            now = self._core.clock.now()
            body = self._heads.tombstone(head, (change.event, change.discard), now, change.after)
            if self._refused_as_large(position, body):
                return None
            plan = _Plan(head, body, self._heads.names.rest(after.id))
            plan.ttl = LOG_AGE_S
            plan.edges = edges
            return plan
        token = head.body.token if after.state is State.ACTIVE else ""
        body = self._heads.body(after, head, token=token)
        if self._refused_as_large(position, body):
            return None
        plan = _Plan(head, body, self._heads.subject(after, head))
        plan.edges = edges
        if after.state is State.PENDING:
            line = line_of(after, back=came_back(after, head))
            await self._core.fleet.use([line])
        if entry.timer is not None:
            plan.timer = (after.id, after.status.revision, entry.timer)
        plan.first += marks_of(self._heads.names, [after])
        archive = self._heads.archive(head, after.status.revision)
        if archive is not None:
            plan.first.append(archive)
        if edges:
            plan.first.append((self._heads.names.of("x", after.id), b"1", None))
        return plan

    def _refused_as_large(self, position: int, body: Body) -> bool:
        """By itself: those it came with are written."""
        excess, room = self._heads.excess(body)
        if excess <= 0:
            return False
        size = len(body.result or b"") or room + excess
        self._outcomes[position] = Changed(
            ChangeKind.TOO_LARGE, size=size, limit=max(size - excess, 0)
        )
        return True

    async def _plan_deletion(self, position: int, change: Change, head: Head) -> _Plan | None:
        task_id = head.body.id
        linked = head.body.linked > 0
        if linked and not change.force and await self._core.edges.held(task_id):
            self._outcomes[position] = Changed(ChangeKind.CONFLICT, current=head.task)
            return None
        body = self._heads.tombstone(
            head,
            (change.event,),
            self._core.clock.now(),
            None if head.task is None else head.task.status,
        )
        plan = _Plan(head, body, self._heads.names.rest(task_id))
        plan.ttl = LOG_AGE_S
        return plan

    async def _take_key(self, change: Change, after: Task, wants: IndexEntry) -> Changed | None:
        """Reserve the unique key that the task wants to hold from now on."""
        if wants.unique_key is None or entry_of(change.before).unique_key is not None:
            return None
        if lapsed(wants, self._core.clock.now()):
            return None
        holder = await self._core.reserve(wants.unique_key, after.id, after.status.revision)
        return Changed(ChangeKind.KEY_HELD, holder=holder) if holder else None

    async def _written(self, position: int, plan: _Plan, seq: int) -> None:
        """The write is done: remember, hint, clean up."""
        change, core = self._changes[position], self._core
        before, task_id = change.before, change.before.id
        discard = (change.discard,) if change.discard is not None and plan.body.own > 1 else ()
        self._heads.notes.moved(seq, before.definition.queue, (change.event, *discard))
        self._timers.held.pop(task_id, None)
        self._timers.shared.written(task_id, plan.head.body.revision, plan.purged)
        self._outcomes[position] = (
            Changed(ChangeKind.APPLIED, has_dependents=True) if plan.edges else _APPLIED
        )
        if plan.body.state == State.ACTIVE and not plan.body.deleted:
            self._heads.remember(Head(plan.body, plan.subject, seq, seq))
        else:
            # Who moves it next has it from a claim or from the timers, seldom here.
            self._heads.forget(task_id)
        if plan.head.is_pending and plan.head.subject != plan.subject:
            timer = self._heads.timer_of(plan.head)
            if timer:
                core.later(self._heads.purge(timer))
        if is_dead_letter(before, before.status):
            core.later(self._heads.purge(self._heads.names.dead(task_id, before.status.revision)))
        gone = bool(plan.body.deleted)
        blocked = before.state is State.BLOCKED
        if (blocked and plan.body.state != State.BLOCKED) or (gone and plan.head.body.linked):
            await core.edges.forget(
                task_id, parent=gone and plan.head.body.linked > 0, child=blocked
            )
        await self._free_key(change)
        self._topics += [task_topic(task_id), EVENTS_TOPIC]
        await self._wake(change, plan.timer)

    async def _free_key(self, change: Change) -> None:
        """A reservation nobody holds is stale, and found to be so; the next to ask takes it over.
        It is dropped here only so that none are left behind."""
        if change.before.definition.unique_key is None:
            return
        before = entry_of(change.before)
        after = change.after
        if before.unique_key is None or before.state is State.UNKNOWN:
            return
        record = None if after is None else Task(definition=change.before.definition, status=after)
        if record is None or (is_over(record.state) and entry_of(record).unique_key is None):
            keys = self._core.keys[self._core.partition(before.unique_key)]
            self._core.later(keys.drop(before.unique_key, change.before.id))

    async def _wake(self, change: Change, timer: "Wanted | None") -> None:
        after: Status | None = change.after
        before = change.before
        queue = before.definition.queue
        config = (await self._core.fleet.configs()).get(queue)
        limited = config is not None and (
            config.max_concurrent is not None or config.max_concurrent_per_key is not None
        )
        left = before.state in (State.ACTIVE, State.PENDING)
        if (after is not None and after.state is State.PENDING) or (limited and left):
            self._topics.append(ready_topic(queue))
        worker = interrupted_worker(before.status, change.event.event)
        if worker:
            self._topics.append(control_topic(worker))
        if timer is not None:
            self._topics += self._core.timer_topic([timer[2]])
