"""The private names of nats-py that the store uses are there, and mean what they meant.

When one of these fails after an upgrade, look at `src/andon/stores/nats/nats_client.py`: it is the
only file that uses them. Mend it, then let the new version in, in `pyproject.toml`.
"""

import asyncio
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from servers.nats import NatsServer

from andon.stores.nats import nats_client
from andon.stores.nats.nats_client import (
    OF_CLIENT,
    OF_SUBSCRIPTION,
    OF_TRANSPORT,
    NatsClient,
    Reply,
)

PATIENCE_S = 60.0
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
SOURCE = Path(nats_client.__file__).parent


@pytest.fixture
def client(server: NatsServer, runner: asyncio.Runner) -> Iterator[Any]:
    client = NatsClient()
    url = f"nats://127.0.0.1:{server.port}"
    runner.run(client.connect([url], allow_reconnect=False))
    yield client
    runner.run(client.let_go())


async def test_a_connection_has_every_private_name_that_is_used(client: Any) -> None:
    subscription = await client.follow("somewhere", _ignored)
    objects = [
        (client, OF_CLIENT),
        (subscription, OF_SUBSCRIPTION),
        (client._transport, OF_TRANSPORT),
    ]
    missing = [
        f"{type(thing).__name__}.{name}"
        for thing, names in objects
        for name in names
        if not hasattr(thing, name)
    ]
    assert not missing, f"nats-py {version('nats-py')} lacks {', '.join(missing)}: {__doc__}"


def test_messages_come_in_by_the_method_that_is_overridden() -> None:
    taken = list(inspect.signature(Client._process_msg).parameters)
    assert taken == ["self", "sid", "subject", "reply", "data", "headers"], __doc__
    assert inspect.iscoroutinefunction(Client._process_msg), __doc__


def test_no_other_file_uses_a_private_name_of_the_library() -> None:
    names = {*OF_CLIENT, *OF_SUBSCRIPTION, *OF_TRANSPORT} - {"_id"}
    for path in SOURCE.glob("*.py"):
        used = {name for name in names if re.search(rf"\.{name}\b", path.read_text())}
        assert not used or path.name == "nats_client.py", (path.name, used)


def test_only_versions_that_were_looked_at_are_let_in() -> None:
    (wanted,) = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["nats"]
    assert "<" in wanted, wanted


async def test_a_connection_lost_with_something_unsent_says_that_it_has_closed(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    closed = asyncio.Event()

    async def ended() -> None:
        closed.set()

    client: Any = NatsClient()
    url = f"nats://127.0.0.1:{server.port}"
    await client.connect([url], allow_reconnect=False, error_cb=_ignored, closed_cb=ended)
    unsent = b"PUB somewhere 0\r\n\r\n"
    client._pending.append(unsent)
    client._pending_data_size += len(unsent)
    client._transport._io_writer.transport.abort()
    async with asyncio.timeout(PATIENCE_S):
        await closed.wait()
    await client.let_go()
    assert not caplog.records


async def test_what_is_sent_as_one_piece_comes_in_order_with_its_headers(client: Any) -> None:
    found: asyncio.Queue[tuple[bytes, Reply]] = asyncio.Queue()
    inbox = client.new_inbox()
    await client.receive(inbox, lambda token, reply: found.put_nowait((token, reply)))
    sent = [
        (f"{inbox}.{i}", "", b"%d" % i, {"Name": f"v{i}", "Longer-Name": "x"} if i % 2 else None)
        for i in range(100)
    ]
    await client.publish_all(sent)
    async with asyncio.timeout(PATIENCE_S):
        answers = [await found.get() for _ in sent]
    assert [int(token) for token, _ in answers] == list(range(100))
    assert [reply.data for _, reply in answers] == [b"%d" % i for i in range(100)]
    values = [reply.header(b"Name") for _, reply in answers]
    assert values == [f"v{i}" if i % 2 else "" for i in range(100)]
    assert {reply.status for _, reply in answers} == {""}


async def test_what_the_server_itself_says_has_a_status(client: Any) -> None:
    found: asyncio.Queue[tuple[bytes, Reply]] = asyncio.Queue()
    inbox = client.new_inbox()
    await client.receive(inbox, lambda token, reply: found.put_nowait((token, reply)))
    await client.publish("nobody.listens", b"", f"{inbox}.1")
    async with asyncio.timeout(PATIENCE_S):
        token, reply = await found.get()
    assert (token, reply.status, reply.data) == (b"1", "503", b"")


async def _ignored(_msg: Any) -> None:
    """Nothing is sent there."""
