"""Fields of packed lists have their places from one list, and nobody counts them by hand."""

import random
from typing import Any

import msgspec
import pytest
from conformance.kit import Kit
from msgspec.structs import fields
from servers.redis import RedisServer

from andon.contract.outcomes import CreateKind
from andon.contract.requests import Snapshot
from andon.lifecycle.commands import Cancel, Complete, Fail, Rerun
from andon.lifecycle.effects import of_new
from andon.lifecycle.indexes import entry_of
from andon.model.task import TaskError
from andon.model.words import State
from andon.stores.kit.codec import encode
from andon.stores.redis import (
    beginnings,
    committing,
    creating,
    partitions,
    records,
    renewing,
    restoring,
)
from andon.stores.redis.packed import (
    FIELDS,
    CreateItem,
    EndGroup,
    NewGroup,
    PackedEntry,
    RestoreItem,
)
from andon.stores.redis.scripts import Scripts

from .conftest import OpenKit
from .test_damage import key_of

POLICY = {"unique_states": ("pending",), "unique_period": 60.0, "dead_letter": "save"}


async def test_an_entry_is_packed_in_the_order_of_its_list(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("entry"))
    task = kit.record(
        queue="q",
        name="n",
        key="k",
        group="g",
        unique_key="u",
        policy=POLICY,
        priority=3,
        tags=("t",),
    )
    entry, status = entry_of(task), task.status
    packed = records._pack_entry(entry, task, status, 1)
    ready = entry.ready
    assert ready is not None
    assert msgspec.msgpack.decode(packed, type=PackedEntry) == PackedEntry(
        state="pending",
        queue="q",
        kind=ready.kind,
        key="k",
        group="g",
        timer=None,
        score=records.score_of(ready),
        dead_at=None,
        first_limit=ready.first_limit,
        unique="u",
        unique_until=entry.unique_until,
        dead_letter=False,
        remaining=0,
        created=str(status.created_at),
        run_number=1,
        fence=0,
        frees_on_claim=True,
        spare=None,
        lists=("tag t",),
    )


