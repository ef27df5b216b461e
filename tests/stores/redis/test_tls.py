"""TLS: what is asked, what is refused, and who is trusted. The server is behind a way in that
speaks it, with a certificate made here."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.redis import RedisServer
from servers.tls import Certificate, Encrypting

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.contract.topics import ready_topic
from andon.lifecycle.commands import Complete
from andon.model.errors import ConfigurationError, StoreUnavailable
from andon.stores.redis import network

from .conftest import OpenKit


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


@pytest.fixture
def entrance(shared: RedisServer, certificate: Certificate) -> Iterator[Encrypting]:
    with Encrypting(shared.port, certificate) as entrance:
        yield entrance


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
async def test_a_task_lives_its_life_over_tls(
    scheme: str, entrance: Encrypting, certificate: Certificate, open_kit: OpenKit
) -> None:
    kit = await open_kit(
        f"{scheme}://127.0.0.1:{entrance.port}/0?namespace={scheme}&ca={certificate.file}"
    )
    with kit.store.listen([ready_topic("default")]) as listener:
        assert await kit.claim() == []
        await kit.submit()
        assert await listener.wait(10)
    (task,) = await kit.claim()
    renewal = Renewal(task=task.id, run=task.status.run, lease_ms=30_000)
    assert await asyncio.to_thread(kit.store.renew_blocking, [renewal]) == [Verdict.OK]
    assert await kit.move(task, Complete()) is not None


async def test_a_server_that_nobody_vouches_for_is_refused_at_once(
    entrance: Encrypting, open_kit: OpenKit
) -> None:
    with pytest.raises(ConfigurationError, match=r"certificate.*\?ca="):
        await open_kit(f"rediss://127.0.0.1:{entrance.port}/0?namespace=t")


async def test_a_certificate_for_another_host_is_refused_at_once(
    entrance: Encrypting, certificate: Certificate, open_kit: OpenKit
) -> None:
    with pytest.raises(ConfigurationError, match="certificate"):
        await open_kit(f"rediss://localhost:{entrance.port}/0?namespace=t&ca={certificate.file}")


async def test_a_file_of_authorities_that_is_not_there_is_named(open_kit: OpenKit) -> None:
    with pytest.raises(ConfigurationError, match=r"/nowhere/ca\.pem"):
        await open_kit("rediss://127.0.0.1:1/0?namespace=t&ca=/nowhere/ca.pem")


async def test_tls_towards_a_server_without_it_is_an_error_that_says_so(
    shared: RedisServer, open_kit: OpenKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE_S", 0.2)
    with pytest.raises(StoreUnavailable, match="TLS"):
        await open_kit(f"rediss://127.0.0.1:{shared.port}/0?namespace=t")
