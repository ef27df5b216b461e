"""Claims that stand on Redis: what is left in its keys, and who counts as gone."""

import asyncio
from typing import Any

import pytest
from conformance.kit import Kit
from conformance.test_parked_claims import Stander, StillTime, begin, nobody_repeats
from servers.redis import RedisServer, until

from andon.engine.local import LocalEngine
from andon.lifecycle.backoff import ExponentialBackoff
from andon.model.words import State
from andon.stores.redis import network
from andon.stores.redis.store import RedisStore

from .conftest import OpenKit
from .test_plain import dump


async def test_a_task_handed_over_leaves_what_a_task_created_and_claimed_leaves(
    shared: RedisServer,
) -> None:
    found: list[dict[str, Any]] = []
    for namespace in ("handed-over", "claimed"):
        kit = Kit(StillTime(shared.url(namespace), RedisStore))
        await kit.open()
        try:
            stander = await begin(kit)
            for policy in ({}, {"timeout": 9.0}):
                request = stander.request()
                if namespace == "handed-over":
                    assert await kit.store.claim(request) == []
                await kit.submit(policy=policy)
                if namespace == "handed-over":
                    await stander.handed()
                else:
                    assert len(await kit.store.claim(request)) == 1
        finally:
            await kit.close()
        found.append(dump(shared, namespace))
    handed, claimed = found
    assert "state:default|active" in handed
    assert handed == claimed


async def test_a_worker_whose_process_is_gone_gets_nothing(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("gone"))
    other = await kit.again()
    assert isinstance(other, RedisStore)
    stander = Stander(kit, other, "stander")
    await stander.begin("default")
    await stander.stand()
    await other.close()
    until(lambda: not shared.ask("PUBSUB", "CHANNELS", "gone:hints:handed-*"), "still subscribed")
    task = await kit.submit()
    assert await kit.state(task.id) is State.PENDING


async def test_a_claim_that_nobody_repeats_falls(shared: RedisServer) -> None:
    await nobody_repeats(StillTime(shared.url("falls"), RedisStore))


async def test_claims_stand_only_where_one_server_holds_everything(
    shared: RedisServer, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("apart") + "&partitions=2")
    assert isinstance(kit.store, RedisStore)
    assert not kit.store.parks_claims
    assert not LocalEngine(kit.store).parks_claims
    alone = await open_kit(shared.url("alone"))
    assert LocalEngine(alone.store).parks_claims


async def test_a_standing_claim_survives_a_reply_that_is_lost(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = await open_kit(shared.url("reply-lost"))
    stander = await begin(kit)
    monkeypatch.setattr(network, "BACKOFF", ExponentialBackoff(0.001, 1.0))
    request = stander.request()
    claims = asyncio.ensure_future(stander.store.claim(request))
    await asyncio.sleep(0)
    shared.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    assert await claims == []
    task = await kit.submit()
    assert (await stander.handed()).id == task.id
