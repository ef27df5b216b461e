"""Copying a store into another: everything arrives as it was, and the ledger says so."""

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import virtual_stores
from msgspec.structs import replace
from servers import Servers, on_clock

from andon.contract.notes import PutNote
from andon.contract.outcomes import ChangeKind
from andon.contract.queries import History, Page, Query
from andon.contract.requests import Change, Snapshot
from andon.contract.store import Store
from andon.engine.base import Submission
from andon.engine.control import change_of
from andon.engine.copy_ledger import Ledger, Tally
from andon.engine.copying import copy, refuse_workers
from andon.engine.debts import Debts
from andon.engine.groups import note_of
from andon.engine.schedule_requests import ScheduleRequest
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Complete, Fail, Reprioritise, Stop, UnknownTask
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.model.fleet import QueueConfig, StoreInfo, TypeInfo, WorkerInfo
from andon.model.recurrence import Recurrence
from andon.model.settings import MOVING, MOVING_LAST, STAYING
from andon.model.task import Task, TaskError
from andon.model.words import State
from andon.stores.memory import MemoryStore
from andon.stores.sqlite import SqliteStore

from .conftest import Clock, Shop

ERROR = TaskError(message="no")
FINAL = Fail(error=ERROR, retryable=False)


NEXT = "next"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """From each kind of store into each, where all that is stored is copied; else from each into
    the next one. A copy reads and writes snapshots, which know no kind."""
    if "target_kind" in metafunc.fixturenames:
        every = metafunc.definition.get_closest_marker("every_pair_of_stores") is not None
        kinds = virtual_stores(metafunc.config) if every else (NEXT,)
        metafunc.parametrize("target_kind", kinds)


@pytest.fixture
def target(target_kind: str, store_kind: str, pytestconfig: pytest.Config) -> str:
    """The kind of store to copy into."""
    if target_kind != NEXT:
        return target_kind
    kinds = virtual_stores(pytestconfig)
    return kinds[(kinds.index(store_kind) + 1) % len(kinds)]


@pytest.fixture
def other(
    target: str, clock: Clock, tmp_path: Path, runner: asyncio.Runner, servers: Servers
) -> Iterator[Shop]:
    """The store to copy into, with an engine on it."""
    folder = tmp_path / "other"
    folder.mkdir()
    with servers.empty_url(target, folder, "partitions=4") as url:
        other = Shop(on_clock(url, clock), clock)
        runner.run(other.engine.open())
        yield other
        runner.run(other.engine.close())


async def copied(shop: Shop, other: Shop, **how: Any) -> Ledger:
    return await copy(shop.engine.store, other.engine.store, **how)


async def everything(store: Store) -> dict[str, Task]:
    return {task.id: task for task in (await store.find(Query(limit=1_000))).tasks}


async def fill(shop: Shop) -> None:
    """Tasks in every state, each named after it, and a few beside."""
    await shop.submit("completed")
    await shop.run(Complete(result=b'{"answer": 42}'))
    await shop.submit("failed")
    await shop.submit("unreachable", dependencies=("failed",))
    await shop.run(FINAL)
    await shop.submit("retry", options={"retry_delay": 60.0})
    await shop.run(Fail(error=ERROR))
    await shop.submit("stalled")
    await shop.run(Stop())
    await shop.submit("dropped", options={"on_unknown": "drop"})
    await shop.run(UnknownTask())
    await shop.submit("expired", deadline_in=1.0)
    await shop.later(2)
    await shop.submit("cancelled")
    await shop.engine.cancel(["cancelled"])
    await shop.submit("active", options={"max_retries": 5})
    await shop.claim()
    await shop.submit("blocked", dependencies=("active",))
    await shop.submit("scheduled", delay=60.0)
    await shop.submit("pending")


async def claim_all(other: Shop) -> list[Task]:
    """Whatever may be claimed, of every partition."""
    partitions = range(other.engine.store.partitions)
    return [task for p in partitions for task in await other.claim(10, partition=p)]


