"""The limit on NATS: a bare nats-py client that sends the messages Andon's store sent, in the same
batches, each when the one before is answered whole (`python -m limits.nats URL PLAN`; see life.py).

The records' guards are sequences of the stream. They hold again because the emptied stream is given
the same messages in the same order.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import nats
from nats.aio.msg import Msg

from andon.stores.nats.jetstream import JetStream, Write
from limits import life

Batch = tuple[str, list[Write]]
"""What is waited for ("acks", "end" of a read, "" for hints), and the messages."""

PATIENCE_S = 30.0


@contextmanager
def recording() -> Iterator[list[Batch]]:
    """While it is open, what every connection sends is kept as well as sent."""
    batches: list[Batch] = []
    send, read, hint = JetStream._send, JetStream._read, JetStream.hint

    async def send_kept(
        wire: JetStream, writes: Sequence[Write], which: Sequence[int], deadline: float
    ) -> Any:
        batches.append(("acks", [writes[index] for index in which]))
        return await send(wire, writes, which, deadline)

    async def read_kept(wire: JetStream, subject: str, body: bytes, deadline: float) -> Any:
        batches.append(("end", [(subject, body, None)]))
        return await read(wire, subject, body, deadline)

    async def hint_kept(wire: JetStream, subject: str, payload: bytes) -> None:
        batches.append(("", [(subject, payload, None)]))
        await hint(wire, subject, payload)

    JetStream._send, JetStream._read, JetStream.hint = send_kept, read_kept, hint_kept
    try:
        yield batches
    finally:
        JetStream._send, JetStream._read, JetStream.hint = send, read, hint


async def repeat(url: str, batches: list[Batch]) -> float:
    """Seconds that it takes one connection to send them."""
    client = await nats.connect(url, no_echo=True)
    answered = asyncio.Event()
    waits, left = "", 0

    async def answer(message: Msg) -> None:
        nonlocal left
        if waits == "acks":
            if b'"error"' in message.data:
                raise SystemExit(f"The server refuses a write: {message.data.decode()}")
            left -= 1
        elif message.headers is not None and "Status" in message.headers:
            left -= 1
        if not left:
            answered.set()

    try:
        inbox = client.new_inbox()
        await client.subscribe(inbox, cb=answer)
        await client.flush()
        begun = time.perf_counter()
        for waits, messages in batches:
            left = len(messages)
            answered.clear()
            for subject, payload, headers in messages:
                await client.publish(subject, payload, inbox if waits else "", headers)
            if waits:
                async with asyncio.timeout(PATIENCE_S):
                    await answered.wait()
        await client.flush()
        return time.perf_counter() - begun
    finally:
        await client.close()


if __name__ == "__main__":
    life.main(sys.argv[1], sys.argv[2], recording, repeat)
