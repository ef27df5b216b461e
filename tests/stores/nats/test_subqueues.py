"""What a claim asks the server: of lines that are known to be empty, or that the worker has no code
for, nothing."""

from typing import Any

import pytest
from conformance.kit import Kit, ids

from andon.model.code import Code
from andon.stores.nats import NatsStore, subqueues
from andon.stores.nats.context import StoreContext
from andon.stores.nats.jetstream import JetStream
from andon.stores.nats.nats_client import Reply

MANY = 60


def context_of(store: Any) -> StoreContext:
    assert isinstance(store, NatsStore)
    context = store._context
    assert context is not None
    return context


class Asked:
    """How often the server was asked, and about how many lines; without the counts of lanes, for
    which no claim waits."""

    def __init__(self, js: JetStream, patch: pytest.MonkeyPatch) -> None:
        self._read, self._read_each = js.read, js.read_each
        self.rounds = 0
        self.subqueues = 0
        self.starts: list[int] = []
        patch.setattr(js, "read", self.read)
        patch.setattr(js, "read_each", self.read_each)

    def forget(self) -> None:
        self.rounds = self.subqueues = 0
        self.starts.clear()

    async def read(self, stream: str, request: dict[str, Any]) -> tuple[list[Reply], Reply]:
        if not request.get("next_by_subj", "").endswith(".*.*.*.*"):
            self.rounds += 1
            self.subqueues += "next_by_subj" in request
        return await self._read(stream, request)

    async def read_each(self, stream: str, requests: list[dict[str, Any]]) -> list[Reply | None]:
        self.rounds += 1
        self.subqueues += len(requests)
        self.starts += [request["seq"] for request in requests]
        return await self._read_each(stream, requests)


def grow_old(kit: Kit) -> None:
    """What is known of lines was read so long ago that it is doubted."""
    assert isinstance(kit.store, NatsStore)
    known = kit.store._claims.subqueues[0]
    known._quiet_since -= subqueues._EMPTY_S
    known._checked_at -= subqueues._EMPTY_S
    known._recheck_at = 0.0
    for subqueue in known._subqueues.values():
        subqueue.read_at -= subqueues._EMPTY_S


async def some_queues(kit: Kit) -> tuple[str, ...]:
    """Queues in which there was something once."""
    queues = tuple(f"q{n}" for n in range(MANY))
    await kit.create(*(kit.record(queue=queue) for queue in queues))
    assert len(await kit.claim(MANY, queues=queues)) == MANY
    assert await kit.claim(5, queues=queues) == []
    return queues


async def without_hints(kit: Kit, patch: pytest.MonkeyPatch) -> NatsStore:
    """Another process on the same store, that tells nobody of what it writes."""
    other = await kit.again()
    assert isinstance(other, NatsStore)

    def nobody(*_: object) -> None: ...

    patch.setattr(context_of(other), "hint", nobody)
    return other


async def test_empty_queues_cost_nothing_once_they_were_found_empty(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = await some_queues(kit)
    asked = Asked(context_of(kit.store).js, monkeypatch)
    task = await kit.submit(queue=queues[-1])
    asked.forget()
    assert ids(await kit.claim(5, queues=queues)) == [task.id]
    assert asked.subqueues <= 2  # the line hinted, and once more behind what stood in it
    asked.forget()
    assert await kit.claim(5, queues=queues) == []
    assert asked.subqueues == 0


async def test_a_task_from_another_process_is_found_in_a_queue_that_was_empty(kit: Kit) -> None:
    queues = await some_queues(kit)
    other = await kit.again()
    for queue in queues[::20]:
        task = kit.record(queue=queue)
        await other.create([task])

        async def claimed(queues: tuple[str, ...] = queues) -> list[Any]:
            return await kit.claim(5, queues=queues)

        assert ids(await kit.until(claimed)) == [task.id]


async def test_many_queues_of_which_nothing_is_known_are_asked_about_together(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = await some_queues(kit)
    other = await kit.again()
    asked = Asked(context_of(other).js, monkeypatch)
    task = await kit.submit(queue=queues[-1])
    assert ids(await kit.claim_from(other, 5, queues=queues)) == [task.id]
    assert asked.rounds < MANY / 3


async def test_lost_hints_are_made_up_for(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says that there is something: the process that wrote it died before it could."""
    queues = await some_queues(kit)
    other = await without_hints(kit, monkeypatch)
    task = kit.record(queue=queues[7])
    await other.create([task])
    grow_old(kit)
    assert ids(await kit.claim(5, queues=queues)) == [task.id]
    assert await kit.claim(5, queues=queues) == []
    asked = Asked(context_of(kit.store).js, monkeypatch)
    grow_old(kit)
    assert await kit.claim(5, queues=queues) == []
    assert asked.subqueues <= 2, "nothing pending was written since: one question for all of them"


async def test_lines_that_were_empty_are_read_again_only_some_at_a_time(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With much pending, each of them costs the server long: no claim waits for all of them."""
    queues = await some_queues(kit)
    other = await without_hints(kit, monkeypatch)
    task = kit.record(queue=queues[30])
    await other.create([task])
    asked = Asked(context_of(kit.store).js, monkeypatch)
    assert isinstance(kit.store, NatsStore)
    known = kit.store._claims.subqueues[0]
    monkeypatch.setattr(subqueues, "_LONGEST_S", 0.0)  # the time for that is always over
    grow_old(kit)
    found: list[str] = []
    for _ in range(MANY // subqueues._CHECKED + 1):
        asked.forget()
        known._recheck_at = 0.0
        found += ids(await kit.claim(5, queues=queues))
        # Besides: whether anything was written, and what was found.
        assert asked.subqueues <= subqueues._CHECKED + 3
    assert found == [task.id]


async def test_lines_nobody_has_code_for_are_not_asked_about(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kit.create(*(kit.record(name=f"team{n}.job") for n in range(MANY)))
    task = await kit.submit(name="mine")
    asked = Asked(context_of(kit.store).js, monkeypatch)
    code = Code.of([("mine", 0)])
    assert ids(await kit.claim(5, code=code)) == [task.id]
    assert asked.subqueues <= 3
    asked.forget()
    assert await kit.claim(5, code=code) == []
    assert asked.subqueues == 0


async def test_the_oldest_of_a_kind_is_looked_for_from_where_it_stood_the_last_time(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the beginning the server visits all that are pending."""
    oldest = await kit.submit(name="waits")
    await kit.create(*(kit.record(name="waits") for _ in range(5)))
    (found,) = await kit.store.ready_kinds()
    assert found.oldest_at == oldest.status.order
    asked = Asked(context_of(kit.store).js, monkeypatch)
    assert await kit.store.ready_kinds() == [found]
    assert len(asked.starts) == 1
    assert asked.starts[0] > 1
    claimed = await kit.claim(3)
    assert claimed[0].id == oldest.id
    assert [(one.queue, one.kind) for one in await kit.store.ready_kinds()] == [
        (found.queue, found.kind)
    ]
    await kit.claim(3)
    assert await kit.store.ready_kinds() == []
    back = await kit.submit(name="waits")
    (found,) = await kit.store.ready_kinds()
    assert found.oldest_at == back.status.order