async def later(other: Shop, seconds: float) -> None:
    """Move the clock, and fire what is due then, in every partition."""
    other.clock.ms += round(seconds * 1000)
    for partition in range(other.engine.store.partitions):
        await other.engine.timekeeper.run_once(partition)
    await other.engine.timekeeper.housekeep()
    await other.told()


async def work_off(other: Shop) -> None:
    """What workers and timekeepers make of a store until nothing lives."""
    for _ in range(20):
        for task in await claim_all(other):
            await other.engine.report(task, Complete(result=b"1"))
        await other.told()
        await later(other, 31)


@pytest.mark.every_pair_of_stores
async def test_every_task_arrives_as_it_was(shop: Shop, other: Shop) -> None:
    await fill(shop)
    before = await everything(shop.engine.store)
    assert {task.state for task in before.values()} == set(State) - {
        State.UNSUBMITTED,
        State.UNKNOWN,
        State.RECURRING,
    }
    ledger = await copied(shop, other)
    assert ledger.balanced, ledger
    assert await everything(other.engine.store) == before
    assert ledger.tasks == {state: Tally(read=1, written=1) for state in before}
    assert ledger.beside == {name: Tally() for name in ("queues", "types", "settings", "notes")}
    for task_id in before:
        assert (await other.engine.history(task_id)) == (await shop.engine.history(task_id))


async def test_a_schedule_arrives_paused_so_that_one_store_alone_fires_it(
    shop: Shop, other: Shop
) -> None:
    job = Submission(id="", name="job")
    asked = ScheduleRequest(name="s", recurrence=Recurrence(every=60), task=job)
    await shop.engine.schedules.put([asked], "add")
    assert (await copied(shop, other)).balanced
    await later(other, 60)
    await shop.later(0)
    assert set(await everything(other.engine.store)) == {"s"}
    assert len(await everything(shop.engine.store)) == 2
    await other.engine.schedules.act(["s"], "resume")
    await later(other, 60)
    assert len(await everything(other.engine.store)) == 2


async def test_the_source_stays_as_it_was(shop: Shop, other: Shop) -> None:
    await fill(shop)
    before = await everything(shop.engine.store)
    end, stats = await shop.engine.events_end(), await shop.engine.stats()
    await copied(shop, other)
    assert await everything(shop.engine.store) == before
    assert not (await shop.engine.store.events(end)).events
    assert await shop.engine.stats() == stats


@pytest.mark.every_pair_of_stores
async def test_a_worker_on_the_target_finishes_everything(shop: Shop, other: Shop) -> None:
    await fill(shop)
    assert (await copied(shop, other)).balanced
    await work_off(other)
    for task_id in ("active", "blocked", "scheduled", "pending", "retry"):
        assert await other.state(task_id) is State.COMPLETED, task_id
    assert await shop.state("pending") is State.PENDING


async def test_a_running_task_goes_on_under_its_lease(shop: Shop, other: Shop) -> None:
    await shop.submit("a")
    (run,) = await shop.claim()
    shop.clock.ms += 20_000
    assert (await copied(shop, other)).balanced
    shop.clock.ms += 9_000
    await later(other, 0)
    task = await other.task("a")
    assert task.status.run == run.status.run
    await other.engine.report(task, Complete(result=b"1"))
    assert await other.state("a") is State.COMPLETED


async def test_a_dependency_that_ended_and_is_gone_is_not_waited_for_again(
    shop: Shop, other: Shop
) -> None:
    await shop.submit("gone", options={"discard_states": ("completed",)})
    await shop.submit("parent")
    await shop.submit("child", dependencies=("gone", "parent"))
    await shop.run()
    await shop.fire()
    await shop.later(3_600)
    assert await shop.engine.store.states(["gone"]) == [None]
    assert (await copied(shop, other)).balanced
    await later(other, 60)
    assert await other.state("child") is State.BLOCKED
    await work_off(other)
    assert await other.state("child") is State.COMPLETED


