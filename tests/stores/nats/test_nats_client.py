"""What the store needs of nats-py is there, and means what it meant.

When one of these fails after an upgrade, look at `src/andon/stores/nats/nats_client.py`: it is the
only file that uses private names of nats-py. Mend it, then let the new version in, in
`pyproject.toml`.
"""

import asyncio
import inspect
import logging
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from servers.nats import NatsServer
from servers.tls import Certificate

from andon.lifecycle.admission import admit
from andon.model.task import Definition
from andon.stores.nats import NatsStore, nats_client
from andon.stores.nats.nats_client import PRIVATE_NAMES, NatsClient, Reply

PATIENCE_S = 60.0
PROJECT = Path(__file__).parents[3] / "pyproject.toml"
SOURCE = Path(nats_client.__file__).parent
OURS = {"_socket", "_handlers", "_sids", "_flushes", "_send", "_flushed"}


@pytest.fixture
def client(server: NatsServer, runner: asyncio.Runner) -> Iterator[NatsClient]:
    client = NatsClient()
    runner.run(connect(client, server))
    yield client
    runner.run(client.disconnect())


async def connect(client: NatsClient, server: NatsServer, **options: Any) -> None:
    await client.connect([f"nats://127.0.0.1:{server.port}"], allow_reconnect=False, **options)


def private_names() -> set[str]:
    """Of nats-py's client."""
    own = {*vars(Client()), *dir(Client)}
    return {name for name in own if re.fullmatch(r"_[a-z]\w*", name)}


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_every_private_name_that_is_used_is_there(name: str) -> None:
    assert name in private_names(), (
        f"nats-py {version('nats-py')} has no Client.{name} any more, by which "
        f"{PRIVATE_NAMES[name]}. {__doc__}"
    )


def test_messages_come_in_by_the_method_that_is_overridden() -> None:
    taken = list(inspect.signature(Client._process_msg).parameters)
    assert taken == ["self", "sid", "subject", "reply", "data", "headers"], __doc__
    assert inspect.iscoroutinefunction(Client._process_msg), __doc__


def test_no_other_private_name_of_the_library_is_used() -> None:
    names = private_names() - OURS
    used = set(re.findall(r"\._\w+", Path(nats_client.__file__).read_text()))
    assert {name[1:] for name in used} & names == set(PRIVATE_NAMES)
    for path in SOURCE.glob("*.py"):
        if path.name == "nats_client.py":
            continue
        found = re.findall(r"(?:nc|client)\.(_[a-z]\w*)", path.read_text())
        assert not found, f"{path.name} uses {found}"


def test_only_versions_that_were_looked_at_are_let_in() -> None:
    (wanted,) = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]["nats"]
    assert "<" in wanted, wanted


async def test_a_connection_goes_through_our_socket(client: NatsClient) -> None:
    assert client._socket._writer is not None, __doc__
    assert client.is_connected
    assert not client.is_deaf


async def test_a_connection_lost_with_something_unsent_says_that_it_has_closed(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    closed = asyncio.Event()

    async def ended() -> None:
        closed.set()

    async def ignored(_error: Exception) -> None: ...

    client = NatsClient()
    await connect(client, server, error_cb=ignored, closed_cb=ended)
    await client.publish("somewhere", b"")  # which the library sends in its next turn
    client._socket.close()
    async with asyncio.timeout(PATIENCE_S):
        await closed.wait()
    await client.disconnect()
    assert not caplog.records


async def test_what_is_sent_as_one_piece_comes_in_order_with_its_headers(
    client: NatsClient,
) -> None:
    found: asyncio.Queue[tuple[bytes, Reply]] = asyncio.Queue()
    inbox = client.new_inbox()
    client.receive(f"{inbox}.*", lambda subject, reply: found.put_nowait((subject, reply)))
    client.send(
        (f"{inbox}.{i}", "", b"%d" % i, {"Name": f"v{i}", "Longer-Name": "x"} if i % 2 else None)
        for i in range(100)
    )
    async with asyncio.timeout(PATIENCE_S):
        answers = [await found.get() for _ in range(100)]
    assert [int(subject.rpartition(b".")[2]) for subject, _ in answers] == list(range(100))
    assert [reply.data for _, reply in answers] == [b"%d" % i for i in range(100)]
    values = [reply.header(b"Name") for _, reply in answers]
    assert values == [f"v{i}" if i % 2 else "" for i in range(100)]
    assert {reply.status for _, reply in answers} == {""}


async def test_what_the_server_itself_says_has_a_status(client: NatsClient) -> None:
    found: asyncio.Queue[Reply] = asyncio.Queue()
    inbox = client.new_inbox()
    client.receive(inbox, lambda _subject, reply: found.put_nowait(reply))
    client.send([("nobody.listens", inbox, b"", None)])
    async with asyncio.timeout(PATIENCE_S):
        reply = await found.get()
    assert (reply.status, reply.data) == ("503", b"")


async def test_a_handler_that_fails_loses_its_message_alone(
    client: NatsClient, caplog: pytest.LogCaptureFixture
) -> None:
    found: asyncio.Queue[bytes] = asyncio.Queue()

    def handler(_subject: bytes, reply: Reply) -> None:
        found.put_nowait(b"%d" % (1 // int(reply.data)))

    client.receive("numbers", handler)
    client.send(("numbers", "", data, None) for data in (b"1", b"0", b"1"))
    async with asyncio.timeout(PATIENCE_S):
        assert [await found.get(), await found.get()] == [b"1", b"1"]
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert not client.is_deaf


async def test_what_was_ended_is_received_no_longer(client: NatsClient) -> None:
    found: asyncio.Queue[bytes] = asyncio.Queue()
    number = client.receive("first", lambda subject, _: found.put_nowait(subject))
    client.receive("second", lambda subject, _: found.put_nowait(subject))
    client.end_receiving(number)
    client.end_receiving(number)
    client.send([("first", "", b"", None), ("second", "", b"", None)])
    async with asyncio.timeout(PATIENCE_S):
        assert await found.get() == b"second"


async def test_a_server_that_is_frozen_is_waited_for_briefly_and_heard_again(
    server: NatsServer, client: NatsClient
) -> None:
    found: asyncio.Queue[bytes] = asyncio.Queue()
    client.receive("late", lambda subject, _: found.put_nowait(subject))
    server.pause()
    try:
        await client.settle()
    finally:
        server.resume()
    client.send([("late", "", b"", None)])
    async with asyncio.timeout(PATIENCE_S):
        assert await found.get() == b"late"


def test_a_store_is_used_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = Certificate(tmp_path)
    files = f'cert_file: "{certificate.file}", key_file: "{certificate.key_file}"'
    server = NatsServer(tmp_path / "nats", extra=f"tls {{ {files} }}")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))

    async def course(port: int) -> None:
        store = NatsStore(f"tls://127.0.0.1:{port}?namespace=tls")
        await store.open()
        large = b'["' + b"x" * 300_000 + b'"]'
        tasks = [
            admit(Definition(id=f"t{n}", name="job", args=large), store.now(), f"w{n}")
            for n in range(5)
        ]
        await store.create(tasks)
        found = await store.get([task.id for task in tasks])
        assert [task.definition.args for task in found if task is not None] == [large] * 5
        await store.close()

    server.start()
    try:
        asyncio.run(course(server.port))
    finally:
        server.stop()
