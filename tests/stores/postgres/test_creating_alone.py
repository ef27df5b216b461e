"""One plain record is created by a call of its own, and leaves what one in a batch leaves."""

import asyncio
import select
import time
from collections.abc import Sequence
from typing import Any

import asyncpg
import msgspec
import pytest
from conformance.kit import PATIENCE_S, Kit

from andon.contract.outcomes import Created, CreateKind
from andon.contract.topics import CONFIG_TOPIC, ready_topic
from andon.model.fleet import QueueConfig
from andon.model.task import Task
from andon.model.words import State
from andon.stores.postgres import PostgresStore, connection

from .conftest import TellOfStatements

_ROWS = """
SELECT d.body IS NOT NULL, k.partition, k.queue, k.revision, k.created, k.timer, k.fence,
    k.prev, k.claimed_at, k.lease_until, k.heartbeat_at, k.progress, k.dead, k.asked, k.state,
    k.key, k."group", k.run, k.worker, k.token, k.message, length(k.body), k.last = e.place, e.prev,
    e.revision, e.run_no, e.task, e.source, e.worker, e.run, length(e.body), r.lane, r.ord,
    r.dead_at, r.first_limit, r.run_no, r.frees
FROM {schema}.definition d JOIN {schema}.task k USING (seq) JOIN {schema}.event e USING (seq)
LEFT JOIN {schema}.ready r USING (seq) WHERE d.id = $1
"""

_COUNTED = "SELECT queue, state, sum(n) FROM {schema}.delta GROUP BY 1, 2 ORDER BY 1, 2"

HOUR_MS = 3_600_000


LONGEST_LOOK_S = 0.05


class Looks:
    """Has every lone answer waited for awake, and keeps whether it was seen."""

    watches = True

    def __init__(self, transport: Any, saw: list[bool]) -> None:
        self._saw = saw
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket"), select.POLLIN)

    def wait(self) -> None:
        end = time.monotonic() + LONGEST_LOOK_S
        while not (seen := bool(self._poll.poll(0))) and time.monotonic() < end:
            pass
        self._saw.append(seen)

    def answered(self) -> None:
        """It is awake whatever that took."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Has whoever connects from now on wait awake; which answers came meanwhile."""
    seen: list[bool] = []
    monkeypatch.setattr(connection, "spinner_on", lambda transport, _: Looks(transport, seen))
    return seen


def kinds(created: Sequence[Created]) -> list[CreateKind]:
    return [one.kind for one in created]


def renamed(task: Task, name: str) -> Task:
    """The same record with another id."""
    definition = msgspec.structs.replace(task.definition, id=name)
    return msgspec.structs.replace(task, definition=definition)


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({}, "create_alike"),
        ({}, "create_tasks"),
        ({"priority": 3, "group": "a group"}, "create_alike"),
        ({"priority": 3, "group": "a group"}, "create_tasks"),
        ({"run_at": HOUR_MS}, "create_tasks"),
        ({"deadline": HOUR_MS}, "create_tasks"),
    ],
    ids=[
        "pending, alike",
        "pending",
        "with a priority and a group, alike",
        "with a priority and a group",
        "scheduled",
        "with a deadline",
    ],
)
async def test_a_record_created_alone_leaves_what_it_leaves_in_a_batch(
    kit: Kit,
    schema: str,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tell_of_statements: TellOfStatements,
    given: dict[str, Any],
    call: str,
) -> None:
    if call == "create_tasks":
        monkeypatch.setattr("andon.stores.postgres.alike.are_alike", lambda *_: False)
    times = {name: kit.store.now() + HOUR_MS for name in given if given[name] == HOUR_MS}
    first = kit.record("first", **{**given, **times})
    records = [first, *(renamed(first, name) for name in ("other", "third"))]
    sent: list[str] = []
    tell_of_statements(sent.append)
    assert [c.kind for c in await kit.store.create(records[:1])] == [CreateKind.CREATED]
    assert any("create_one" in sql for sql in sent)
    assert not any(call in sql for sql in sent)
    counted = await db.fetch(_COUNTED.format(schema=schema))
    await kit.store.create(records[1:])
    assert any(call in sql for sql in sent)
    rows = [await db.fetch(_ROWS.format(schema=schema), record.id) for record in records]
    assert [len(found) for found in rows] == [1, 1, 1]
    assert rows[1] == rows[0]
    assert rows[2] == rows[0]
    threefold = [(queue, state, 3 * n) for queue, state, n in counted]
    assert [tuple(row) for row in await db.fetch(_COUNTED.format(schema=schema))] == threefold