async def test_an_item_of_a_create_is_packed_in_the_order_of_its_list(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("item"))
    task = kit.record(key="k")
    item: Any = creating._item(task, of_new(task), keeps_key=True)
    found = msgspec.msgpack.decode(encode(item), type=CreateItem)
    assert (found.id, found.keeps_key, found.digest) == (task.id, True, task.definition.digest)
    assert found.head == f"{task.status.revision} {task.status.created_at} "
    assert found.tally == "submitted"
    assert found.day == str(task.status.created_at // 86_400_000)
    for packed, part in ((found.definition, task.definition), (found.status, task.status)):
        assert bytes(packed) == bytes(records.body(encode(part)))


class Shuffled:
    """The lists in another order, for scripts and for what they are given."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.lists = {name: tuple(rng.sample(of, len(of))) for name, of in FIELDS.items()}
        self._pack_entry = records._pack_entry
        self._create_item: Any = creating._item

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        for name, of in self.lists.items():
            patch.setitem(FIELDS, name, of)
        for module in (partitions, renewing):
            patch.setattr(module, "SCRIPTS", Scripts())
        patch.setattr(records.packed_entry, "_last", ((), msgspec.Raw()))
        patch.setattr(records, "_pack_entry", self.pack_entry)
        patch.setattr(creating, "_item", self.create_item)
        patch.setattr(restoring, "RestoreItem", self.struct(RestoreItem, "restore"))
        patch.setattr(beginnings, "NewGroup", self.struct(NewGroup, "new_group"))
        patch.setattr(committing, "EndGroup", self.struct(EndGroup, "end_group"))

    def struct(self, written: type[msgspec.Struct], name: str) -> type[msgspec.Struct]:
        of = {field.name: field.type for field in fields(written)}
        shuffled = [(field, of[field]) for field in self.lists[name]]
        return msgspec.defstruct("Shuffled", shuffled, array_like=True, kw_only=True)

    def pack_entry(self, *arguments: Any) -> bytes:
        packed = msgspec.msgpack.decode(self._pack_entry(*arguments))
        return encode(self._in_order(PackedEntry.__struct_fields__, packed, "entry"))

    def create_item(self, *arguments: Any, **options: Any) -> list[Any]:
        item = self._create_item(*arguments, **options)
        return self._in_order(CreateItem.__struct_fields__, item, "create")

    def _in_order(self, written: tuple[str, ...], values: Any, name: str) -> list[Any]:
        of = dict(zip(written, values, strict=True))
        return [of[field] for field in self.lists[name]]


@pytest.fixture(params=range(3))
def shuffled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shuffled:
    shuffled = Shuffled(request.param)
    shuffled.apply(monkeypatch)
    return shuffled


async def ended(kit: Kit, queue: str) -> set[State]:
    """Tasks of a queue are claimed one after another, and end in different ways."""
    ways = [Complete(), Fail(error=TaskError(message="no"), retryable=False), Cancel(force=True)]
    states: set[State] = set()
    for way in ways:
        (task,) = await kit.claim(queues=(queue,))
        states.add((await kit.moved(task, way)).state)
    return states


ENDS = {State.COMPLETED, State.FAILED, State.CANCELLED}


async def test_every_way_of_a_task_goes_on_when_the_lists_are_shuffled(
    shared: RedisServer, open_kit: OpenKit, shuffled: Shuffled
) -> None:
    kit = await open_kit(shared.url(f"shuffled{abs(hash(str(shuffled.lists)))}"))
    for _ in range(3):
        await kit.submit(queue="alone")  # one by one, then many together
    assert await ended(kit, "alone") == ENDS
    await kit.submit_many(3, queue="together")
    assert await ended(kit, "together") == ENDS

    await kit.configure(name="limited", max_concurrent_per_key=1)
    await kit.submit_many(3, queue="limited", key="k", group="g", policy=POLICY)
    assert await ended(kit, "limited") == ENDS
    assert (await kit.stats("limited")).counts == {"completed": 1, "failed": 1, "cancelled": 1}

    holder = await kit.submit(queue="unique", unique_key="u", policy=POLICY)
    other = kit.record(queue="unique", unique_key="u", policy=POLICY)
    (refused,) = await kit.store.create([other])
    assert (refused.kind, refused.holder) == (CreateKind.KEY_HELD, holder.id)
    (claimed,) = await kit.claim(queues=("unique",))
    assert [created.kind for created in await kit.store.create([other])] == [CreateKind.CREATED]

    failed = await kit.moved(claimed, Fail(error=TaskError(message="no"), retryable=False))
    assert (await kit.stats("unique")).dead_letters == 1
    await kit.move(other, Cancel())  # so that its key is free for the one that runs again
    await kit.move(await kit.moved(failed, Rerun()), Cancel())

    later = await kit.submit(queue="later", run_at=kit.store.now() + 5)
    assert (await kit.due(later.id)).state is State.SCHEDULED


async def test_what_is_damaged_is_set_aside_when_the_lists_are_shuffled(
    shared: RedisServer, open_kit: OpenKit, shuffled: Shuffled
) -> None:
    kit = await open_kit(shared.url(f"damaged{abs(hash(str(shuffled.lists)))}"))
    good, bad = await kit.submit_many(2, key="k")
    shared.ask("HSET", key_of(kit, bad), "x", "\xc1 no entry")
    assert [task.id for task in await kit.claim(2)] == [good.id]
    assert await kit.state(bad.id) is State.UNKNOWN


async def test_records_of_another_store_are_restored_when_the_lists_are_shuffled(
    shared: RedisServer, open_kit: OpenKit, shuffled: Shuffled
) -> None:
    kit = await open_kit(shared.url(f"restored{abs(hash(str(shuffled.lists)))}"))
    task = kit.record(key="k", unique_key="u", policy=POLICY)
    snapshot = Snapshot(task=task, history=task.status.events)
    assert await kit.store.restore([snapshot, snapshot]) == [True, False]
    (claimed,) = await kit.claim()
    assert claimed.id == task.id
    assert (await kit.moved(claimed, Complete())).state is State.COMPLETED


def test_shuffled_scripts_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Scripts()["commit"].text
    Shuffled(0).apply(monkeypatch)
    assert Scripts()["commit"].text != before