@pytest.mark.usefixtures("edges_left")
async def test_an_end_that_nobody_was_told_of_is_told_on_the_target(
    shop: Shop, other: Shop
) -> None:
    await shop.submit("parent", options={"discard_states": ("completed",)})
    await shop.submit("child", dependencies=("parent",))
    (task,) = await shop.claim()
    change = await _ending(shop, task)
    (outcome,) = await shop.engine.store.commit([change])  # and dies before it tells anybody
    assert (outcome.kind, outcome.has_dependents) == (ChangeKind.APPLIED, True)
    assert (await copied(shop, other)).balanced
    await later(other, 60)
    assert await other.state("child") is State.PENDING
    await later(other, 60)
    assert await other.state("parent") is None


async def _ending(shop: Shop, task: Task) -> Change:
    moved = apply(task, Complete(), now=shop.clock.ms, random=lambda: 0.5, write_id="w")
    return change_of(task, moved)


async def test_what_a_task_owes_is_stored_on_the_target(
    shop: Shop, other: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def crashed(*_: object) -> None:
        raise StoreUnavailable("away")

    await shop.submit("a")
    with monkeypatch.context() as patch:
        patch.setattr(Debts, "pay", crashed)
        (task,) = await shop.claim()
        await shop.engine.report(task, Complete(), [Submission(id="b", name="child")])
        await shop.told()
    assert (await copied(shop, other)).balanced
    assert await other.state("b") is None
    await later(other, 3)
    assert await other.state("b") is State.PENDING
    assert not (await other.task("a")).status.owes


async def test_edges_beyond_one_page_arrive(shop: Shop, other: Shop) -> None:
    await shop.submit("parent")
    children = [shop.submission(f"c{i:04}", dependencies=("parent",)) for i in range(2_000)]
    await shop.engine.submit(children)
    assert (await copied(shop, other)).balanced
    edges = await other.engine.store.dependents("parent", "", 5_000)
    assert edges == await shop.engine.store.dependents("parent", "", 5_000)
    assert len(edges) == 2_000


async def test_unique_keys_hold_on_the_target(shop: Shop, other: Shop) -> None:
    await shop.submit("a", unique_key="u")
    await copied(shop, other)
    assert (await other.try_submit("b", unique_key="u")).error is not None
    await work_off(other)
    assert (await other.try_submit("b", unique_key="u")).error is None


async def test_the_order_of_the_line_is_kept(runner: asyncio.Runner, clock: Clock) -> None:
    shop, other = (Shop(MemoryStore(clock=clock), clock) for _ in range(2))
    await shop.engine.open()
    await other.engine.open()
    for number, priority in enumerate((0, 5, 0, -4, 5, 0)):
        clock.ms += 1
        await shop.submit(f"t{number}", priority=priority)
    await copied(shop, other)
    line = [task.id for task in await other.claim(6)]
    assert line == [task.id for task in await shop.claim(6)]
    await shop.engine.close()
    await other.engine.close()


# --- what stands beside the tasks ---


async def test_queues_types_and_settings_arrive_before_the_tasks(shop: Shop, other: Shop) -> None:
    source, target = shop.engine.store, other.engine.store
    config = QueueConfig(name="default", max_concurrent_per_key=1, weight=3)
    await source.put_queue(config, expect=QueueConfig(name=config.name))
    await source.put_types([TypeInfo(name="job", version=2, policy={"max_retries": 9})])
    for name in (*MOVING, *MOVING_LAST, *STAYING):
        await source.put_setting(name, f"its {name}".encode(), expect=None)
    await source.put_setting("retention", b"60", expect=b"its retention")
    await shop.submit("a", key="k")
    await shop.submit("c", key="k")  # in the partition of "a", which may park for itself
    moving = (*MOVING, *MOVING_LAST)
    ledger = await copied(shop, other)
    assert ledger.balanced
    assert ledger.beside == {
        "queues": Tally(read=1, written=1),
        "types": Tally(read=1, written=1),
        "settings": Tally(read=len(moving), written=len(moving)),
        "notes": Tally(),
    }
    assert await target.queues() == [config]
    assert await target.types() == await source.types()
    for name in (*MOVING, *MOVING_LAST):
        assert await target.setting(name) == await source.setting(name)
    assert await target.setting("artifacts-swept") is None
    stats = await target.stats()
    assert sum(queue.parked for queue in stats) == 1


async def test_what_is_kept_of_groups_is_copied_and_what_is_there_stays(
    shop: Shop, other: Shop
) -> None:
    for group in ("g", "h", "there"):
        await shop.submit(f"{group}-1", group=group, group_owner="ci")
    await shop.engine.seal_group("h")
    there = PutNote(note_of("there"), b"another", None)
    await other.engine.store.put_notes([there])
    ledger = await copied(shop, other)
    assert (ledger.balanced, ledger.differing) == (False, ["there"])
    assert ledger.beside["notes"] == Tally(read=3, written=2, differing=1)
    assert await other.engine.group("g") == await shop.engine.group("g")
    assert (await other.engine.group("h")).sealed_at is not None
    assert await other.engine.store.notes([there.name]) == [b"another"]
    again = await copied(shop, other)
    assert again.beside["notes"] == Tally(read=3, there=2, differing=1)


async def test_a_setting_that_differs_stays_and_is_told(shop: Shop, other: Shop) -> None:
    plain = QueueConfig(name="q")
    await shop.engine.store.put_queue(QueueConfig(name="q", paused=True), expect=plain)
    await other.engine.store.put_queue(QueueConfig(name="q", weight=2), expect=plain)
    await shop.engine.store.put_types([TypeInfo(name="job", policy={"max_retries": 9})])
    await other.engine.store.put_types([TypeInfo(name="job")])
    ledger = await copied(shop, other)
    assert not ledger.balanced
    assert ledger.differing == ["q", "job version 0"]
    assert [q.weight for q in await other.engine.store.queues()] == [2]


# --- interrupted and repeated ---


class Through:
    """A store in front of another, for tests that hurt it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class CutShort(Through):
    """Goes away after so many calls."""

    def __init__(self, store: Store, calls: int) -> None:
        super().__init__(store)
        self.calls = calls

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        if not self.calls:
            raise StoreUnavailable("cut")
        self.calls -= 1
        return await self._store.restore(snapshots)


async def test_a_copy_cut_short_goes_on_when_it_is_repeated(shop: Shop, other: Shop) -> None:
    await fill(shop)
    await shop.engine.submit([shop.submission(f"n{i:04}") for i in range(900)])
    hurt = cast("Store", CutShort(other.engine.store, 2))
    with pytest.raises(StoreUnavailable):
        await copy(shop.engine.store, hurt)
    ledger = await copied(shop, other)
    assert ledger.balanced, ledger
    pending = ledger.tasks["pending"]
    assert pending.read == 901
    assert pending.there > 200
    assert pending.written > 200
    assert await everything(other.engine.store) == await everything(shop.engine.store)


class Asked(Through):
    """Counts the histories that were read."""

    histories = 0

    async def history(self, task_id: str) -> History:
        self.histories += 1
        return await self._store.history(task_id)


async def test_what_is_there_already_is_not_read_whole_again(shop: Shop, other: Shop) -> None:
    await shop.submit("a")
    await copied(shop, other)
    await shop.submit("b")
    asked = Asked(shop.engine.store)
    assert (await copy(cast("Store", asked), other.engine.store, merge=True)).balanced
    assert asked.histories == 1


class Renamed(Through):
    """The store under another name, and as if it held nothing."""

    async def info(self) -> StoreInfo:
        return replace(await self._store.info(), location="elsewhere", entries=0)


async def test_an_unfinished_copy_is_not_gone_on_with_from_another_store(
    shop: Shop, other: Shop
) -> None:
    await fill(shop)
    await shop.engine.submit([shop.submission(f"n{i:04}") for i in range(300)])
    with pytest.raises(StoreUnavailable):
        await copy(shop.engine.store, cast("Store", CutShort(other.engine.store, 1)))
    with pytest.raises(ConfigurationError, match="tasks of its own"):
        await copy(cast("Store", Renamed(shop.engine.store)), other.engine.store)


class Moving(Through):
    """Where a task moves while it is copied."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.engine.store)
        self.shop = shop

    async def find(self, query: Query) -> Page:
        page = await self._store.find(query)
        await self.shop.run()
        return page


async def test_a_task_that_moves_meanwhile_arrives_as_it_was_read(shop: Shop, other: Shop) -> None:
    await shop.submit("a")
    ledger = await copy(cast("Store", Moving(shop)), other.engine.store)
    assert not ledger.balanced, "the source counts it in another state by now"
    task, history = await other.task("a"), await other.engine.history("a")
    assert (task.state, [e.revision for e in history.events]) == (State.PENDING, [1])


async def test_a_copy_that_was_completed_is_repeated_only_when_asked(
    shop: Shop, other: Shop
) -> None:
    await fill(shop)
    await copied(shop, other)
    with pytest.raises(ConfigurationError, match="before, to the end"):
        await copied(shop, other)
    ledger = await copied(shop, other, merge=True)
    assert ledger.balanced
    assert set(map(_plain, ledger.tasks.values())) == {(1, 0, 1, 0)}


def _plain(tally: Tally) -> tuple[int, int, int, int]:
    return tally.read, tally.written, tally.there, tally.differing


async def test_what_moved_on_the_target_since_differs_and_stays(shop: Shop, other: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b", options={"discard_states": ("completed",)})
    await copied(shop, other)
    await work_off(other)
    ledger = await copied(shop, other, merge=True)
    assert not ledger.balanced
    assert _plain(ledger.tasks["pending"])[2:] == (0, 1)
    assert ledger.differing == ["a"]
    assert await other.state("a") is State.COMPLETED


async def test_a_task_deleted_on_the_target_a_moment_ago_does_not_come_back(
    shop: Shop, other: Shop
) -> None:
    await shop.submit("a", options={"discard_states": ("completed",)})
    await copied(shop, other)
    (task,) = await claim_all(other)
    await other.engine.report(task, Complete())
    ledger = await copied(shop, other, merge=True)
    assert (ledger.balanced, ledger.differing) == (False, ["a"])
    assert await other.state("a") is None


# --- what is refused ---


async def test_a_store_is_not_copied_into_itself(shop: Shop) -> None:
    await shop.submit("a")
    with pytest.raises(ConfigurationError, match="one store"):
        await copy(shop.engine.store, shop.engine.store)


async def test_a_store_is_recognised_under_another_name(shop: Shop) -> None:
    await shop.submit("a")
    with pytest.raises(ConfigurationError, match="one store"):
        await copy(shop.engine.store, cast("Store", Renamed(shop.engine.store)))
    assert not await shop.engine.store.setting("copy")


async def test_a_target_with_tasks_of_its_own_is_refused_unless_allowed(
    shop: Shop, other: Shop
) -> None:
    await shop.submit("a")
    await other.submit("b")
    with pytest.raises(ConfigurationError, match="1 tasks of its own"):
        await copied(shop, other)
    assert await other.state("a") is None
    assert (await copied(shop, other, merge=True)).balanced
    assert set(await everything(other.engine.store)) == {"a", "b"}


async def test_living_workers_are_named(shop: Shop) -> None:
    await refuse_workers(shop.engine.store)
    for number in range(7):
        await shop.engine.store.put_worker(WorkerInfo(id=f"w{number}"))
    with pytest.raises(ConfigurationError, match=r"w0, w1, w2, w3, w4, …\. .*--with-workers"):
        await refuse_workers(shop.engine.store)


# --- what cannot arrive, and stores that lie ---


async def test_a_record_that_does_not_decode_is_named_and_does_not_balance(
    tmp_path: Path, runner: asyncio.Runner, clock: Clock
) -> None:
    path = tmp_path / "andon.db"
    shop = Shop(SqliteStore(f"sqlite:///{path}", clock=clock), clock)
    other = Shop(MemoryStore(clock=clock), clock)
    await shop.engine.open()
    await other.engine.open()
    await shop.submit("bad")
    await shop.submit("good")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE definition SET body = x'ff' WHERE id = 'bad'")
    db.close()
    await shop.claim(2)  # which finds it, and sets it aside
    ledger = await copied(shop, other)
    assert (ledger.balanced, ledger.unreadable, ledger.miscounted) == (False, ["bad"], [])
    assert _plain(ledger.tasks["unknown"]) == (1, 0, 0, 0)
    assert _plain(ledger.tasks["active"]) == (1, 1, 0, 0)
    assert set(await everything(other.engine.store)) == {"good"}
    await shop.engine.close()
    await other.engine.close()


class Forgetful(Through):
    """Says that it stored what it did not."""

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        await self._store.restore(snapshots[1:])
        return [True] * len(snapshots)


async def test_a_target_that_lost_a_task_is_found_out(shop: Shop, other: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    ledger = await copy(shop.engine.store, cast("Store", Forgetful(other.engine.store)))
    assert not ledger.balanced
    (told,) = ledger.miscounted
    assert "counts +1 pending tasks in queue default since the copy began, 2 were written" in told


class Hiding(Through):
    """Does not list everything that it counts."""

    async def find(self, query: Query) -> Page:
        page = await self._store.find(query)
        return replace(page, tasks=page.tasks[1:])


async def test_a_source_that_hides_a_task_is_found_out(shop: Shop, other: Shop) -> None:
    await shop.submit("a")
    await shop.submit("b")
    ledger = await copy(cast("Store", Hiding(shop.engine.store)), other.engine.store)
    assert not ledger.balanced
    (told,) = ledger.miscounted
    assert "counts 2 pending tasks in queue default, 1 were read" in told


# --- bounds ---


class Weighed(Through):
    """Notes what each call carries."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.calls: list[tuple[int, int, int]] = []

    async def restore(self, snapshots: Sequence[Snapshot]) -> list[bool]:
        size = sum(len(s.task.definition.args) for s in snapshots)
        self.calls.append((len(snapshots), size, sum(len(s.history) for s in snapshots)))
        return await self._store.restore(snapshots)


async def test_no_call_carries_more_than_a_batch(shop: Shop, other: Shop) -> None:
    big = b'"' + b"x" * 200_000 + b'"'
    await shop.engine.submit([shop.submission(f"b{i:02}", args=big) for i in range(50)])
    await shop.engine.submit([shop.submission(f"s{i:03}") for i in range(450)])
    target = Weighed(other.engine.store)
    assert (await copy(shop.engine.store, cast("Store", target))).balanced
    assert max(count for count, _, _ in target.calls) <= 200
    assert max(size for _, size, _ in target.calls) <= 4 * 1024 * 1024
    assert sum(count for count, _, _ in target.calls) == 500


async def test_long_histories_are_carried_a_few_at_a_time(
    runner: asyncio.Runner, clock: Clock
) -> None:
    shop, other = (Shop(MemoryStore(clock=clock), clock) for _ in range(2))
    await shop.engine.open()
    await other.engine.open()
    names = [await shop.submit(f"t{i}", priority=0) for i in range(8)]
    for number in range(1_000):
        await shop.engine.act(names, Reprioritise(priority=number % 2))
    target = Weighed(other.engine.store)
    assert (await copy(shop.engine.store, cast("Store", target))).balanced
    assert max(moves for _, _, moves in target.calls) <= 5_000
    assert len(target.calls) == 2
    for name in names:
        assert await other.engine.history(name) == await shop.engine.history(name)
    await shop.engine.close()
    await other.engine.close()


async def test_it_tells_how_far_it_is(shop: Shop, other: Shop) -> None:
    await shop.engine.submit([shop.submission() for _ in range(450)])
    told: list[tuple[int, int]] = []
    await copied(shop, other, tell=lambda done, total: told.append((done, total)))
    assert told == [(0, 450), (200, 450), (400, 450), (450, 450)]