async def test_a_record_created_alone_is_told_of_in_the_same_call_while_somebody_sleeps(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    other = await kit.again()
    sent: list[str] = []
    with kit.store.listen([ready_topic("default")]) as ready:
        for _ in range(2):  # until the mark of who sleeps is seen
            while not await ready.wait(0.05):
                await other.create([kit.record()])
        tell_of_statements(sent.append)
        assert kinds(await other.create([kit.record()])) == [CreateKind.CREATED]
        assert await ready.wait(PATIENCE_S)
        await kit.claim(limit=100)
        record = kit.record()
        assert kinds(await other.create([record, kit.record()])) == [CreateKind.CREATED] * 2
        assert await ready.wait(PATIENCE_S)
        # A known id is left to the other call, which wakes nobody for it.
        assert kinds(await other.create([record])) == [CreateKind.EXISTS]
    assert [sql for sql in sent if "create_and_tell" in sql]
    alone = sent[: next(i for i, sql in enumerate(sent) if "claim_tasks" in sql)]
    assert not [sql for sql in alone if "pg_notify" in sql or "create_one(" in sql]


async def test_the_answer_to_a_record_created_alone_may_be_waited_for_awake(
    seen: list[bool], kit: Kit
) -> None:
    for _ in range(20):
        await kit.submit()
    assert len(seen) == 20
    assert any(seen), "it waited before its request was sent"
    assert (await kit.stats()).counts == {State.PENDING: 20}


async def test_who_submits_beside_others_waits_asleep(seen: list[bool], kit: Kit) -> None:
    await asyncio.gather(*(kit.create(kit.record()) for _ in range(3)))  # as many connections
    seen.clear()
    await asyncio.gather(*(kit.create(kit.record()) for _ in range(3)))
    assert len(seen) <= 1, "the first did not know of the others"


@pytest.fixture(params=["asleep", "awake"])
def waits(request: pytest.FixtureRequest) -> None:
    """How answers are waited for."""
    if request.param == "awake":
        request.getfixturevalue("seen")


_WAITING = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = $1::text::regclass"


@pytest.mark.usefixtures("waits")
async def test_a_record_created_alone_is_stored_though_its_caller_has_gone(
    kit: Kit, store: PostgresStore, schema: str, db: asyncpg.Connection
) -> None:
    """Also if the server did not come to the end of the statement that he had sent."""
    await kit.submit()
    record, table = kit.record(), f"{schema}.definition"
    async with db.transaction():
        await db.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        caller = asyncio.ensure_future(store.create([record]))

        assert await kit.until(lambda: db.fetch(_WAITING, table))
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        ends = f"SELECT pg_terminate_backend(w.pid) FROM ({_WAITING}) w"
        assert await kit.until(lambda: db.fetch(ends, table))
    await kit.until(lambda: kit.get(record.id))
    assert (await kit.stats()).counts == {State.PENDING: 2}


@pytest.mark.usefixtures("waits")
async def test_no_record_created_alone_is_half_stored_whenever_its_caller_goes(
    kit: Kit, store: PostgresStore
) -> None:
    await kit.submit()
    records = [kit.record() for _ in range(24)]
    for turns, record in enumerate(records):
        caller = asyncio.ensure_future(store.create([record]))
        for _ in range(1 + turns % 4):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)

    async def stored() -> bool:
        return None not in await store.get([record.id for record in records])

    assert await kit.until(stored)
    assert (await kit.stats()).counts == {State.PENDING: 25}
    assert len((await kit.read_events("")).events) == 25


@pytest.mark.usefixtures("waits")
async def test_a_record_created_alone_is_created_once_when_the_reply_was_lost(
    kit: Kit, tell_of_statements: TellOfStatements
) -> None:
    await kit.submit()
    lost: list[str] = []

    def lose(sql: str) -> None:
        if "create_one" in sql and sql not in lost:
            lost.append(sql)
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle")

    tell_of_statements(lose)
    await kit.create(kit.record())
    assert lost
    assert (await kit.stats()).counts == {State.PENDING: 2}
    assert len((await kit.read_events("")).events) == 2


async def test_who_only_submits_is_not_woken_by_what_he_submits(
    kit: Kit, schema: str, db: asyncpg.Connection
) -> None:
    heard: dict[str, asyncio.Event] = {}
    for channel in (f"andon_{schema}", f"andon_{schema}_work"):
        event = heard[channel] = asyncio.Event()
        await db.add_listener(channel, lambda *_, event=event: event.set())
    other = await kit.again()
    with kit.store.listen([ready_topic("default")]), kit.store.listen([CONFIG_TOPIC]) as config:
        async with asyncio.timeout(PATIENCE_S):
            while not heard[f"andon_{schema}_work"].is_set():
                await other.create([kit.record()])
                await asyncio.sleep(0.01)
        await config.wait(0)
        for event in heard.values():
            event.clear()
        async with asyncio.timeout(PATIENCE_S):
            while not heard[f"andon_{schema}_work"].is_set():
                await other.create([kit.record()])
                await asyncio.sleep(0.01)
        assert not heard[f"andon_{schema}"].is_set()
        await kit.configure(weight=2)
        await other.put_queue(QueueConfig(name="other", weight=2), expect=QueueConfig(name="other"))
        async with asyncio.timeout(PATIENCE_S):
            await heard[f"andon_{schema}"].wait()
        assert await config.wait(PATIENCE_S)
