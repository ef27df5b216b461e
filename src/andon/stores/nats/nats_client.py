"""What is used of nats-py beyond what it promises, all in this file.

It promises nothing about names that begin with `_`, so its version is pinned to the releases that
`tests/stores/nats/test_library.py` has seen to have them. Three things are done past the library:
many messages are sent as one piece; answers to our own inbox go to who waits for them without a
queue, a task and a dictionary of headers for each, which cost much of the CPU of a drain; and a
connection is closed whatever state it is in, and says so when it is lost.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

_LET_GO_S = 1.0
_FLUSH_S = 2.0

OF_CLIENT = (
    "_flush_pending",
    "_flusher_task",
    "_pending",
    "_pending_data_size",
    "_ping_interval_task",
    "_process_msg",
    "_process_op_err",
    "_reading_task",
    "_send_command",
    "_send_ping",
    "_subs",
    "_transport",
)
OF_SUBSCRIPTION = ("_id", "_wait_for_msgs_task")
OF_TRANSPORT = ("_io_writer",)
"""The private names used, of objects as they are on a connection that is open."""

Outgoing = tuple[str, str, bytes, dict[str, str] | None]
"""Subject, where the answer is to go, payload, headers."""

_STATUS_LINE = b"NATS/1.0 "


class Reply:
    """An answer to our own inbox. Headers are looked for when they are asked for."""

    __slots__ = ("_raw", "data")

    def __init__(self, data: bytes, raw: bytes | None) -> None:
        self.data = data
        self._raw = raw or b""

    @property
    def status(self) -> str:
        """The three digits by which the server says something itself; "" of a message."""
        return self._raw[9:12].decode() if self._raw.startswith(_STATUS_LINE) else ""

    def header(self, name: bytes) -> str:
        """The value of a header, or ""."""
        raw = self._raw
        start = raw.find(b"\r\n" + name + b": ")
        if start < 0:
            return ""
        start += len(name) + 4
        return raw[start : raw.index(b"\r\n", start)].decode()


Answered = Callable[[bytes, Reply], None]
"""Told the last token of the subject, and the answer."""

Take = Callable[[Msg], Awaitable[None]]


class NatsClient(Client):
    """The library's client, with ways past it for what there is much of."""

    def __init__(self) -> None:
        super().__init__()
        self._inboxes: dict[int, Answered] = {}

    async def publish_all(self, messages: Iterable[Outgoing]) -> None:
        """Publish many, in order. Headers are the caller's own: nothing in them is looked at."""
        framed: list[bytes] = []
        for subject, reply, payload, headers in messages:
            if len(payload) > self.max_payload:
                raise nats.errors.MaxPayloadError
            if headers is None:
                framed += (f"PUB {subject} {reply} {len(payload)}\r\n".encode(), payload, b"\r\n")
                continue
            lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
            block = f"NATS/1.0\r\n{lines}\r\n".encode()
            sizes = f"{len(block)} {len(block) + len(payload)}"
            framed += (f"HPUB {subject} {reply} {sizes}\r\n".encode(), block, payload, b"\r\n")
        if not self.is_connected:
            raise nats.errors.ConnectionClosedError
        await self._send_command(b"".join(framed))
        await self._flush_pending()

    async def receive(self, inbox: str, answered: Answered) -> None:
        """Hand over what is sent to any subject of one more token under the inbox."""
        client: Any = self
        subscription = await client.subscribe(f"{inbox}.*", cb=_unheard)
        self._inboxes[subscription._id] = answered

    async def follow(self, subject: str, take: Take) -> Any:
        """Hand over what comes on a subject; nothing is dropped for being slow to take it."""
        client: Any = self  # its own annotations leave something open
        return await client.subscribe(
            subject, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1
        )

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        answered = self._inboxes.get(sid)
        if answered is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            answered(subject[subject.rindex(b".") + 1 :], Reply(data, headers))

    async def _process_op_err(self, e: Exception) -> None:
        """The connection is lost. The library would still send what waits for it, which fails, and
        ends its closing there: an error in the log, and nobody is told that it has closed."""
        client: Any = self
        client._pending = []
        client._pending_data_size = 0
        await super()._process_op_err(e)

    async def ping(self) -> None:
        """Wait until the server has taken what was sent; for two seconds at most."""
        pong = asyncio.get_running_loop().create_future()
        client: Any = self
        await client._send_ping(pong)
        # Not the library's own: it cancels what it waits for when the time is over, and the answer
        # that comes after all, from a server that was frozen, then ends its reading for good.
        await asyncio.wait({pong}, timeout=_FLUSH_S)

    @property
    def is_deaf(self) -> bool:
        """Whether nobody reads what comes on a connection that counts as open."""
        client: Any = self
        return client._reading_task is not None and bool(client._reading_task.done())

    async def let_go(self) -> None:
        """Close a connection whatever state it is in. When the server went away first, the
        library's own closing may end halfway: then its socket and who waits for messages are
        still there."""
        client: Any = self
        waiting = [subscription._wait_for_msgs_task for subscription in client._subs.values()]
        closing = asyncio.ensure_future(self.close())
        # Not by a timeout: in a task that is cancelled, Python 3.11.2 ends one as a cancel.
        await asyncio.wait({closing}, timeout=_LET_GO_S)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        of_library = (client._reading_task, client._flusher_task, client._ping_interval_task)
        left = {task for task in (*waiting, *of_library) if task is not None and not task.done()}
        left.discard(asyncio.current_task())
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LET_GO_S)
        writer = getattr(client._transport, "_io_writer", None)
        if writer is not None:
            with contextlib.suppress(Exception):
                # Aborted: what closes in order waits for a server that takes nothing any more.
                writer.transport.abort()
            # In a task of its own: all who wait for the end of a connection wait for one future,
            # which is cancelled with any of them. The library's tasks above were; we are not to be.
            await asyncio.wait({asyncio.ensure_future(_closed(writer))}, timeout=_LET_GO_S)


async def _unheard(_msg: Msg) -> None:
    """What comes to an inbox before its subscription is known here: nothing was asked yet."""


async def _closed(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(Exception):
        await writer.wait_closed()
