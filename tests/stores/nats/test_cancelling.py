"""Who is cancelled just as his answer comes ends all the same.

Before Python 3.12 `asyncio.wait_for` keeps the answer and forgets the cancelling: a follower of the
log went on for ever then, and closing the engine waited for it as long.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from andon.contract.queries import Query
from andon.stores.nats import NatsStore
from andon.stores.nats.context import StoreContext
from andon.stores.nats.nats_client import Reply

Act = Callable[[StoreContext], Awaitable[object]]


async def ask(context: StoreContext) -> object:
    return await context.js.api(f"STREAM.INFO.{context.records[0].subjects.stream}")


async def read(context: StoreContext) -> object:
    return await context.records[0].last([])


async def write(context: StoreContext) -> object:
    subjects = context.records[0].subjects
    return await context.js.write(subjects.stream, [(subjects.of("c", "tried"), b"1", None)])


@pytest.mark.parametrize("act", [ask, read, write])
async def test_a_caller_cancelled_with_his_answer_is_cancelled(store: NatsStore, act: Act) -> None:
    context = store._context
    assert context is not None
    client = context.js.client
    ((number, answered),) = [(n, h) for n, h in client._handlers.items() if h == context.js._answer]
    came = asyncio.Event()

    async def asking() -> None:
        await act(context)

    task = asyncio.create_task(asking())

    def cancelling(subject: bytes, reply: Reply) -> None:
        answered(subject, reply)
        came.set()
        task.cancel()

    client._handlers[number] = cancelling
    with pytest.raises(asyncio.CancelledError):
        await task
    assert came.is_set()
    client._handlers[number] = answered
    assert (await store.find(Query())).tasks == (), "the store goes on"
