"""A replica that lags answers reads, too; what must not be exceeded is not, for all that."""

from typing import Any

import pytest
from conformance.kit import Kit

from andon.contract.outcomes import CreateKind
from andon.lifecycle.commands import Complete
from andon.model.fleet import QueueConfig
from andon.model.words import State
from andon.stores.nats import NatsStore
from andon.stores.nats.jetstream import JetStream, seq_of
from andon.stores.nats.nats_client import Reply

_NOT_FOUND = Reply(b"", b"NATS/1.0 404 Message Not Found\r\n\r\n")


class Lagging:
    """Some pages of records come from a replica that has heard of nothing after `upto`."""

    def __init__(
        self, js: JetStream, patch: pytest.MonkeyPatch, *, upto: int, answers: int
    ) -> None:
        self._plain = js.read
        self._upto = upto
        self.left = answers
        self._plainly = js.read_each
        patch.setattr(js, "read", self.read)
        patch.setattr(js, "read_each", self.read_each)

    async def read(self, stream: str, request: dict[str, Any]) -> tuple[list[Reply], Reply]:
        messages, end = await self._plain(stream, request)
        if self.left <= 0 or not str(request.get("next_by_subj", "")).endswith(".t.>"):
            return messages, end
        self.left -= 1
        return [message for message in messages if seq_of(message) <= self._upto], end

    async def read_each(self, stream: str, requests: list[dict[str, Any]]) -> list[Reply | None]:
        answers = await self._plainly(stream, requests)
        if self.left <= 0:
            return answers
        self.left -= 1
        return [answer if self._has(answer) else _NOT_FOUND for answer in answers]

    def _has(self, answer: Reply | None) -> bool:
        return answer is not None and not answer.status and seq_of(answer) <= self._upto


async def lagging(kit: Kit, patch: pytest.MonkeyPatch) -> tuple[NatsStore, Lagging]:
    """Another process, which has counted the queue and reads from such a replica from now on."""
    other = await kit.again()
    assert isinstance(other, NatsStore)
    await other.stats()
    context = other._context
    assert context is not None
    upto = await context.records[0].leader_newest(context.records[0].subjects.of("t", ">"))
    return other, Lagging(context.js, patch, upto=upto, answers=3)


async def test_a_claim_counts_those_that_others_have_claimed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kit.store.put_queue(
        QueueConfig(name="default", max_concurrent=2), expect=QueueConfig(name="default")
    )
    for name in ("a", "a", "b", "b"):
        await kit.submit(name=name)
    other, replica = await lagging(kit, monkeypatch)
    ours = await kit.claim(2, room={"b": 0})
    assert len(ours) == 2
    assert await kit.claim_from(other, 2, room={"a": 0}) == []
    assert replica.left < 3
    await kit.moved(ours[0], Complete())
    assert len(await kit.claim_from(other, 2, room={"a": 0})) == 1


async def test_a_create_counts_those_that_others_have_created(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kit.store.put_queue(
        QueueConfig(name="default", max_size=2), expect=QueueConfig(name="default")
    )
    other, replica = await lagging(kit, monkeypatch)
    await kit.submit_many(2)
    (made,) = await other.create([kit.record()])
    assert made.kind is CreateKind.FULL
    assert replica.left < 3
    assert (await kit.stats()).counts[State.PENDING] == 2
