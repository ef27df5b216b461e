"""No socket outlives what it was for, however that ended."""

import asyncio
from typing import Any

import pytest
from servers.redis import RedisServer

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.stores.redis import network, renewing
from andon.stores.redis.clock import RedisClock
from andon.stores.redis.connection import Connection
from andon.stores.redis.location import parse
from andon.stores.redis.renewing import Renewer

from .conftest import OpenKit

RENEWALS = [Renewal(task="t", run="r", lease_ms=1_000)]


async def test_connections_of_renewals_are_closed_with_the_store(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Connection] = []
    connect = network.connect

    async def noted(*arguments: Any, **options: Any) -> Connection:
        made.append(await connect(*arguments, **options))
        return made[-1]

    kit = await open_kit(shared.url("sockets"))
    await kit.active()
    monkeypatch.setattr(network, "connect", noted)
    for _ in range(2):
        assert await asyncio.to_thread(kit.store.renew_blocking, RENEWALS) == [Verdict.LOST]
    assert [connection.alive for connection in made] == [True]
    await kit.store.close()
    assert [connection.alive for connection in made] == [False]


async def test_a_renewal_that_hangs_is_given_up_and_the_next_one_connects_anew(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch, open_kit: OpenKit
) -> None:
    kit = await open_kit(shared.url("hangs"))
    await kit.active()
    monkeypatch.setattr(renewing, "ANSWERED_WITHIN_S", 0.3)
    with monkeypatch.context() as hanging:
        hanging.setattr(Connection, "send", lambda *_, **__: asyncio.Future())
        with pytest.raises(StoreUnavailable, match="no answer within 0"):
            await asyncio.to_thread(kit.store.renew_blocking, RENEWALS)
    monkeypatch.undo()
    assert await asyncio.to_thread(kit.store.renew_blocking, RENEWALS) == [Verdict.LOST]


def test_a_renewal_after_the_end_says_that_the_store_is_closed(shared: RedisServer) -> None:
    renewer = Renewer(parse(shared.url("sockets")), RedisClock())
    renewer.close()
    with pytest.raises(StoreUnavailable, match="is closed"):
        renewer.renew(0, RENEWALS)


def test_no_socket_is_made_for_authorities_that_cannot_be_read(
    shared: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", lambda *_, **__: made.append(1))
    url = f"rediss://127.0.0.1:{shared.port}/0?ca=/nowhere/ca.pem"
    renewer = Renewer(parse(url), RedisClock())
    try:
        with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem"):
            renewer.renew(0, RENEWALS)
    finally:
        renewer.close()
    assert made == []
