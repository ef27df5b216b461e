"""Lanes of ready tasks: what is kept beside them agrees with them, and what a claim costs."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from conformance.kit import Kit, ids
from conformance.test_parked_claims import Stander
from servers.redis import RedisServer, until

from andon.contract.queries import Query
from andon.contract.requests import Snapshot
from andon.lifecycle.commands import (
    Cancel,
    Complete,
    Delete,
    Fail,
    Release,
    Reprioritise,
    Snooze,
)
from andon.model.code import Code
from andon.model.errors import StoreIncompatible
from andon.model.task import Task, TaskError
from andon.model.words import State
from andon.stores.redis.partitions import Partitions
from andon.stores.redis.store import RedisStore

from .conftest import OpenKit, Start
from .test_plain import commands_of

MINE = Code.of([("mine", 0)])
FEW_LANES = 16
"""Of a queue with more lanes their kinds are kept."""


def kept_beside_lanes(server: RedisServer, namespace: str) -> tuple[Any, Any]:
    """What is kept of a namespace's lanes, and what should be, by the lanes themselves."""
    prefix = f"{{{namespace}:0}}:"

    def keys(kind: str) -> list[str]:
        found = server.ask("KEYS", f"{prefix}{kind}:*")
        return sorted(key.decode().removeprefix(prefix) for key in found)

    heads = {
        key.removeprefix("heads:"): server.ask("ZRANGE", prefix + key, 0, -1, "WITHSCORES")
        for key in keys("heads")
    }
    kinds = {
        key.removeprefix("kinds:"): set(server.ask("SMEMBERS", prefix + key))
        for key in keys("kinds")
    }
    flat = server.ask("HGETALL", prefix + "ready")
    ready = dict(zip(flat[::2], flat[1::2], strict=True))
    first: dict[str, list[tuple[float, bytes, bytes]]] = {}
    for key in keys("ready"):
        queue, _, kind = key.removeprefix("ready:").partition("|")
        member, score = server.ask("ZRANGE", prefix + key, 0, 0, "WITHSCORES")
        head = member[:12] + kind.encode()
        first.setdefault(queue, []).append((float(score), head, score))
    of_lanes = (
        {
            queue: [word for _, head, score in sorted(of) for word in (head, score)]
            for queue, of in first.items()
            if len(of) > 1
        },
        {
            queue: {head[12:] for _, head, _ in of}
            for queue, of in first.items()
            if len(of) > FEW_LANES
        },
        {
            queue.encode(): b"%d" % len(of) if len(of) > 1 else b"=" + of[0][1][12:]
            for queue, of in first.items()
        },
    )
    return (heads, kinds, ready), of_lanes


def _moves(task: Task, rng: random.Random) -> list[Any]:
    if task.state is State.PENDING:
        return [Cancel(), Reprioritise(priority=rng.randrange(3))]
    if task.state is State.ACTIVE:
        retry = Fail(error=TaskError(message="no"))
        return [Complete(), Release(), retry, Snooze(delay=60_000)]
    return [Delete()] if task.state in (State.COMPLETED, State.CANCELLED) else [Cancel()]


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_kept_beside_lanes_agrees_with_them(
    shared: RedisServer, open_kit: OpenKit, seed: int
) -> None:
    namespace, rng = f"agrees-{seed}", random.Random(seed)
    kit = await open_kit(shared.url(namespace))
    queues = ("default", "other", "limited")
    await kit.configure(name="limited", max_concurrent_per_key=2)
    names = ("mine", "theirs", "whose", *(f"type-{i}" for i in range((0, 14)[seed % 2])))
    known: list[str] = []
    for step in range(150):
        act = rng.randrange(5)
        if act < 2:
            records = [
                kit.record(
                    queue=rng.choice(queues),
                    name=rng.choice(names),
                    version=rng.randrange(2),
                    priority=rng.randrange(3),
                    key=rng.choice((None, None, "k")),
                    write_id=f"step {step}",
                )
                for _ in range(rng.choice((1, 1, 8)))
            ]
            known += ids(records)
            if rng.random() < 0.1:
                await kit.store.restore(
                    [Snapshot(task=one, history=one.status.events) for one in records]
                )
            else:
                await kit.create(*records)
        elif act == 2:
            code = rng.choice((None, MINE, Code.of([("theirs", 1), ("whose", 0)])))
            room = rng.choice(({}, {"mine": 1}))
            asked = tuple(rng.sample(queues, rng.randrange(1, 4)))
            await kit.claim(rng.choice((1, 5)), queues=asked, code=code, room=room)
        else:
            for task in await kit.store.get(rng.sample(known, min(len(known), 3))):
                if task is not None:
                    await kit.try_move(task, rng.choice(_moves(task, rng)))
        kept, of_lanes = kept_beside_lanes(shared, namespace)
        assert kept == of_lanes, step


