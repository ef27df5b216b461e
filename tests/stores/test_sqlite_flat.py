"""What calls cost as tasks that cannot run pile up: the steps of SQLite's machine are counted,
which do not depend on what else runs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from andon.client.ids import new_id
from andon.contract.edges import Link
from andon.contract.limits import SCAN_BUDGET
from andon.contract.outcomes import CreateKind
from andon.contract.requests import Change, ClaimRequest
from andon.contract.topics import ready_topic
from andon.lifecycle.admission import admit
from andon.lifecycle.apply import apply
from andon.lifecycle.commands import Command, Complete, Expire
from andon.model.code import Code
from andon.model.fleet import QueueConfig
from andon.model.policy import Policy
from andon.model.task import Definition, Task
from andon.model.words import State
from andon.stores.sqlite import SqliteStore

FEW, MANY = 400, 8_000
EVERY = 10
"""Steps of the machine between two counts."""

KNOWN = Code.of([("known", 0)])


class Counted:
    """A store whose work is counted."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self._tokens = iter(range(1_000_000))

    def task(self, name: str = "job", queue: str = "default", **fields: Any) -> Task:
        definition = Definition(id=new_id(), name=name, queue=queue, **fields)
        return admit(definition, self.store.now(), new_id())

    async def submit(self, count: int, *, types: int = 1, **fields: Any) -> list[Task]:
        tasks: list[Task] = []
        for start in range(0, count, 200):
            batch = [self.task(f"job{n % types}", **fields) for n in range(start, start + 200)]
            assert {c.kind for c in await self.store.create(batch)} == {CreateKind.CREATED}
            tasks += batch
        return tasks

    async def claim(self, limit: int = 1, **fields: Any) -> list[Task]:
        request = ClaimRequest(
            **{
                "worker": "w",
                "token": f"t{next(self._tokens)}",
                "queues": ("default",),
                "limit": limit,
                "lease_ms": 60_000,
                **fields,
            }
        )
        return await self.store.claim(request)

    async def move(self, task: Task, command: Command) -> None:
        store = self.store
        moved = apply(task, command, now=store.now(), random=lambda: 0.5, write_id=new_id())
        change = Change(before=task, after=moved.status, event=moved.event)
        await store.commit([change])

    async def steps(self, call: Callable[[], Awaitable[Any]]) -> int:
        """What the call takes in the writer and the reader together."""
        counted = 0

        def count() -> int:
            nonlocal counted
            counted += EVERY
            return 0

        assert self.store._writer is not None
        assert self.store._reader is not None
        dbs = (self.store._writer._db, self.store._reader._db)
        for db in dbs:
            db.set_progress_handler(count, EVERY)
        await call()
        for db in dbs:
            db.set_progress_handler(None, EVERY)
        return counted


def on_a_store(
    tmp_path: Path,
    scenario: Callable[[Counted], Awaitable[None]],
    clock: Callable[[], int] | None = None,
) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'andon.db'}?synchronous=normal"
        store = SqliteStore(url, clock=clock)
        await store.open()
        await scenario(Counted(store))
        await store.close()

    asyncio.run(main())


async def _flat(
    counted: Counted,
    grow: Callable[[int], Awaitable[Any]],
    call: Callable[[], Awaitable[Any]],
) -> None:
    """A call takes about the same with few and with many tasks."""
    await grow(FEW)
    await call()
    few = await counted.steps(call)
    await grow(MANY - FEW)
    await call()
    many = await counted.steps(call)
    assert few > 0
    assert many <= 1.2 * few + 200, (few, many)


@pytest.mark.parametrize("types", [1, 50])
@pytest.mark.parametrize("why", ["no code", "no room"])
def test_a_claim_does_not_grow_with_tasks_that_cannot_run(
    tmp_path: Path, types: int, why: str
) -> None:
    async def scenario(counted: Counted) -> None:
        full = {f"job{n}": 0 for n in range(types)}
        how: dict[str, Any] = {"code": KNOWN} if why == "no code" else {"room": full}

        async def call() -> None:
            await counted.store.create([counted.task("known")])
            [task] = await counted.claim(**how)
            assert task.definition.name == "known"

        await _flat(counted, lambda n: counted.submit(n, types=types), call)

    on_a_store(tmp_path, scenario)


