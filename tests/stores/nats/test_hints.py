"""How hints leave a process."""

import asyncio

import pytest
from conformance.kit import Kit

from andon.contract.topics import EVENTS_TOPIC, task_topic
from andon.stores.nats import NatsStore
from andon.stores.nats.context import StoreContext
from andon.stores.nats.nats_client import NatsClient


def context_of(store: object) -> StoreContext:
    assert isinstance(store, NatsStore)
    context = store._context
    assert context is not None
    return context


async def test_the_hints_of_a_write_leave_as_one_piece(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(kit.store)
    await kit.submit()
    pieces: list[bytes] = []
    send = NatsClient._send

    def kept(client: NatsClient, data: bytes) -> None:
        pieces.append(data)
        send(client, data)

    monkeypatch.setattr(NatsClient, "_send", kept)
    task = await kit.submit()
    of_hints = [piece for piece in pieces if context.hints.root.encode() in piece]
    assert len(of_hints) == 1
    assert task_topic(task.id).encode() in of_hints[0]
    assert EVENTS_TOPIC.encode() in of_hints[0]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
async def test_a_hint_that_no_message_can_hold_is_left_out_alone(
    store: NatsStore, others: list[NatsStore], place: int
) -> None:
    context, other = context_of(store), others[0]
    topics = [EVENTS_TOPIC, "ready:mail"]
    listeners = [other.listen([topic]) for topic in topics]
    await other._hints.settled()
    hinted = list(topics)
    hinted.insert(place, task_topic("t" * context.js.most_bytes))
    context.hint(hinted)
    assert await asyncio.gather(*(listener.wait(5) for listener in listeners)) == [True, True]
    for listener in listeners:
        listener.close()
