"""Records that are alike are created, and ends that are alike written, by calls of their own, which
leave what the others leave, and leave to those what is not as plain as it looked."""

import asyncio
import json
from typing import Any

import asyncpg
import msgspec
import pytest
from conformance.kit import Kit, ids

from andon.contract.edges import Link
from andon.contract.limits import MAX_BATCH
from andon.contract.outcomes import ChangeKind, CreateKind
from andon.lifecycle.commands import Cancel, Complete
from andon.lifecycle.daily import Tally
from andon.model.task import Task
from andon.model.words import State
from andon.stores.postgres import PostgresStore, ends
from andon.stores.postgres.creating import MOST_BYTES

from .conftest import TellOfStatements

_ENDED = """
SELECT k.partition, k.queue, k.state, k.revision, k.timer > k.created, k.fence > 0, k.dead,
    k.asked, k.run, k.worker, k.progress, k.message, length(k.body), k.result, e.prev = k.prev,
    e.pos > 0, length(e.body)
FROM {schema}.task k JOIN {schema}.event e ON e.place = k.last JOIN {schema}.definition d
    ON d.seq = k.seq WHERE d.id = $1
"""


def sharing(kit: Kit, *names: str, **fields: Any) -> list[Task]:
    """Records of one write, which share their status."""
    first = kit.record(names[0], **fields)
    return [
        msgspec.structs.replace(
            first, definition=msgspec.structs.replace(first.definition, id=name)
        )
        for name in names
    ]


@pytest.mark.parametrize("shares", [True, False], ids=["one status", "a status of each"])
async def test_records_that_are_alike_are_read_as_they_were_created(
    kit: Kit, tell_of_statements: TellOfStatements, shares: bool
) -> None:
    tasks = sharing(kit, "one", "two", "ten") if shares else [kit.record() for _ in range(3)]
    sent: list[str] = []
    tell_of_statements(sent.append)
    assert {c.kind for c in await kit.store.create(tasks)} == {CreateKind.CREATED}
    assert not any("create_tasks" in sql for sql in sent)
    for task in tasks:
        found = await kit.there(task.id)
        assert (found.definition, found.status) == (task.definition, task.status)
    events = (await kit.read_events("")).events
    assert [(e.task, e.revision, e.event) for e in events] == [(t.id, 1, "submit") for t in tasks]
    assert [e.write_id for e in events] == [t.status.events[0].write_id for t in tasks]
    assert ids(await kit.claim(limit=5)) == ids(tasks)


