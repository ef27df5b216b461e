"""Tasks submitted or claimed one by one: their shared beginning, and the reply of a claim."""

import sys
from typing import Any

import pytest
from conformance.kit import Kit, ids
from servers.redis import RedisServer

from andon.contract.outcomes import CreateKind
from andon.lifecycle.admission import admit
from andon.lifecycle.batches import alike
from andon.model.task import Definition
from andon.stores.kit.codec import encode
from andon.stores.redis import beginnings, partitions, scripts
from andon.stores.redis.partitions import Partitions

from .conftest import OpenKit
from .test_plain import NOW, Standing, dump

OTHERWISE: dict[str, dict[str, Any]] = {
    "queue": {"queue": "other"},
    "name": {"name": "other"},
    "version": {"version": 2},
    "key": {"key": "k"},
    "group": {"group": "g"},
    "unique-key": {"unique_key": "u"},
    "tags": {"tags": ("t",)},
    "predecessor": {"predecessor": "p"},
    "dependencies": {"dependencies": ("parent",)},
    "timeout": {"policy": {"timeout": 5.0}},
    "priority": {"priority": 3},
    "deadline": {"deadline": NOW + 5_000},
    "start": {"run_at": NOW + 5_000},
    "write": {"write_id": "another"},
    "id": {"task_id": "longer-than-it"},
    "arguments": {"args": b"[2]"},
    "digest": {"digest": "another"},
}
"""What may set a task apart from the one before it."""


async def alone(server: RedisServer, namespace: str, *submits: dict[str, Any]) -> dict[str, Any]:
    """What is stored after these submits of a millisecond, one after the other."""
    kit = Kit(Standing(server.url(namespace), shared=True, durable=True))
    await kit.open()
    try:
        for number, fields in enumerate(submits):
            task = kit.record(**{"task_id": f"task-{number}", "write_id": "a write", **fields})
            (created,) = await kit.create(task)
            assert created.kind is CreateKind.CREATED
    finally:
        await kit.close()
    return dump(server, namespace)


@pytest.mark.parametrize("what", OTHERWISE)
async def test_a_lone_task_is_not_taken_for_the_one_before_it(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    submits: tuple[dict[str, Any], ...] = ({}, OTHERWISE[what], {})
    found = await alone(shared, f"after-another-{what}", *submits)
    monkeypatch.setattr(beginnings.NewestBeginning, "of", lambda *_: None)
    assert found == await alone(shared, f"by-itself-{what}", *submits)


async def test_lone_tasks_of_a_millisecond_are_derived_and_packed_once(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[str] = []
    pack = beginnings.group_of

    def counted(batch: Any, size: int) -> Any:
        packed.append(batch.entry.name)
        return pack(batch, size)

    monkeypatch.setattr(beginnings, "group_of", counted)
    await alone(shared, "packed-once", {"args": b"[1]"}, {"args": b"[2]"}, {"name": "other"})
    assert packed == ["job", "other"]


def test_the_arguments_of_the_newest_task_are_not_kept() -> None:
    arguments = encode(["long"])
    held = sys.getrefcount(arguments)
    task = admit(Definition(id="t", name="job", args=arguments), NOW, "a write")
    newest = beginnings.NewestBeginning()
    newest.put(task, *alike([task]))
    assert newest.of(task) is not None
    del task
    assert sys.getrefcount(arguments) == held


@pytest.mark.parametrize("way", ["short", "long"])
async def test_a_claim_is_answered_without_lists_of_nothing(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Each list within an answer is a write of its own to Redis before 7, and a packet."""
    if way == "long":
        monkeypatch.delitem(scripts.FIRST, "claim")
        monkeypatch.setattr(partitions, "SCRIPTS", scripts.Scripts())
    answers: list[list[Any]] = []
    run_packed = Partitions.run_packed

    async def kept(at: Partitions, name: str, *told: Any, **how: Any) -> list[Any]:
        answer = await run_packed(at, name, *told, **how)
        if name == "claim":
            answers.append(answer)
        return answer

    monkeypatch.setattr(Partitions, "run_packed", kept)
    kit = await open_kit(shared.url(f"no-lists-{way}"))
    task = await kit.submit()
    assert ids(await kit.claim()) == [task.id]
    assert await kit.claim() == []
    assert len(answers) == 2
    assert not [part for answer in answers for part in answer if isinstance(part, list)]
