"""What it costs to tell the dependents of one task: as much as they are, not as all of them."""

from typing import Any

import pytest
from conformance.kit import Kit

from andon.contract.edges import Link, Settlement
from andon.lifecycle.commands import Complete
from andon.stores.nats.jetstream import JetStream


async def test_settling_some_edges_reads_nothing_of_the_others(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await kit.active()
    children = await kit.submit_many(150, dependencies=(parent.id,))
    assert await kit.store.link([Link(child.id, (parent.id,)) for child in children]) == []
    await kit.moved(parent, Complete())
    read: list[int] = []
    real = JetStream.read

    async def counted(js: JetStream, stream: str, request: dict[str, Any]) -> Any:
        found, end = await real(js, stream, request)
        read.append(len(found))
        return found, end

    monkeypatch.setattr(JetStream, "read", counted)
    told = [Settlement(child.id, parent.id, True) for child in children[:20]]
    assert await kit.store.settle(told) == [0] * 20
    assert sum(read) <= 3 * 20  # an edge and a record of each, and the parent
    assert len(read) <= 6


async def test_linking_children_together_takes_few_requests(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = await kit.active()
    children = await kit.submit_many(100, dependencies=(parent.id,))
    requests: list[str] = []
    real = JetStream.read

    async def counted(js: JetStream, stream: str, request: dict[str, Any]) -> Any:
        requests.append(stream)
        return await real(js, stream, request)

    monkeypatch.setattr(JetStream, "read", counted)
    assert await kit.store.link([Link(child.id, (parent.id,)) for child in children]) == []
    assert len(requests) <= 6
