"""Streams that are lost, made again or emptied under a store that is open: it goes on with them."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import nats
import pytest
from conformance.kit import Kit, ids, opened
from servers.nats import NatsServer

from andon.lifecycle.commands import Complete
from andon.model.errors import StoreUnavailable
from andon.model.fleet import QueueConfig
from andon.model.words import State

PATIENCE_S = 60.0

Answer = TypeVar("Answer")


def on(server: NatsServer, options: str = "") -> AbstractAsyncContextManager[Kit]:
    return opened(f"{server.url('anew')}{options}")


async def at_last(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of a store that may still be finding out."""
    patience = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            assert time.monotonic() < patience, "it does not find back"


async def done_by(kit: Kit, submitter: Any) -> str:
    """A task goes through its life, submitted by a store that had no part in mending things."""
    task = kit.record()
    await at_last(lambda: submitter.create([task]))
    run = await at_last(lambda: kit.until(kit.claim))
    assert ids(run) == [task.id]
    assert (await at_last(lambda: kit.moved(run[0], Complete()))).state is State.COMPLETED
    return task.id


async def jetstream(server: NatsServer, act: Callable[[Any], Awaitable[Any]]) -> None:
    client = await nats.connect(f"nats://127.0.0.1:{server.port}")
    try:
        await act(client.jetstream())
    finally:
        await client.close()


async def test_what_was_kept_in_the_memory_of_a_server_is_set_up_again(server: NatsServer) -> None:
    async with on(server, "&storage=memory") as kit:
        other = await kit.again()
        await kit.store.put_queue(
            QueueConfig(name="narrow", max_concurrent=1), expect=QueueConfig(name="narrow")
        )
        await done_by(kit, other)
        before = await kit.store.events_end()
        await asyncio.to_thread(server.kill)
        server.start()
        again = await done_by(kit, other)
        assert [t and t.id for t in await at_last(lambda: other.get([again]))] == [again]
        assert (await at_last(lambda: kit.store.events(before))).gap
        queues = {queue.name: queue for queue in await at_last(other.queues)}
        assert queues["narrow"].max_concurrent == 1


async def test_streams_that_were_emptied_are_used_on(server: NatsServer) -> None:
    async with on(server) as kit:
        gone = await kit.submit()
        await done_by_claiming(kit)
        await jetstream(server, lambda js: js.purge_stream("ANDON_anew_0"))
        await done_by(kit, kit.store)
        assert await at_last(lambda: kit.get(gone.id)) is None
    await jetstream(server, lambda js: js.purge_stream("ANDON_anew_0"))
    async with on(server) as kit:
        await done_by(kit, kit.store)


async def done_by_claiming(kit: Kit) -> None:
    [run] = await kit.claim()
    await kit.moved(run, Complete())


async def test_a_stream_of_files_is_not_made_again_behind_a_restore(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with on(server) as kit:
        await done_by(kit, kit.store)
        await jetstream(server, lambda js: js.delete_stream("ANDON_anew_0"))
        with caplog.at_level(logging.ERROR), pytest.raises(StoreUnavailable):
            await kit.submit()

        async def told() -> bool:
            return "has no stream ANDON_anew_0 any more: restore it" in caplog.text

        await kit.until(told)
        other = await kit.again()  # a process that is started
        await done_by(kit, other)
