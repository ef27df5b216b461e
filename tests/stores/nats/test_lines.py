"""What a claim asks the server: of lines that are known to be empty, or that the worker has no code
for, nothing."""

from typing import Any

import pytest
from conformance.kit import Kit, ids

from andon.model.code import Code
from andon.stores.nats import NatsStore, lines
from andon.stores.nats.core import Core
from andon.stores.nats.library import Reply
from andon.stores.nats.wire import Wire

MANY = 60


def core_of(store: Any) -> Core:
    assert isinstance(store, NatsStore)
    core = store._core
    assert core is not None
    return core


class Asked:
    """How often the server was asked, and about how many lines."""

    def __init__(self, wire: Wire, patch: pytest.MonkeyPatch) -> None:
        self._read, self._several = wire.read, wire.several
        self.rounds = 0
        self.lines = 0
        patch.setattr(wire, "read", self.read)
        patch.setattr(wire, "several", self.several)

    def forget(self) -> None:
        self.rounds = self.lines = 0

    async def read(self, stream: str, request: dict[str, Any]) -> tuple[list[Reply], Reply]:
        self.rounds += 1
        self.lines += "next_by_subj" in request
        return await self._read(stream, request)

    async def several(self, stream: str, requests: list[dict[str, Any]]) -> list[Reply | None]:
        self.rounds += 1
        self.lines += len(requests)
        return await self._several(stream, requests)


def grow_old(kit: Kit) -> None:
    """What is known of lines was read so long ago that it is doubted."""
    assert isinstance(kit.store, NatsStore)
    known = kit.store._claims.lines[0]
    known._quiet_since -= lines._EMPTY_S
    known._believed_at -= lines._EMPTY_S
    for line in known._lines.values():
        line.read_at -= lines._EMPTY_S


async def some_queues(kit: Kit) -> tuple[str, ...]:
    """Queues in which there was something once."""
    queues = tuple(f"q{n}" for n in range(MANY))
    await kit.create(*(kit.record(queue=queue) for queue in queues))
    assert len(await kit.claim(MANY, queues=queues)) == MANY
    assert await kit.claim(5, queues=queues) == []
    return queues


async def test_empty_queues_cost_nothing_once_they_were_found_empty(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = await some_queues(kit)
    asked = Asked(core_of(kit.store).wire, monkeypatch)
    task = await kit.submit(queue=queues[-1])
    asked.forget()
    assert ids(await kit.claim(5, queues=queues)) == [task.id]
    assert asked.lines <= 2  # the line hinted, and once more behind what stood in it
    asked.forget()
    assert await kit.claim(5, queues=queues) == []
    assert asked.lines == 0


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
    asked = Asked(core_of(other).wire, monkeypatch)
    task = await kit.submit(queue=queues[-1])
    assert ids(await kit.claim_from(other, 5, queues=queues)) == [task.id]
    assert asked.rounds < MANY / 3


async def test_lost_hints_are_made_up_for(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says that there is something: the process that wrote it died before it could."""
    queues = await some_queues(kit)
    other = await kit.again()

    async def nobody(*_: object) -> None: ...

    monkeypatch.setattr(core_of(other), "hint", nobody)
    task = kit.record(queue=queues[7])
    await other.create([task])
    grow_old(kit)
    assert ids(await kit.claim(5, queues=queues)) == [task.id]
    assert await kit.claim(5, queues=queues) == []
    asked = Asked(core_of(kit.store).wire, monkeypatch)
    grow_old(kit)
    assert await kit.claim(5, queues=queues) == []
    assert asked.lines <= 2, "nothing pending was written since: one question for all of them"


async def test_lines_nobody_has_code_for_are_not_asked_about(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kit.create(*(kit.record(name=f"team{n}.job") for n in range(MANY)))
    task = await kit.submit(name="mine")
    asked = Asked(core_of(kit.store).wire, monkeypatch)
    code = Code.of([("mine", 0)])
    assert ids(await kit.claim(5, code=code)) == [task.id]
    assert asked.lines <= 3
    asked.forget()
    assert await kit.claim(5, code=code) == []
    assert asked.lines == 0
