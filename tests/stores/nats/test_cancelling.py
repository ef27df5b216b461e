"""Who is cancelled just as his answer comes ends all the same.

Before Python 3.12 `asyncio.wait_for` keeps the answer and forgets the cancelling: a follower of the
log went on for ever then, and closing the engine waited for it as long.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from andon.contract.queries import Query
from andon.stores.nats import NatsStore
from andon.stores.nats.core import Core
from andon.stores.nats.library import Reply

Act = Callable[[Core], Awaitable[object]]


async def ask(core: Core) -> object:
    return await core.wire.api(f"STREAM.INFO.{core.heads[0].names.stream}")


async def read(core: Core) -> object:
    return await core.heads[0].last([])


async def write(core: Core) -> object:
    names = core.heads[0].names
    return await core.wire.write(names.stream, [(names.of("c", "tried"), b"1", None)])


@pytest.mark.parametrize("act", [ask, read, write])
async def test_a_caller_cancelled_with_his_answer_is_cancelled(store: NatsStore, act: Act) -> None:
    core = store._core
    assert core is not None
    client = core.wire.client
    [(inbox, answered)] = client._inboxes.items()
    came = asyncio.Event()

    async def asking() -> None:
        await act(core)

    task = asyncio.create_task(asking())

    def cancelling(token: bytes, reply: Reply) -> None:
        answered(token, reply)
        came.set()
        task.cancel()

    client._inboxes[inbox] = cancelling
    with pytest.raises(asyncio.CancelledError):
        await task
    assert came.is_set()
    client._inboxes[inbox] = answered
    assert (await store.find(Query())).tasks == (), "the store goes on"
