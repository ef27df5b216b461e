"""What a store derives from each write (indexes, counters, keys, timers) and the pure rules: every
move from every state, the ways to create, and the claim, in whatever language the store has them.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import virtual_stores
from lifecycle.examples import NOW, SAMPLES, STORED, decided, in_state, submitted
from msgspec import Struct
from servers import Servers, on_clock

from andon.contract.outcomes import ChangeKind, CreateKind
from andon.contract.requests import Change, ClaimRequest, Snapshot
from andon.lifecycle import commands as c
from andon.lifecycle.apply import next_fence, stamped
from andon.lifecycle.daily import Tally, tally_of
from andon.lifecycle.effects import Effects, between, of_change, of_discard, of_new
from andon.lifecycle.indexes import IndexEntry, entry_of
from andon.lifecycle.moves import TARGETS
from andon.model.task import Stamp, Task
from andon.model.words import State

if TYPE_CHECKING:
    from andon.contract.store import Store

YEARS_MS = 100 * 365 * 86_400_000
LEASE_MS = 30_000
KEYS: dict[str, Any] = {"unique_key": "u", "key": "k", "group": "g"}
ALL_ENDS = ("completed", "failed", "cancelled", "stalled", "dropped", "expired", "unreachable")
POLICIES: tuple[dict[str, Any], ...] = (
    {},
    {"dead_letter": "save", "unique_states": ("pending", "completed")},
    {"unique_states": ("pending", *ALL_ENDS), "discard_states": ALL_ENDS},
)
NEW: tuple[dict[str, Any], ...] = (
    {},
    {"deadline": NOW + 7_000},
    {"run_at": NOW + 9_000},
    {"dependencies": ("p",)},
    {"group": "g"},
    {"priority": 3},
    {"policy": {"dead_letter": "save", "max_heartbeat_interval": 2.0}},
    KEYS,
    {**KEYS, "policy": {"unique_states": ("pending",), "unique_period": 5.0}},
    {**KEYS, "run_at": NOW + 9_000, "policy": {"unique_states": ("pending",)}},
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("store_kind", virtual_stores(metafunc.config))


class Written(Struct):
    """A task, and what the effects of all that was written of it come to."""

    task: Task
    entry: IndexEntry | None  #: what is to be indexed of it now
    tallies: list[Tally | None]

    def follow(self, effects: Effects) -> None:
        """One more write."""
        self.entry = effects.entry
        self.tallies.append(effects.tally)


class World:
    """A store on a clock that is moved by hand."""

    def __init__(self, url: str) -> None:
        self.now = NOW
        self._numbers = itertools.count()
        self._runner = asyncio.Runner()
        self.store: Store = on_clock(url, lambda: self.now)
        self.run = self._runner.run
        self.run(self.store.open())

    def close(self) -> None:
        self.run(self.store.close())
        self._runner.close()

    def own(self, given: dict[str, Any]) -> dict[str, Any]:
        """The same fields with an id, a queue and a unique key that no other task has."""
        n = next(self._numbers)
        keys = {"unique_key": f"u{n}"} if "unique_key" in given else {}
        return {"queue": f"q{n}", **given, **keys, "id": f"t{n}"}

    def claim(self, queue: str) -> list[Task]:
        token = f"token{next(self._numbers)}"
        request = ClaimRequest(worker="w", token=token, queues=(queue,), limit=5, lease_ms=LEASE_MS)
        return self.run(self.store.claim(request))

    def check(self, written: Sequence[Written]) -> None:
        """That the store has derived what the effects say, and nothing else."""
        self.check_counts(written)
        self._check_keys(written)
        self._check_timers(written)

    def check_counts(self, written: Sequence[Written]) -> None:
        """That its counters say so."""
        found = {stats.queue: stats for stats in self.run(self.store.stats())}
        tallied = self.run(self.store.tallies(None, 0))
        of_queue = itertools.groupby(written, lambda one: one.task.definition.queue)
        for queue, here in ((queue, [*group]) for queue, group in of_queue):
            stats, entries = found[queue], [one.entry for one in here if one.entry is not None]
            counts = {state: n for state, n in stats.counts.items() if n}
            assert counts == Counter(entry.state.value for entry in entries), here
            assert stats.dead_letters == sum(entry.dead_letter for entry in entries), here
            tallies = Counter(tally for one in here for tally in one.tallies if tally)
            counted: Counter[str] = Counter()
            for tally in tallied:
                counted.update({tally.tally: tally.count} if tally.queue == queue else {})
            assert counted == tallies, here

    def _check_keys(self, written: Sequence[Written]) -> None:
        """Whether another task may have the key."""
        for one in written:
            key = one.task.definition.unique_key
            if key is None:
                continue
            other = submitted(**self.own({}), unique_key=key)
            (created,) = self.run(self.store.create([other]))
            is_held = one.entry is not None and one.entry.unique_key == key
            holder = (CreateKind.KEY_HELD, one.task.id) if is_held else (CreateKind.CREATED, "")
            assert (created.kind, created.holder) == holder, one

    def _check_timers(self, written: Sequence[Written]) -> None:
        timers = {
            one.task.id: max(one.entry.timer, self.now)
            for one in written
            if one.entry is not None and one.entry.timer is not None
        }
        ids = {one.task.id for one in written}
        began = self.now
        for at in sorted({*timers.values()}):
            for now in (at - 1, at):
                self.now = max(now, began)
                due = self.run(self.store.take_due(0, 5_000, YEARS_MS)).tasks
                expected = {i for i, timer in timers.items() if timer <= self.now}
                assert {task.id for task in due} & ids == expected, f"at {self.now}"
                for task_id in expected:
                    del timers[task_id]
        assert not timers


@pytest.fixture
def world(store_kind: str, servers: Servers, tmp_path: Path) -> Iterator[World]:
    world = World(servers.fresh_url(store_kind, tmp_path))
    yield world
    world.close()


def moves() -> Iterator[tuple[c.Command, State, bool, dict[str, Any], dict[str, Any]]]:
    """Every command in every state, of a task that shares nothing and of one with keys."""
    for sample, state, asked in itertools.product(SAMPLES, STORED, (False, True)):
        # A record that does not decode is no move's, and none that another store could hand over.
        if (sample.event, state, asked) not in TARGETS or state is State.UNKNOWN:
            continue
        if not asked or state is State.ACTIVE:
            for given, policy in itertools.product(({}, KEYS), POLICIES):
                yield sample, state, asked, given, policy


def one_batch(_change: Change, _effects: Effects) -> Any:
    """All in one call, for which no store has a fast way."""
    return 0


def by_kind(change: Change, effects: Effects) -> Any:
    """With those that may go the same way."""
    shared = effects.ends_run, effects.is_separate, effects.state
    return *map(str, shared), change.sets_result, change.before.status.revision


@pytest.mark.parametrize("batch_of", [one_batch, by_kind])
def test_every_move_leaves_what_its_effects_say(
    world: World, batch_of: Callable[[Change, Effects], Any]
) -> None:
    commands: dict[str, c.Command] = {}
    before: list[Task] = []
    for command, state, asked, given, policy in moves():
        fields = world.own(given)
        owes = command.event is c.Deliver().event
        before.append(in_state(state, asked=asked, owes=owes, policy=policy, **fields))
        commands[before[-1].id] = command
    snapshots = [Snapshot(task=task, history=task.status.events) for task in before]
    assert all(world.run(world.store.restore(snapshots)))
    there = world.run(world.store.get([*commands]))
    calls: dict[Any, list[Change]] = {}
    written: list[Written] = []
    for task in there:
        assert task is not None
        moved = decided(task, commands[task.id])
        change = Change(
            before=task,
            after=moved.status,
            event=moved.event,
            result=moved.result,
            sets_result=moved.sets_result,
            discard=moved.discard,
        )
        effects = of_change(change)
        one = Written(task, None, [tally_of(event) for event in task.status.events])
        one.follow(effects)
        if change.discard is not None:
            assert one.entry is not None
            one.follow(of_discard(one.entry, change.discard))
        written.append(one)
        calls.setdefault(batch_of(change, effects), []).append(change)
    for call in calls.values():
        outcomes = world.run(world.store.commit(call))
        assert {outcome.kind for outcome in outcomes} == {ChangeKind.APPLIED}
    world.check(written)


@pytest.mark.parametrize("many", [1, 3])
def test_every_create_and_claim_leaves_what_its_effects_say(world: World, many: int) -> None:
    written: list[Written] = []
    for n, given in enumerate(NEW):
        tasks = [submitted(**world.own({"queue": f"new{n}", **given})) for _ in range(many)]
        outcomes = world.run(world.store.create(tasks))
        assert {outcome.kind for outcome in outcomes} == {CreateKind.CREATED}
        for task in tasks:
            written.append(Written(task, None, []))
            written[-1].follow(of_new(task))
    world.check_counts(written)
    found = {one.task.id: one for one in written}
    for n in range(len(NEW)):
        for task in world.claim(f"new{n}"):
            one, status = found[task.id], task.status
            stamp = Stamp(
                run=status.run,
                fence=next_fence(one.task.status.fence, world.now),
                worker="w",
                token="",
                at=world.now,
                lease_until=world.now + LEASE_MS,
            )
            assert task == stamped(one.task, stamp)
            one.follow(between(entry_of(one.task), entry_of(task), status.events[-1]))
    assert all(one.entry is not None and one.entry.ready is None for one in written)
    world.check(written)
