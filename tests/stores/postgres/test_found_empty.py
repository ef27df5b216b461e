"""Tables that statistics call empty, as autovacuum leaves them where every task is discarded at its
end, are not walked through by any call when they are full (docs/decisions/postgres-plans.md)."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from conformance.kit import LEASE_MS, Kit

from andon.contract.edges import Link, Settlement
from andon.contract.outcomes import ChangeKind
from andon.contract.queries import Query
from andon.contract.requests import Renewal
from andon.lifecycle.commands import Cancel, Command, Complete, Delete, Fail, Release
from andon.model.task import Task, TaskError
from andon.model.words import State

_OTHERS = 3_000
_FEW = 10

_FIND_EMPTY = """
UPDATE pg_class c SET reltuples = 0, relpages = 100 FROM pg_namespace n
WHERE n.oid = c.relnamespace AND n.nspname = $1 AND c.relname IN ('task', 'definition', 'ready',
    'parked', 'event', 'edge', 'stub', 'claim', 'unique_key', 'fan_in', 'satisfied', 'unsettled')
"""

_READ = """
SELECT (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_all_indexes WHERE schemaname = $1)
    + (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_all_tables
        WHERE schemaname = $1 AND pg_relation_size(relid) > 16 * 8192) AS rows,
    (SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_all_indexes
        WHERE schemaname = $1 AND indexrelname = 'task_state') AS by_state
"""
"""A table of a few pages may be read whole. The index by queue and state can be walked whole for a
task's key, which then counts as one row read."""

_SESSIONS = """
SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()
"""

Call = Callable[[Kit], Awaitable[Any]]


async def _fill(kit: Kit) -> None:
    """Far more of everything than any call below is about: most of it waits, the parents of some
    have ended, and some are gone."""
    tasks = [task for _ in range(6) for task in await kit.submit_many(_OTHERS // 6, queue="other")]
    parents = [task.id for task in tasks[: _OTHERS // 6]]
    blocked = [
        kit.record(queue="other", dependencies=(parent,), unique_key=f"key {parent}")
        for parent in parents
    ]
    await kit.create(*blocked)
    await kit.store.link(
        [Link(one.id, (parent,)) for one, parent in zip(blocked, parents, strict=True)]
    )
    await _all(kit, tasks[-_OTHERS // 6 :], Cancel())
    gone = await kit.store.get([task.id for task in tasks[-_OTHERS // 6 :]])
    await _all(kit, [task for task in gone if task is not None], Delete())
    hour = 3_600_000  # however slow the machine, no lease runs out on the way to `take_due`
    await kit.claim(_OTHERS // 6, queues=("other",), lease_ms=hour)
    for partition in range(kit.store.partitions):
        await kit.store.take_due(partition, 100, 10_000)  # counts are folded once


async def _all(kit: Kit, tasks: list[Task], command: Command) -> None:
    told = await kit.store.commit([kit.change(task, command) for task in tasks])
    assert {changed.kind for changed in told} <= {ChangeKind.APPLIED}


async def _read(kit: Kit, tasks: list[Task]) -> list[Task]:
    return [task for task in await kit.store.get([t.id for t in tasks]) if task is not None]


class _Calls:
    """What is done to a few tasks of the queue `default`, in this order."""

    tasks: list[Task]
    children: list[Task]

    async def create(self, kit: Kit) -> None:
        self.tasks = [
            kit.record(f"a{n}", unique_key=f"u{n}", priority=n % 3) for n in range(_FEW)
        ] + [kit.record(f"b{n}", name=f"kind{n % 2}", group="g") for n in range(_FEW)]
        await kit.create(*self.tasks)

    async def create_again(self, kit: Kit) -> None:
        await kit.create(*self.tasks, *(kit.record(unique_key=f"u{n}") for n in range(_FEW)))

    async def create_children(self, kit: Kit) -> None:
        self.children = [kit.record(dependencies=("a0", "a1")) for _ in range(_FEW)]
        await kit.create(*self.children)

    async def link(self, kit: Kit) -> None:
        await kit.store.link([Link(child.id, ("a0", "a1")) for child in self.children])

    async def claim(self, kit: Kit) -> None:
        self.tasks = await kit.claim(2 * _FEW)
        assert len(self.tasks) == 2 * _FEW

    async def renew(self, kit: Kit) -> None:
        await kit.store.renew(
            [Renewal(task=t.id, run=t.status.run, lease_ms=LEASE_MS) for t in self.tasks]
        )

    async def release(self, kit: Kit) -> None:
        await _all(kit, self.tasks, Release())

    async def claim_in_order(self, kit: Kit) -> None:
        self.tasks = await kit.claim(2 * _FEW, room={"kind0": _FEW})
        assert len(self.tasks) == 2 * _FEW

    async def end(self, kit: Kit) -> None:
        await _all(kit, self.tasks[: _FEW // 2], Complete(result=b"1"))

    async def fail(self, kit: Kit) -> None:
        rest = self.tasks[_FEW // 2 :]
        await _all(kit, rest, Fail(error=TaskError(message="no")))

    async def cancel(self, kit: Kit) -> None:
        waiting = [t for t in await _read(kit, self.tasks) if t.state is State.RETRY]
        await _all(kit, waiting[: _FEW // 2], Cancel())

    async def delete(self, kit: Kit) -> None:
        found = await _read(kit, self.tasks)
        ended = [t for t in found if t.state is State.CANCELLED and t.id not in ("a0", "a1")]
        await _all(kit, ended, Delete())

    async def take_due(self, kit: Kit) -> None:
        for partition in range(kit.store.partitions):
            await kit.store.take_due(partition, 100, 10_000)

    async def rearm(self, kit: Kit) -> None:
        await kit.store.rearm([(task.id, None) for task in self.tasks])

    async def settle(self, kit: Kit) -> None:
        await kit.store.settle([Settlement(c.id, "a0", satisfied=True) for c in self.children])

    async def dependents(self, kit: Kit) -> None:
        await kit.store.dependents_of_each([("a0", ""), ("a1", "")], 20)
        await kit.store.take_unsettled(10)

    async def unlink(self, kit: Kit) -> None:
        await kit.store.unlink([("a1", child.id) for child in self.children])

    async def read(self, kit: Kit) -> None:
        found = [task.id for task in self.tasks]
        await kit.store.get(found)
        await kit.store.states(found)
        await kit.store.tombstones(found)
        await kit.store.discarded(found)
        await kit.store.history(found[0])

    async def find(self, kit: Kit) -> None:
        await kit.store.find(Query(group="g"))
        await kit.store.find(Query(queue="default", states=(State.RETRY,)))

    async def trim(self, kit: Kit) -> None:
        await kit.store.trim(100)


async def test_no_call_walks_through_tables_that_were_found_empty(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    await _fill(kit)
    await db.execute(_FIND_EMPTY, schema)

    async def read() -> tuple[int, int]:
        async def none_left() -> bool:
            return not await db.fetchval(_SESSIONS, schema)

        await kit.until(none_left)
        row = await db.fetchrow(_READ, schema)
        assert row is not None
        return int(row["rows"]), int(row["by_state"])

    calls = _Calls()
    walked: dict[str, int] = {}
    by_state: list[str] = []
    for name, call in vars(_Calls).items():
        if name.startswith("_"):
            continue
        await kit.store.close()
        rows, scans = await read()
        await kit.replace()
        await call(calls, kit)
        await kit.store.close()
        after, later = await read()
        walked[name] = after - rows
        if later > scans:
            by_state.append(name)
        await kit.replace()
    assert {name: n for name, n in walked.items() if n > _OTHERS // 4} == {}
    assert by_state == ["find"]