async def test_a_batch_of_the_largest_size_is_one_call_and_in_parts_if_that_would_be_too_much(
    kit: Kit, store: PostgresStore, tell_of_statements: TellOfStatements
) -> None:
    sent: list[str] = []
    tell_of_statements(sent.append)

    async def calls(name: str, **fields: Any) -> int:
        tasks = sharing(kit, *(f"{name}{i}" for i in range(store.most_created)), **fields)
        sent.clear()
        assert {c.kind for c in await store.create(tasks)} == {CreateKind.CREATED}
        return sum("create_" in sql for sql in sent)

    parts = -(-store.most_created // MAX_BATCH)
    assert parts > 1
    assert await calls("small") == 1
    assert (
        await calls("large", args=b'"' + b"x" * (MOST_BYTES // store.most_created) + b'"') == parts
    )
    assert await calls("later", run_at=kit.store.now() + 60_000) == parts
    assert (await kit.stats()).counts == {
        State.PENDING: 2 * store.most_created,
        State.SCHEDULED: store.most_created,
    }


async def test_definitions_of_all_lengths_come_apart_again(kit: Kit) -> None:
    texts = ["", "one", "ä" * 300, "\0", "x" * 3_000, ""]
    tasks = [kit.record(args=json.dumps(text).encode(), write_id="together") for text in texts]
    assert {c.kind for c in await kit.store.create(tasks)} == {CreateKind.CREATED}
    assert [(await kit.there(task.id)).definition for task in tasks] == [
        task.definition for task in tasks
    ]


async def test_two_who_create_the_same_records_at_once_create_each_once(kit: Kit) -> None:
    other = await kit.again()
    names = [f"n{i}" for i in range(100)]
    there, here = sharing(kit, *names), sharing(kit, *reversed(names))
    outcomes = await asyncio.gather(kit.store.create(here), other.create(there))
    kinds = [[c.kind for c in some] for some in (outcomes[0][::-1], outcomes[1])]
    for one, two in zip(*kinds, strict=True):
        assert {one, two} == {CreateKind.CREATED, CreateKind.EXISTS}
    assert (await kit.stats()).counts == {State.PENDING: 100}
    assert len((await kit.read_events("")).events) == 100


async def test_a_known_id_among_records_that_are_alike_is_told_and_the_others_are_created(
    kit: Kit,
) -> None:
    await kit.submit("known")
    records = sharing(kit, "one", "known", "two")
    kinds = [c.kind for c in await kit.store.create(records)]
    assert kinds == [CreateKind.CREATED, CreateKind.EXISTS, CreateKind.CREATED]
    assert (await kit.stats()).counts == {State.PENDING: 3}
    assert len((await kit.read_events("")).events) == 3


async def test_an_id_that_was_deleted_a_moment_ago_is_known_among_records_that_are_alike(
    kit: Kit,
) -> None:
    policy = {"discard_states": (State.COMPLETED,)}
    task = await kit.active("known", policy=policy)
    await kit.move(task, Complete())
    assert await kit.get("known") is None
    kinds = [c.kind for c in await kit.store.create(sharing(kit, "one", "known"))]
    assert kinds == [CreateKind.CREATED, CreateKind.EXISTS]


async def test_records_that_are_alike_fill_a_bounded_queue_to_its_bound(kit: Kit) -> None:
    await kit.configure(max_size=2)
    kinds = [c.kind for c in await kit.store.create(sharing(kit, "one", "two", "more"))]
    assert kinds == [CreateKind.CREATED, CreateKind.CREATED, CreateKind.FULL]


async def test_records_that_are_alike_are_claimed_also_before_the_mark(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    old = sharing(kit, "one", "two")
    await kit.moved(await kit.active(), Complete())
    await db.execute(f"UPDATE {schema}.lane SET mark = {kit.store.now() + 60_000}")
    await kit.store.create(old)
    assert ids(await kit.claim(limit=5)) == ["one", "two"]


@pytest.mark.parametrize("result", [b"1", None])
async def test_ends_that_are_alike_leave_what_each_leaves_by_itself(
    kit: Kit,
    schema: str,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tell_of_statements: TellOfStatements,
    result: bytes | None,
) -> None:
    await kit.submit_many(4)
    tasks = await kit.claim(limit=4)
    changes = [kit.change(task, Complete(result=result)) for task in tasks]
    sent: list[str] = []
    tell_of_statements(sent.append)
    assert {c.kind for c in await kit.store.commit(changes[:2])} == {ChangeKind.APPLIED}
    assert any("commit_ends" in sql for sql in sent)
    assert not any("commit_changes" in sql for sql in sent)
    monkeypatch.setattr(ends, "are_alike", lambda *_: False)
    assert {c.kind for c in await kit.store.commit(changes[2:])} == {ChangeKind.APPLIED}
    assert any("commit_changes" in sql for sql in sent)
    rows = [await db.fetch(_ENDED.format(schema=schema), task.id) for task in tasks]
    assert [len(row) for row in rows] == [1] * 4
    assert rows[1:] == rows[:1] * 3
    assert (await kit.stats()).counts == {State.COMPLETED: 4}
    for task in tasks:
        found_task = await kit.there(task.id)
        assert (found_task.state, found_task.result) == (State.COMPLETED, result)
        assert [e.revision for e in (await kit.store.history(task.id)).events] == [1, 2, 3]


async def test_ends_in_several_queues_are_one_call_and_counted_each_in_its_own(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    queues = ("one", "two", "one")
    for queue in queues:
        await kit.submit(queue=queue)
    tasks = await kit.claim(limit=3, queues=("one", "two"))
    sent: list[str] = []
    tell_of_statements(sent.append)
    await kit.store.commit([kit.change(task, Complete(result=b"1")) for task in tasks])
    assert not any("commit_changes" in sql for sql in sent)
    found = {stats.queue: stats.counts for stats in await kit.store.stats()}
    assert found == {"one": {State.COMPLETED: 2}, "two": {State.COMPLETED: 1}}
    tallies = await kit.store.tallies(None, 0)
    ended = {one.queue: one.count for one in tallies if one.tally == Tally.FINISHED}
    assert ended == {"one": 2, "two": 1}


async def test_of_ends_that_are_alike_those_that_came_too_late_are_told(kit: Kit) -> None:
    await kit.submit_many(4)
    tasks = await kit.claim(limit=4)
    changes = [kit.change(task, Complete(result=b"1")) for task in tasks]
    await kit.move(tasks[1], Cancel(force=True))
    assert (await kit.store.commit(changes[2:3]))[0].kind is ChangeKind.APPLIED
    changed = await kit.store.commit(changes)
    kinds = [c.kind for c in changed]
    # the third is a repeat of a write that was applied
    assert kinds == [
        ChangeKind.APPLIED,
        ChangeKind.CONFLICT,
        ChangeKind.APPLIED,
        ChangeKind.APPLIED,
    ]
    assert (await kit.stats()).counts == {State.COMPLETED: 3, State.CANCELLED: 1}


async def test_of_ends_that_are_alike_those_with_dependents_are_told(
    kit: Kit,
) -> None:
    await kit.submit_many(3)
    tasks = await kit.claim(limit=3)
    child = await kit.submit("child", dependencies=(tasks[1].id,))
    await kit.store.link([Link(child.id, child.definition.dependencies)])
    changed = await kit.store.commit([kit.change(task, Complete(result=b"1")) for task in tasks])
    assert [c.has_dependents for c in changed] == [False, True, False]
    assert [p for p, _ in await kit.store.take_unsettled(10)] == [tasks[1].id]


async def test_ends_that_are_alike_keep_each_its_own_result(kit: Kit) -> None:
    await kit.submit_many(6)
    tasks = await kit.claim(limit=6)
    results = [b"1", None, b"2", b"null", b"null", b"null"]
    changes = [kit.change(t, Complete(result=r)) for t, r in zip(tasks, results, strict=True)]
    for batch in (changes[:3], changes[3:]):
        assert {c.kind for c in await kit.store.commit(batch)} == {ChangeKind.APPLIED}
    assert [(await kit.there(task.id)).result for task in tasks] == results