def test_a_claim_that_finds_nothing_does_not_grow_and_writes_nothing(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        async def call() -> None:
            assert await counted.claim(code=KNOWN) == []

        await _flat(counted, lambda n: counted.submit(n, types=50), call)
        assert counted.store._writer is not None
        before = counted.store._writer._db.total_changes
        await call()
        assert counted.store._writer._db.total_changes == before

    on_a_store(tmp_path, scenario)


def test_a_claim_of_many_kinds_opens_only_the_first(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        async def call() -> None:
            assert len(await counted.claim()) == 1

        await counted.submit(200, types=2)
        await call()
        few = await counted.steps(call)
        await counted.submit(2_000, types=1_000)
        await call()
        many = await counted.steps(call)
        assert many <= 1.2 * few + 200, (few, many)

    on_a_store(tmp_path, scenario)


def test_queues_that_hold_nothing_cost_a_claim_nothing(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        queues = tuple(f"q{n}" for n in range(500))
        await counted.store.create([counted.task(queue=queue) for queue in queues])
        assert len(await counted.claim(limit=1_000, queues=queues)) == 500

        async def call() -> None:
            await counted.store.create([counted.task(queue=queues[-1])])
            assert len(await counted.claim(limit=5, queues=queues)) == 1

        await call()  # meets what is empty by now, once
        among_many = await counted.steps(call)

        async def alone() -> None:
            await counted.store.create([counted.task(queue=queues[-1])])
            assert len(await counted.claim(limit=5, queues=queues[-1:])) == 1

        assert among_many <= await counted.steps(alone) + 300

    on_a_store(tmp_path, scenario)


def test_what_is_too_late_hides_nothing(tmp_path: Path) -> None:
    moment = [1_700_000_000_000]

    async def scenario(counted: Counted) -> None:
        late = counted.store.now() + 300
        await counted.submit(SCAN_BUDGET + 400, deadline=late)
        await counted.store.create([counted.task("known")])
        moment[0] = late
        with counted.store.listen([ready_topic("default")]) as listener:
            first = await counted.claim(limit=5)
            if not first:
                assert await listener.wait(20), "it is told that there is more to look at"
                first = await counted.claim(limit=5)
        assert [task.definition.name for task in first] == ["known"]
        due = await counted.store.take_due(0, 200, 1_000)
        assert len(due.tasks) == 200
        for task in due.tasks[:5]:
            await counted.move(task, Expire())
        [stats] = await counted.store.stats()
        assert stats.counts["expired"] == 5
        assert stats.counts["pending"] == SCAN_BUDGET + 400 - 5

    on_a_store(tmp_path, scenario, clock=lambda: moment[0])


def test_a_refusal_of_a_full_queue_does_not_grow(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        config = QueueConfig(name="default")

        async def grow(more: int) -> None:
            nonlocal config
            free = replace_size(config, None)
            await counted.store.put_queue(free, expect=config)
            await counted.submit(more, types=20)
            config = replace_size(config, 10)
            await counted.store.put_queue(config, expect=free)

        async def call() -> None:
            [created] = await counted.store.create([counted.task()])
            assert created.kind is CreateKind.FULL
            assert len(created.oldest) > 0

        await _flat(counted, grow, call)

    def replace_size(config: QueueConfig, size: int | None) -> QueueConfig:
        return QueueConfig(name=config.name, max_size=size, on_full="discard-old")

    on_a_store(tmp_path, scenario)


def test_statistics_and_ready_kinds_do_not_grow(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        async def grow(more: int) -> None:
            await counted.submit(more // 2, types=20)
            await counted.submit(more // 2, run_at=counted.store.now() + 3_600_000)

        async def call() -> None:
            await counted.store.stats()
            assert len(await counted.store.ready_kinds()) == 20
            assert len(await counted.store.ready_kinds(["default", "absent"])) == 20

        await _flat(counted, grow, call)

    on_a_store(tmp_path, scenario)


def test_taking_what_is_unsettled_does_not_grow(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        store = counted.store
        parent = counted.task("known")
        child = counted.task(dependencies=(parent.id,))
        await store.create([parent, child])
        await store.link([Link(child.id, (parent.id,))])
        [active] = await counted.claim(code=KNOWN)
        await counted.move(active, Complete())

        async def grow(more: int) -> None:
            for task in await counted.submit(more):
                assert task is not None
            for _ in range(more // 200):
                for task in await counted.claim(limit=100):
                    await counted.move(task, Complete())

        async def call() -> None:
            assert await store.take_unsettled(10) == [(parent.id, State.COMPLETED)]

        await _flat(counted, grow, call)

    on_a_store(tmp_path, scenario)


def test_a_limit_moves_what_it_must_and_looks_at_nothing_else(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        store, configs = counted.store, [QueueConfig(name="default")]

        async def put(limit: int | None) -> None:
            config = QueueConfig(name="default", max_concurrent_per_key=limit)
            assert await store.put_queue(config, expect=configs[-1])
            configs.append(config)

        async def grow(more: int) -> None:
            await counted.submit(more // 2, types=5)
            for start in range(0, more // 2, 200):
                await store.create([counted.task(key=new_id()) for _ in range(start, start + 200)])

        async def call() -> None:
            await put(2)
            assert (await store.stats())[0].parked == 7
            await put(None)
            assert (await store.stats())[0].parked == 0

        await counted.submit(200, key="few")
        for task in (await counted.claim(limit=200))[:200]:
            await counted.move(task, Complete())
        await store.create([counted.task(key="k") for _ in range(9)])
        await _flat(counted, grow, call)

    on_a_store(tmp_path, scenario)


def test_a_limit_is_kept_in_steps_that_leave_room_for_others(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        store = counted.store
        for key in ("a", "b"):
            await counted.submit(600, key=key)
        config = QueueConfig(name="default", max_concurrent_per_key=1)
        between: list[int] = []

        async def others() -> None:
            while not putting.done():
                await store.create([counted.task(queue="other")])
                between.append((await store.stats())[0].parked)

        putting = asyncio.ensure_future(store.put_queue(config, expect=QueueConfig(name="default")))
        await others()
        assert await putting
        stats = {one.queue: one for one in await store.stats()}
        assert stats["default"].parked == 1_198
        assert len({n for n in between if 0 < n < 1_198}) > 2, "others wrote between the steps"
        assert len(await counted.claim(limit=10)) == 2

    on_a_store(tmp_path, scenario)


def test_a_limit_whose_steps_were_cut_short_is_kept_by_the_next_trim(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        store = counted.store
        await counted.submit(1_000, key="k")
        config = QueueConfig(name="default", max_concurrent_per_key=1)

        class Killed(Exception):
            pass

        async def dies(_queue: str) -> None:
            raise Killed

        went_on, store._readmit = store._readmit, dies  # type: ignore[method-assign]
        with pytest.raises(Killed):
            await store.put_queue(config, expect=QueueConfig(name="default"))
        store._readmit = went_on  # type: ignore[method-assign]
        assert (await store.stats())[0].parked == 0
        await store.trim(100)
        assert (await store.stats())[0].parked == 999
        assert len(await counted.claim(limit=10)) == 1

    on_a_store(tmp_path, scenario)


def test_a_policy_says_when_a_kind_is_open(tmp_path: Path) -> None:
    async def scenario(counted: Counted) -> None:
        await counted.store.create([counted.task("open", policy=Policy(on_unknown="retry"))])
        await counted.store.create([counted.task("closed")])
        kinds = {ready.kind for ready in await counted.store.ready_kinds()}
        assert kinds == {"open?", "closed"}

    on_a_store(tmp_path, scenario)
