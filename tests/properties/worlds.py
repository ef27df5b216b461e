"""The same operation done to the reference and to stores, and their answers compared."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from andon.contract.edges import Ended, Link, Settlement
from andon.contract.outcomes import Changed, Created, CreateKind, Verdict
from andon.contract.requests import Change, ClaimRequest, Renewal
from andon.contract.store import Store
from andon.lifecycle.apply import Moved
from andon.model.fleet import QueueConfig
from andon.model.task import Status, Task, TaskEvent
from andon.model.words import LIVE, Event
from andon.testing.ledger import Ledger

from .courses import START
from .reference import Reference

HOLD_MS = 10_000
MODEL = "model"

Copies = dict[str, Task]
"""One record as each world has it: run ids and internal keys are its own."""


class Worlds:
    """The reference and one or more stores, under one virtual clock."""

    def __init__(self, make: Callable[[Callable[[], int]], dict[str, Store]]) -> None:
        """`make` gives stores by name, not open and empty, on the clock it is given."""
        self.now = START
        self.model = Reference(START)
        self._runner = asyncio.Runner()
        self.stores = make(lambda: self.now)
        for store in self.stores.values():
            self._run(store.open())
        self._cursors = dict.fromkeys(self.stores, "")
        self._seen: dict[str, int] = {}
        self._ledgers = {name: Ledger() for name in self.stores}
        self._tokens: set[str] = set()
        self.ids: dict[str, None] = {}
        self.queues: dict[str, None] = {}

    def close(self) -> None:
        for store in self.stores.values():
            self._run(store.close())
        self._runner.close()

    def advance(self, ms: int) -> None:
        self.now += ms
        self.model.now = self.now

    # --- operations ---

    def create(self, tasks: list[Task]) -> list[Created]:
        self.ids.update((task.id, None) for task in tasks)
        expected = self.model.create(tasks)
        for name, got in self._each(lambda store: store.create(tasks)).items():
            plain = [replace(c, oldest=()) for c in got]
            assert plain == expected, (name, plain, expected)
        self.queues.update(
            (task.definition.queue, None)
            for task, created in zip(tasks, expected, strict=True)
            if created.kind is CreateKind.CREATED
        )
        return expected

    def claim(self, request: ClaimRequest) -> list[Copies]:
        claimed = {MODEL: self.model.claim(request)}
        claimed |= self._each(lambda store: store.claim(request))
        plain = {name: [canonical(task) for task in tasks] for name, tasks in claimed.items()}
        for name, tasks in plain.items():
            order = [[task.id for task in of] for of in (tasks, plain[MODEL])]
            if request.token not in self._tokens:
                assert order[0] == order[1], (name, "claims in another order", order)
            assert by_id(tasks) == by_id(plain[MODEL]), (name, "claims other records")
        self._tokens.add(request.token)
        ids = [task.id for task in claimed[MODEL]]
        return [
            {name: next(t for t in tasks if t.id == task_id) for name, tasks in claimed.items()}
            for task_id in ids
        ]

    def renew(self, copies: Copies, **fields: Any) -> Verdict:
        def renewal(name: str) -> Renewal:
            task = copies[name]
            return Renewal(task=task.id, run=task.status.run, **fields)

        expected = self.model.renew(renewal(MODEL))
        for name, store in self.stores.items():
            [verdict] = self._run(store.renew([renewal(name)]))
            assert verdict is expected, (name, verdict, expected)
        return expected

    def commit(self, copies: Copies, change_of: Callable[[Task], Change]) -> Changed:
        """Decide in each world on its own copy, write, compare."""
        changes = {name: change_of(task) for name, task in copies.items()}
        return self.commit_again(changes)

    def commit_again(self, changes: dict[str, Change]) -> Changed:
        if changes[MODEL].discard is not None:
            self._release_ended(changes[MODEL].before.id)
        expected = self.model.commit(changes[MODEL])
        for name, store in self.stores.items():
            [changed] = self._run(store.commit([changes[name]]))
            assert plainly(changed) == plainly(expected), (name, plainly(changed), expected)
        return expected

    def fire(self, change_of: Callable[[Task], Change | None], rearm: Any) -> None:
        """What a timekeeper does with all that is due, in lockstep."""
        taken: dict[str, Any] = {}
        for _ in range(12):
            expected = {task.id for task in self.model.due()}
            taken = self._each(lambda store: store.take_due(0, 500, HOLD_MS))
            were_early = self._arm_anew(taken, expected, change_of, rearm)
            if not expected and not were_early:
                break
            for task_id in expected:
                self.model.rearm(task_id, self.now + HOLD_MS)
            for task_id in sorted(expected):
                self._fire_one(task_id, taken, change_of, rearm)
        assert not self.model.due(), "timers fire again and again"
        for name, due in taken.items():
            expected_at = self.model.next_timer()
            late = due.next_at is None or (expected_at is not None and due.next_at > expected_at)
            assert expected_at is None or not late, (name, due, expected_at)

    def _arm_anew(
        self, taken: dict[str, Any], expected: set[str], change_of: Any, rearm: Any
    ) -> bool:
        """Arm what stores have handed out before its time, as they may: a run at the moment up to
        which its task could be claimed, a deletion that edges put off when these let go. Whether
        there was any."""
        found = False
        for name, due in taken.items():
            early = [task for task in due.tasks if task.id not in expected]
            assert all(change_of(task) is None for task in early), (name, early)
            self._run(self.stores[name].rearm([(t.id, rearm(t, self.now)) for t in early]))
            found = found or bool(early)
        return found

    def _fire_one(self, task_id: str, taken: Any, change_of: Any, rearm: Any) -> None:
        record = self.model.records.get(task_id)
        if record is None:
            return
        change = change_of(record.task)
        if change is None:
            at = rearm(record.task, self.now)
            self.model.rearm(task_id, at)
            for store in self.stores.values():
                self._run(store.rearm([(task_id, at)]))
            return
        copies = {MODEL: record.task}
        for name, due in taken.items():
            mine = [task for task in due.tasks if task.id == task_id]
            assert mine, (name, "did not hand out", task_id, record.task.status)
            copies[name] = mine[0]
        changes = {name: change_of(task) for name, task in copies.items()}
        changed = self.commit_again(changes)
        if change.after is None and changed.current is not None:
            self.model.rearm(task_id, self.now + 60_000)
            for store in self.stores.values():
                self._run(store.rearm([(task_id, self.now + 60_000)]))

    def link(self, link: Link) -> list[Ended]:
        expected = self.model.link(link)
        for name, got in self._each(lambda store: store.link([link])).items():
            assert ends(got) == ends(expected), (name, got, expected)
        return expected

    def settle(self, settlement: Settlement) -> int:
        expected = self.model.settle(settlement)
        for name, got in self._each(lambda store: store.settle([settlement])).items():
            assert got == [expected], (name, got, expected)
        return expected

    def release_edges(self, parent: str, child: str) -> None:
        self.model.release_edges(parent, child)
        self._each(lambda store: store.release_edges([(parent, child)]))

    def _release_ended(self, parent: str) -> None:
        """As the engine does once a dependent has ended. Until then a store may keep a record that
        is discarded at its end: where records lie apart it does not see that none of them lives."""
        for of, child in list(self.model.edges):
            record = self.model.records.get(child)
            if of == parent and (record is None or record.task.state not in LIVE):
                self.release_edges(parent, child)

    def unlink(self, parent: str, child: str) -> None:
        self.model.unlink(parent, child)
        self._each(lambda store: store.unlink([(parent, child)]))

    def put_queue(self, config: QueueConfig, *, expect: QueueConfig | None = None) -> None:
        """Over what is set now, or over what is only believed to be."""
        there = self.model.configs.get(config.name, QueueConfig(name=config.name))
        believed = expect or there
        expected = self.model.put_queue(config, believed)
        each = self._each(lambda store: store.put_queue(config, expect=believed))
        for name, got in each.items():
            assert got is expected, (name, got, expected)

    def tightens(self, queue: str, per_key: int | None) -> bool:
        """Whether that limit would shut out tasks that wait in the queue."""
        return per_key is not None and self.model.most_of_a_key(queue) > per_key

    def copies(self, task_id: str) -> Copies | None:
        """The record as it stands in each world."""
        record = self.model.records.get(task_id)
        found = {name: got[0] for name, got in self._each(lambda s: s.get([task_id])).items()}
        if record is None:
            assert set(found.values()) == {None}, found
            return None
        assert None not in found.values(), (task_id, found)
        return {MODEL: record.task, **found}

    # --- comparing what is there ---

    def compare(self) -> None:
        """Records, edges, histories, counts and events are the same everywhere."""
        ids = list(self.ids)
        expected = [self.model.records.get(task_id) for task_id in ids]
        for name, store in self.stores.items():
            for task_id, record, task in zip(ids, expected, self._run(store.get(ids)), strict=True):
                same(name, task_id, None if record is None else record.task, task)
            for task_id, record in zip(ids, expected, strict=True):
                history = self._run(store.history(task_id))
                wanted = () if record is None else tuple(record.history)
                got = [plain_event(e) for e in history.events]
                assert got == [plain_event(e) for e in wanted], (name, task_id)
                assert not history.dropped
                edges = self._run(store.dependents(task_id))
                found = [(e.child, e.loads, e.any_end, e.settled) for e in edges]
                assert found == self._edges(task_id), (name, task_id, found, self._edges(task_id))
            self._compare_stats(name, store)
            self._compare_events(name, store)

    def _edges(self, parent: str) -> list[tuple[str, bool, bool, bool]]:
        ties = self.model.edges.items()
        mine = ((child, tie) for (p, child), tie in ties if p == parent)
        return sorted((c, tie.loads, tie.any_end, tie.settled) for c, tie in mine)

    def _compare_stats(self, name: str, store: Store) -> None:
        stats = {found.queue: found for found in self._run(store.stats())}
        for queue in self.queues:
            found = stats[queue]
            counts = {state: n for state, n in found.counts.items() if n}
            assert counts == self.model.counts(queue), (name, queue)
            assert found.dead_letters == self.model.dead_letters(queue), (name, queue)
            parked = self.model.parked(queue)
            assert found.parked == parked, (name, queue, found.parked, parked)

    def _compare_events(self, name: str, store: Store) -> None:
        page = self._run(store.events(self._cursors[name], 10_000))
        assert not page.gap
        self._cursors[name] = page.cursor
        self._ledgers[name].read(page.events)
        seen = self._seen.setdefault(name, 0)
        assert len(self.model.log) - seen == len(page.events), (name, page.events)
        self._seen[name] = len(self.model.log)

    # --- mechanics ---

    def _run(self, awaitable: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    def _each(self, act: Callable[[Store], Awaitable[Any]]) -> dict[str, Any]:
        return {name: self._run(act(store)) for name, store in self.stores.items()}


def change_of(task: Task, moved: Moved, **guards: Any) -> Change:
    """The change that writes a move."""
    return Change(
        before=task,
        after=moved.status,
        event=moved.event,
        result=moved.result,
        sets_result=moved.sets_result,
        discard=moved.discard,
        **guards,
    )


def canonical(task: Task) -> Task:
    """The record with run ids that do not depend on who made them."""
    status = task.status
    names = {run.id: f"{task.id}#{run.number}" for run in status.runs if run.id}
    assert len(names) == sum(bool(run.id) for run in status.runs), "a run id was used twice"
    runs = tuple(replace(run, id=names.get(run.id, "")) for run in status.runs)
    events = tuple(plain_event(event) for event in status.events)
    changed = replace(status, run=names.get(status.run, ""), runs=runs, events=events)
    cell = task.cell
    if cell is not None:
        cell = replace(cell, run=names[cell.run])
    return Task(definition=task.definition, status=changed, cell=cell, result=task.result)


def plain_event(event: TaskEvent) -> TaskEvent:
    """The event without the names that each world gives by itself."""
    write_id = "" if event.event is Event.CLAIM else event.write_id
    return replace(event, write_id=write_id, task="")


def plainly(changed: Changed) -> tuple[Any, ...]:
    current = None if changed.current is None else canonical(changed.current)
    return changed.kind, changed.holder, changed.has_dependents, current


def by_id(tasks: Sequence[Task]) -> dict[str, Task]:
    return {task.id: task for task in tasks}


def ends(ended: Sequence[Ended]) -> list[tuple[str, str, Any, bool]]:
    return sorted((e.child, e.parent, str(e.state), e.any_end) for e in ended)


def same(name: str, task_id: str, expected: Task | None, got: Task | None) -> None:
    """Compare part by part, so that a failure says which."""
    if expected is None or got is None:
        assert expected is None, (name, task_id, "has no record of it")
        assert got is None, (name, task_id, "still has it", got)
        return
    one, other = canonical(expected), canonical(got)
    assert other.definition == one.definition, (name, task_id)
    assert other.status == one.status, (name, task_id, difference(one.status, other.status))
    assert other.cell == one.cell, (name, task_id)
    assert other.result == one.result, (name, task_id)


def difference(one: Status, other: Status) -> dict[str, tuple[Any, Any]]:
    mine, theirs = asdict(one), asdict(other)
    return {k: (mine[k], theirs[k]) for k in mine if mine[k] != theirs[k]}