async def test_a_claim_costs_the_same_behind_many_kinds_and_many_tasks(
    start: Start, open_kit: OpenKit
) -> None:
    server = start()
    costs: list[int] = []
    for kinds, each in ((30, 1), (30, 40), (1_000, 1)):
        kit = await open_kit(server.url(f"many-{kinds}-{each}"))
        names = [f"theirs-{i}" for i in range(kinds)] * each
        await _create(kit, [kit.record(name=name) for name in names])
        await _create(kit, [kit.record(name="mine") for _ in range(3)])
        assert len(await kit.claim(1, code=MINE)) == 1  # it now knows what it has no code for
        claim = kit.claim(1, code=MINE)
        costs.append(await commands_of(server, claim))
    assert costs[0] == costs[1] == costs[2]
    assert costs[0] <= 40


async def test_empty_queues_cost_a_claim_nothing(start: Start, open_kit: OpenKit) -> None:
    server = start()
    kit = await open_kit(server.url("empty"))
    queues = tuple(f"queue-{i}" for i in range(2_000))
    one = await commands_of(server, kit.claim(queues=queues[:1], code=MINE))
    assert await commands_of(server, kit.claim(queues=queues, code=MINE)) <= one + 2
    task = await kit.submit(queue=queues[-1], name="mine")
    behind = await commands_of(server, kit.claim(queues=queues, code=MINE))
    assert await kit.state(task.id) is State.ACTIVE
    assert behind <= 60  # two looks: it has to be decided once whether it may have that kind


async def test_queues_are_taken_in_the_order_asked_however_many_are_asked(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("order-asked"))
    queues = tuple(f"queue-{i}" for i in range(60))
    tasks = {queue: await kit.submit(queue=queue) for queue in ("queue-7", "queue-55", "queue-1")}
    claimed = await kit.claim(5, queues=tuple(reversed(queues)))
    assert ids(claimed) == [tasks[queue].id for queue in ("queue-55", "queue-7", "queue-1")]


async def test_what_a_code_may_claim_is_decided_once_and_expires(
    start: Start, open_kit: OpenKit
) -> None:
    server = start()
    kit = await open_kit(server.url("memo"))
    await kit.create(*[kit.record(name=name) for name in ("mine", "theirs") for _ in range(3)])
    first = await commands_of(server, kit.claim(code=MINE))
    second = await commands_of(server, kit.claim(code=MINE))
    assert second < first
    memos = [key for key in server.keys("memo") if "}:can" in key]
    assert len(memos) == 2
    for key in memos:
        assert 0 < server.ask("TTL", key) <= 3_600
        server.ask("DEL", key)
    assert len(await kit.claim(5, code=MINE)) == 1, "what is forgotten is decided anew"


async def test_a_claim_stands_beside_what_it_has_no_code_for(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("beside"))
    assert isinstance(kit.store, RedisStore)
    await kit.create(kit.record(name="mine"), kit.record(name="theirs"))
    stander = Stander(kit, kit.store, "stander")
    assert len(await kit.store.claim(stander.request(code=MINE, parks=False))) == 1
    await stander.stand(code=MINE)
    await asyncio.to_thread(
        until, lambda: shared.ask("PUBSUB", "CHANNELS", "beside:hints:handed-*"), "not subscribed"
    )
    theirs = await kit.submit(name="theirs")
    mine = await kit.submit(name="mine")
    assert (await stander.handed()).id == mine.id
    assert await kit.state(theirs.id) is State.PENDING


async def test_a_page_of_many_queues_blocks_the_server_for_a_few_lists_at_a_time(
    start: Start, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    kit = await open_kit(server.url("pages"))
    tasks = [kit.record(queue=f"queue-{i % 70}") for i in range(300)]
    await _create(kit, tasks)
    asked: list[int] = []
    everywhere = Partitions.everywhere

    async def seen(at: Partitions, name: str, arguments: Any) -> Any:
        if name == "walk":
            asked.append(len(arguments[7]))
        return await everywhere(at, name, arguments)

    monkeypatch.setattr(Partitions, "everywhere", seen)
    for newest in (False, True):
        page = await kit.store.find(Query(limit=300, newest_first=newest))
        places = sorted(((task.status.created_at, task.id) for task in tasks), reverse=newest)
        assert ids(page.tasks) == [task_id for _, task_id in places]
    assert max(asked) <= 200
    await kit.store.find(Query(dead_letters=True))
    assert asked[-1] == 1, "the dead letters of all queues are one list"


async def test_a_namespace_of_an_older_form_is_refused(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("older"))
    shared.ask("HSET", "{older:0}:meta", "schema", "1", "min_writer", "1")
    with pytest.raises(StoreIncompatible, match="before Andon's first release"):
        await open_kit(shared.url("older"))
    with pytest.raises(StoreIncompatible, match="before Andon's first release"):
        await kit.submit()


async def _create(kit: Kit, records: Sequence[Task]) -> None:
    for i in range(0, len(records), 200):
        await kit.create(*records[i : i + 200])
