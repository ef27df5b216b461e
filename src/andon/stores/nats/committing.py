"""Writes changes: first what must be there before (timers, archives, marks), then the guarded
records.

A change whose record this process has just read or claimed needs no read of its own. If a guard
does not hold, the record is read and the change decided anew: refused, found to be written already,
or written with the new guard if only the lease record or the edges have changed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from andon.contract.isolation import AT_FAULT, why_of
from andon.contract.outcomes import APPLIED, HAS_DEPENDENTS, Changed, ChangeKind
from andon.contract.requests import Change
from andon.contract.topics import ready_topic, task_topic
from andon.lifecycle.constants import SUBMIT_WINDOW_MS
from andon.lifecycle.effects import Effects, of_change, of_discard
from andon.lifecycle.indexes import entry_of
from andon.model.fleet import QueueConfig
from andon.model.task import Task
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.kit.topics import topics_of
from andon.stores.nats.context import StoreContext
from andon.stores.nats.dead_letter_index import dead_letter_mark
from andon.stores.nats.edges import is_over
from andon.stores.nats.end_marks import end_marks
from andon.stores.nats.jetstream import CONFLICT, REFUSED, Write
from andon.stores.nats.quarantine import is_unreadable, quarantine
from andon.stores.nats.record_cache import LOG_AGE_S, RecordCache, comes_back, subqueue_of
from andon.stores.nats.record_codec import RecordBody, StoredRecord, moves_of
from andon.stores.nats.subjects import is_token
from andon.stores.nats.timers import schedules

if TYPE_CHECKING:
    from andon.stores.nats.known_edges import KnownEdge
    from andon.stores.nats.timers import Wanted

_GONE = Changed(ChangeKind.GONE)
_REFUSED = "the server refuses the message"


async def commit(context: StoreContext, changes: Sequence[Change]) -> list[Changed]:
    """Write the changes; outcomes in order."""
    outcomes: list[Changed | None] = [None] * len(changes)
    by_partition: dict[int, list[int]] = {}
    for position, change in enumerate(changes):
        if is_token(change.before.id):
            by_partition.setdefault(context.partition(change.before.id), []).append(position)
        else:
            outcomes[position] = _GONE
    for partition, positions in by_partition.items():
        await _Commit(context, partition, changes, outcomes).run(positions)
    return [outcome for outcome in outcomes if outcome is not None]


class _Plan:
    """The writes of one change."""

    __slots__ = ("body", "edges", "effects", "first", "purged", "stored", "subject", "timer", "ttl")

    def __init__(
        self, effects: Sequence[Effects], stored: StoredRecord, body: RecordBody, subject: str
    ) -> None:
        self.effects = effects  #: of the change, and of the discard that is written with it
        self.stored = stored
        self.body = body
        self.subject = subject
        self.first: list[Write] = []
        self.timer: Wanted | None = None
        self.ttl = 0
        self.purged = ""  #: a timer of several tasks, deleted with the write
        self.edges = False


class _Commit:
    """The changes of one partition."""

    def __init__(
        self,
        context: StoreContext,
        partition: int,
        changes: Sequence[Change],
        outcomes: list[Changed | None],
    ) -> None:
        self._context = context
        self._partition = partition
        self._records: RecordCache = context.records[partition]
        self._timers = context.timers[partition]
        self._changes = changes
        self._outcomes = outcomes
        self._topics: list[str] = []
        self._linked: dict[str, list[KnownEdge]] = {}
        """The edges of those of the tasks that have dependents."""
        self._held: set[str] = set()
        """Those of the tasks that must not be deleted yet."""
        self._freed: dict[str, int] = {}
        """Tasks that wait no longer, and the sequence of the write that ended the wait."""
        self._gone: list[str] = []
        """Deleted tasks that had dependents at some time."""
        self._untied: list[tuple[str, str]] = []
        """Edges that end in a deleted task, to be removed with it."""

    async def run(self, positions: Sequence[int]) -> None:
        """Write them all."""
        records: dict[int, StoredRecord] = {}
        unread: list[int] = []
        for position in positions:
            stored = self._records.known(self._changes[position].before)
            if stored is None:
                unread.append(position)
            else:
                records[position] = stored
        while records or unread:
            if unread:
                found = await self._records.read(self._changes[i].before.id for i in unread)
                for position in unread:
                    stored = found.get(self._changes[position].before.id)
                    outcome = await self._judge(self._changes[position], stored)
                    if outcome is not None:
                        self._outcomes[position] = outcome
                    elif stored is not None:
                        records[position] = stored
            unread = await self._write(records)
            records = {}
            await self._clean_up()
        if self._topics:
            self._context.hint(self._topics)

    async def _judge(self, change: Change, stored: StoredRecord | None) -> Changed | None:
        """The outcome, if the record as it stands decides it; None: write the change."""
        now = self._context.clock.now()
        write_id = change.event.write_id
        if stored is None:
            return _GONE
        if stored.body.deleted:
            fresh = stored.body.deleted > now - SUBMIT_WINDOW_MS
            wrote = any(e.write_id == write_id for e in stored.body.events)
            return APPLIED if fresh and write_id and wrote else _GONE
        task = stored.task
        assert task is not None
        before = change.before
        if task.state is not State.UNKNOWN:
            if task.status.created_at != before.status.created_at:
                return _GONE
            if write_id and any(
                e.write_id == write_id for _, e in moves_of(stored.body, stored.seq)
            ):
                return await self._told(task, stored)
        elif before.state is State.UNKNOWN and is_unreadable(stored):
            # The caller read it and found that it does not decode, and no claim or timer has read
            # it yet.
            self._topics += await quarantine(self._records, [stored], now)
            there = (await self._records.read([before.id])).get(before.id)
            current = None if there is None else there.task
            return _GONE if current is None else Changed(ChangeKind.CONFLICT, current=current)
        lease = None if task.cell is None else task.cell.lease_until
        renewed = change.seen_lease is not None and lease != change.seen_lease
        if stored.body.revision != before.status.revision or renewed:
            return Changed(ChangeKind.CONFLICT, current=task)
        return None

    async def _told(self, task: Task, stored: StoredRecord) -> Changed:
        """The outcome "applied", and whether there are dependents to notify."""
        if stored.body.linked and is_over(task.state):
            linked = await self._context.edges.of_some([task.id])
            return Changed(ChangeKind.APPLIED, has_dependents=bool(linked))
        return APPLIED

    async def _write(self, records: dict[int, StoredRecord]) -> list[int]:
        """Write what was planned. Returns those whose guard did not hold."""
        plans: dict[int, _Plan] = {}
        writes: list[Write] = []
        await self._read_edges(records)
        for position, stored in records.items():
            plan = None
            try:
                plan = await self._plan(position, self._changes[position], stored)
                if plan is not None:
                    writes.append(self._record(plan))
                    plans[position] = plan
            except AT_FAULT as error:
                if plan is not None:
                    self._timers.shared.refused(stored.body.id, plan.purged)
                self._outcomes[position] = Changed(ChangeKind.INVALID, why=why_of(error))
        if not plans:
            return []
        subjects = self._records.subjects
        first = [write for plan in plans.values() for write in plan.first]
        marked = [p.body.id for p in plans.values() if p.edges and not p.body.deleted]
        first += end_marks(subjects, marked)
        timers = [plan.timer for plan in plans.values() if plan.timer is not None]
        first += schedules(subjects, timers, self._context.clock.now())
        await self._records.js.write(subjects.stream, first)
        seqs = await self._records.js.write(subjects.stream, writes, each=True)
        again: list[int] = []
        for (position, plan), seq in zip(plans.items(), seqs, strict=True):
            if seq <= CONFLICT:
                self._records.forget(plan.body.id)
                self._timers.shared.refused(plan.body.id, plan.purged)
                if seq != REFUSED:
                    again.append(position)
                elif not await self._without_purge(position, plan):
                    self._outcomes[position] = Changed(ChangeKind.INVALID, why=_REFUSED)
            else:
                await self._written(position, plan, seq)
        return again

    async def _read_edges(self, records: dict[int, StoredRecord]) -> None:
        """Find out which of the changed tasks have dependents, and which of them must not be
        deleted yet."""
        linked = {
            position: self._changes[position]
            for position, stored in records.items()
            if stored.body.linked
        }
        ending = [
            change.before.id
            for change in linked.values()
            if change.after is not None and is_over(change.after.state)
        ]
        leaving = [
            change.before.id
            for change in linked.values()
            if change.discard is not None or (change.after is None and not change.force)
        ]
        edges = self._context.edges
        self._linked = await edges.of_some(ending) if ending else {}
        self._held = await edges.held(leaving) if leaving else set()

    async def _clean_up(self) -> None:
        """Delete what was kept for tasks that were deleted, or wait no longer."""
        context, edges = self._context, self._context.edges
        freed, gone, untied = self._freed, self._gone, self._untied
        self._freed, self._gone, self._untied = {}, [], []
        if freed:
            counts = edges.counts[self._partition]
            counts.note_over(freed)
            context.in_background(counts.forget(freed))
        if gone:
            await edges.forget(gone)
        if untied:
            await edges.unlink(untied, context.clock.now())

    async def _without_purge(self, position: int, plan: _Plan) -> bool:
        """Write over a message that is no schedule, though it has the subject of a pending task:
        Andon did not write it, and no write can delete it in the same step."""
        if not plan.stored.is_pending:
            return False
        records = self._records
        write = records.write(plan.body, plan.subject, guard=plan.stored.guard, ttl=plan.ttl)
        (seq,) = await records.js.write(records.subjects.stream, [write], each=True)
        if seq <= CONFLICT:
            return False
        await records.delete(plan.stored.seq)
        await self._written(position, plan, seq)
        return True

    def _record(self, plan: _Plan) -> Write:
        records = self._records
        purge: str | None = None
        if not plan.stored.is_pending:
            old = plan.stored.body
            held = self._timers.held.get(old.id)
            if held is not None and held[0]:
                purge = held[0]
            else:
                purge = self._timers.shared.purge(old.id, old.revision)
                plan.purged = purge or ""
        if purge is None:
            purge = records.purged_by(plan.stored, plan.subject)
        return records.write(
            plan.body, plan.subject, guard=plan.stored.guard, purge=purge, ttl=plan.ttl
        )

    async def _plan(self, position: int, change: Change, stored: StoredRecord) -> _Plan | None:
        """The writes of the change; None if it is refused. Raises one of `AT_FAULT` if it cannot be
        written."""
        if change.after is None or change.event not in change.after.events[-1:]:
            encode(change.event)  # else it is part of the status, which is encoded below
        if change.after is None:
            return self._plan_deletion(position, change, stored)
        old = stored.task
        assert old is not None
        after = Task(
            definition=change.before.definition,
            status=change.after,
            cell=old.cell if change.after.state is State.ACTIVE else None,
            result=change.result if change.sets_result else old.result,
        )
        effects = of_change(change, after=entry_of(after))
        holder = await self._context.reserve_for(
            effects, after.id, after.status.revision, self._context.clock.now()
        )
        if holder:
            self._outcomes[position] = Changed(ChangeKind.KEY_HELD, holder=holder)
            return None
        edges = effects.ends and after.id in self._linked
        if change.discard is not None and after.id not in self._held:
            now = self._context.clock.now()
            body = self._records.tombstone(
                stored, (change.event, change.discard), now, change.after
            )
            if self._refused_as_large(position, body):
                return None
            assert effects.entry is not None, "it has ended, and is there until it is discarded"
            both = effects, of_discard(effects.entry, change.discard)
            plan = _Plan(both, stored, body, self._records.subjects.rest(after.id))
            plan.ttl = LOG_AGE_S
            plan.edges = edges
            return plan
        token = stored.body.token if after.state is State.ACTIVE else ""
        body = self._records.body(after, stored, token=token)
        if self._refused_as_large(position, body):
            return None
        plan = _Plan((effects,), stored, body, self._records.subject(after, stored))
        plan.edges = edges
        if effects.ready_in is not None:
            subqueue = subqueue_of(after, back=comes_back(after, stored))
            await self._context.fleet.use([subqueue])
        revision = after.status.revision
        if effects.timer is not None:
            plan.timer = (after.id, revision, effects.timer)
        if effects.dead_letter_in:
            plan.first.append(dead_letter_mark(self._records.subjects, after.id, revision))
        archive = self._records.archive(stored, revision)
        if archive is not None:
            plan.first.append(archive)
        return plan

    def _refused_as_large(self, position: int, body: RecordBody) -> bool:
        """Refuse the change by itself if its record is too large: the others of its call are
        written."""
        excess, room = self._records.excess(body)
        if excess <= 0:
            return False
        size = len(body.result or b"") or room + excess
        self._outcomes[position] = Changed(
            ChangeKind.TOO_LARGE, size=size, limit=max(size - excess, 0)
        )
        return True

    def _plan_deletion(self, position: int, change: Change, stored: StoredRecord) -> _Plan | None:
        task_id = stored.body.id
        if not change.force and task_id in self._held:
            self._outcomes[position] = Changed(ChangeKind.CONFLICT, current=stored.task)
            return None
        body = self._records.tombstone(
            stored,
            (change.event,),
            self._context.clock.now(),
            None if stored.task is None else stored.task.status,
        )
        plan = _Plan((of_change(change),), stored, body, self._records.subjects.rest(task_id))
        plan.ttl = LOG_AGE_S
        return plan

    async def _written(self, position: int, plan: _Plan, seq: int) -> None:
        """Remember, hint and clean up after a write."""
        change, context = self._changes[position], self._context
        before, task_id = change.before, change.before.id
        discard = (change.discard,) if change.discard is not None and plan.body.own > 1 else ()
        self._records.notes.note_moves(seq, before.definition.queue, (change.event, *discard))
        self._timers.held.pop(task_id, None)
        self._timers.shared.written(task_id, plan.stored.body.revision, plan.purged)
        main, gone = plan.effects[0], bool(plan.body.deleted)
        self._outcomes[position] = APPLIED
        if plan.edges:
            self._outcomes[position] = HAS_DEPENDENTS
            context.edges.ended.note(task_id, main.timer, self._linked[task_id])
        if plan.body.state == State.ACTIVE and not plan.body.deleted:
            self._records.remember(StoredRecord(plan.body, plan.subject, seq, seq))
        else:
            # The next move mostly gets the record from a claim or from the timers, seldom from
            # here.
            self._records.forget(task_id)
        if plan.stored.is_pending and plan.stored.subject != plan.subject:
            timer = self._records.timer_of(plan.stored)
            if timer:
                context.in_background(self._records.purge(timer))
        if main.dead_letter_out:
            mark = self._records.subjects.dead(task_id, before.status.revision)
            context.in_background(self._records.purge(mark))
        if main.unblocks:
            self._freed[task_id] = seq
        if gone:
            self._gone += [task_id] if plan.stored.body.linked else []
            self._untied += [(p, task_id) for p in before.definition.dependencies]
        self._topics.append(task_topic(task_id))
        now = context.clock.now()
        for effects in plan.effects:
            if effects.frees_key is not None:
                context.drop_key(effects.frees_key, task_id, plan.body.revision)
            self._topics += topics_of(effects, now)
        if main.frees_slot or main.leaves_key:
            config = (await context.fleet.configs()).get(main.queue)
            if config is not None and _may_have_room(config, main):
                self._topics.append(ready_topic(main.queue))


def _may_have_room(config: QueueConfig, effects: Effects) -> bool:
    """Whether a limit may let another task through. Only a claim finds out whether one waits."""
    return (effects.frees_slot and config.max_concurrent is not None) or (
        effects.leaves_key and config.max_concurrent_per_key is not None
    )
