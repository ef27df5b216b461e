"""What a NATS store says when it cannot be used: one sentence, and nothing half made."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import nats
import pytest
from servers import Servers
from servers.nats import NatsServer

from andon.model.errors import ConfigurationError, StoreIncompatible, StoreUnavailable
from andon.stores.nats import NatsStore


async def opened(url: str) -> NatsStore:
    store = NatsStore(url)
    await store.open()
    await store.close()
    return store


@pytest.fixture
def address(servers: Servers, tmp_path: Path) -> Callable[[str], str]:
    """A URL on the shared server, with more options."""
    url = servers.fresh_url("nats", tmp_path)
    return lambda options: f"{url}{options}"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nats://h?namespace=Big", "a namespace is 1 to 32"),
        ("nats://h?namespace=a.b", "a namespace is 1 to 32"),
        ("nats://h?namespace=", "a namespace is 1 to 32"),
        ("nats://h?fast=1", "there is no option 'fast'"),
        ("nats://h?storage=tape", "storage is file or memory"),
        ("nats://h?replicas=9", "replicas is a number from 1 to 5"),
        ("nats://", "is not a NATS URL"),
        ("nats://h/path", "is not a NATS URL"),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        NatsStore(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(ConfigurationError) as caught:
        NatsStore("nats://me:secret@h?fast=1")
    assert "secret" not in str(caught.value)


def test_no_server_is_told_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("andon.stores.nats.jetstream.PATIENCE_S", 1.0)
    with pytest.raises(StoreUnavailable, match="No NATS server answers at nats://127"):
        asyncio.run(opened("nats://127.0.0.1:1"))


def test_jetstream_that_is_off_is_told(tmp_path: Path) -> None:
    server = NatsServer(tmp_path, jetstream=False)
    server.start()
    try:
        with pytest.raises(StoreIncompatible, match="JetStream is off"):
            asyncio.run(opened(server.url("x")))
    finally:
        server.stop()


def test_wrong_credentials_are_told_at_once(tmp_path: Path) -> None:
    server = NatsServer(tmp_path, extra="authorization { user: me, password: right }")
    server.start()
    try:
        url = server.url("x").replace("nats://", "nats://me:wrong@")
        with pytest.raises(StoreIncompatible, match="refuses the credentials"):
            asyncio.run(opened(url))
        asyncio.run(opened(url.replace("wrong", "right")))
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def a_server_of(version: str) -> AsyncIterator[str]:
    """Something that greets like a NATS server of that version."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = {"server_id": "x", "version": version, "max_payload": 1 << 20, "headers": True}
        writer.write(f"INFO {json.dumps(greeting)}\r\n".encode())
        while subqueue := await reader.readline():
            if subqueue.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_a_server_that_is_too_old_is_told() -> None:
    async def course() -> None:
        async with a_server_of("2.12.1") as url:
            with pytest.raises(StoreIncompatible, match=r"is 2\.12\.1; Andon needs 2\.12\.2"):
                await opened(url)

    asyncio.run(course())


async def make_stream(url: str, name: str, **config: object) -> None:
    nc = await nats.connect(url.partition("?")[0])
    body = json.dumps({"name": name, **config}).encode()
    answer = await nc.request(f"$JS.API.STREAM.CREATE.{name}", body)
    assert "error" not in json.loads(answer.data)
    await nc.close()


def namespace_of(url: str) -> str:
    return url.partition("namespace=")[2].partition("&")[0]


def test_somebody_elses_stream_of_that_name_is_left_alone(address: Callable[[str], str]) -> None:
    url = address("")
    name = f"ANDON_{namespace_of(url)}_0"
    asyncio.run(make_stream(url, name, subjects=[f"{name}.x"]))
    with pytest.raises(StoreIncompatible, match="that Andon did not make"):
        asyncio.run(opened(url))


@pytest.mark.parametrize(("schema", "said"), [("9", "made by a newer Andon"), ("1", "never rel")])
def test_another_schema_is_refused(address: Callable[[str], str], schema: str, said: str) -> None:
    url = address("")
    name = f"ANDON_{namespace_of(url)}_0"
    metadata = {"andon_schema": schema, "andon_min_writer": "1", "andon_partitions": "1"}
    asyncio.run(make_stream(url, name, subjects=[f"{name}.x"], metadata=metadata))
    with pytest.raises(StoreIncompatible, match=said):
        asyncio.run(opened(url))


@pytest.mark.parametrize(
    ("made", "asked", "said"),
    [
        ("&partitions=2", "&partitions=3", "was made with 2 partitions"),
        ("&storage=memory", "&storage=file", "is kept in memory"),
        ("", "&replicas=3", "has 1 replicas, not 3"),
    ],
)
def test_what_was_fixed_when_it_was_made_cannot_be_asked_for_otherwise(
    address: Callable[[str], str], made: str, asked: str, said: str
) -> None:
    asyncio.run(opened(address(made)))
    with pytest.raises(ConfigurationError, match=said):
        asyncio.run(opened(address(asked)))
    assert asyncio.run(opened(address(""))).partitions == (2 if "2" in made else 1)


# --- what it says of itself ---


def test_info_tells_how_often_the_server_flushes(tmp_path: Path) -> None:
    async def told(url: str) -> tuple[str, str]:
        store = NatsStore(url)
        await store.open()
        info = await store.info()
        await store.close()
        return info.settings["sync_interval"], info.durability["power_cut"]

    server = NatsServer(tmp_path / "default")
    server.start()
    try:
        monitor = f"&monitor=http://127.0.0.1:{server.monitor}"
        interval, lost = asyncio.run(told(server.url("x") + monitor))
        assert interval == "120s"
        assert "may be lost" in lost
        interval, lost = asyncio.run(told(server.url("x")))
        assert interval.startswith("not told")
        assert "may be lost" in lost
    finally:
        server.stop()


def test_a_server_that_flushes_always_loses_nothing_in_a_power_cut(tmp_path: Path) -> None:
    server = NatsServer(tmp_path, sync_interval="always")
    server.start()

    async def told() -> None:
        store = NatsStore(f"{server.url('x')}&monitor=http://127.0.0.1:{server.monitor}")
        await store.open()
        info = await store.info()
        await store.close()
        assert info.settings["sync_interval"] == "always"
        assert set(info.durability.values()) == {"everything that was acknowledged"}

    try:
        asyncio.run(told())
    finally:
        server.stop()


def andon(*args: str, url: str) -> str:
    command = [sys.executable, "-m", "andon.cli", *args, "--url", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def test_storage_is_set_up_and_described_as_asked(address: Callable[[str], str]) -> None:
    url = address("")
    made = andon("storage", "init", "--retention", "1h", "--memory", "--replicas", "1", url=url)
    assert "1h" in made
    andon("storage", "configure", "--retention", "5h", url=url)
    told = dict(
        subqueue.split("\t")[:2] for subqueue in andon("storage", "info", url=url).splitlines()
    )
    assert (told["Memory Based"], told["Replicas"], told["Archive Period"]) == ("true", "1", "5h")
    assert "is kept in memory" in andon("storage", "init", url=f"{url}&storage=file")
    assert "power cut" in andon("doctor", url=url)
