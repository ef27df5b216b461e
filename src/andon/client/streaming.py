"""Submits a stream: draws drafts while the store writes those drawn before them."""

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from functools import partial
from itertools import islice
from typing import Any

from andon.client.bridge import in_calling_thread
from andon.client.drafts import Draft, check_draft
from andon.engine.base import Submitted

SLICE = 200
"""Drafts that are drawn at once: less than half a millisecond, in which nothing else gets its
turn."""

_MOST_IN_FLIGHT = 2
"""Batches under way while another is drawn. More are faster by a few per cent if no worker runs the
tasks, and slow workers down (docs/decisions/streams.md)."""

Drafts = Sequence[Draft[Any]]
Send = Callable[[Drafts], Awaitable[list[Submitted]]]
Size = Callable[[], Awaitable[int]]
"""How many drafts are best sent at once."""


async def streamed(
    send: Send, size: Size, drafts: Iterable[Draft[Any]] | AsyncIterable[Draft[Any]]
) -> AsyncGenerator[list[Submitted]]:
    """How each ended, batch by batch; see `Andon.submit_stream`."""
    slices = _slices(drafts)
    writing: deque[asyncio.Future[list[Submitted]]] = deque()
    failed: Exception | None = None
    most_sent = await size()
    is_last = False
    try:
        while not is_last:
            some: list[Draft[Any]] = []
            while len(some) < most_sent and not is_last:
                try:
                    drawn = await anext(slices, None)
                except Exception as error:  # raised after all outcomes before it
                    failed, drawn = error, None
                some += drawn or ()
                is_last = drawn is None
                if all(sent.done() for sent in writing):
                    break  # the store has nothing to do
                await asyncio.sleep(0)
            if not some:
                break
            most = 0 if _needs_those_before(some) else _MOST_IN_FLIGHT - 1
            while len(writing) > most:
                yield await writing.popleft()
            writing.append(asyncio.ensure_future(send(some)))
            await asyncio.sleep(0)  # it is on its way to the store now
        while writing:
            yield await writing.popleft()
        if failed is not None:
            raise failed
    finally:
        # One failed, or the caller was cancelled: what was handed over is written all the same.
        await asyncio.gather(*writing, return_exceptions=True)
        await slices.aclose()


def _needs_those_before(some: Drafts) -> bool:
    """Whether one may depend on what came before, or goes with it in a user's transaction."""
    return any(draft.submission.dependencies or draft.connection is not None for draft in some)


async def _slices(
    drafts: Iterable[Draft[Any]] | AsyncIterable[Draft[Any]],
) -> AsyncGenerator[list[Draft[Any]]]:
    """The drafts, `SLICE` at a time; before an error of the iterable, those it gave before."""
    if isinstance(drafts, AsyncIterable):
        source = aiter(drafts)
        draw = partial(_drawn_async, source)
    else:
        # In the caller's thread: a cursor or a session may be used in its own thread only.
        draw = partial(in_calling_thread, partial(_drawn, iter(drafts)))
    failed: Exception | None = None
    while failed is None:
        some, failed = await draw()
        if some:
            yield some
        elif failed is None:
            return
    raise failed


def _drawn(source: Iterator[Draft[Any]]) -> tuple[list[Draft[Any]], Exception | None]:
    some: list[Draft[Any]] = []
    try:
        for draft in islice(source, SLICE):
            check_draft(draft)
            some.append(draft)  # what came before an error is kept
    except Exception as error:
        return some, error
    return some, None


async def _drawn_async(
    source: AsyncIterator[Draft[Any]],
) -> tuple[list[Draft[Any]], Exception | None]:
    some: list[Draft[Any]] = []
    try:
        while len(some) < SLICE:
            draft = await anext(source)
            check_draft(draft)
            some.append(draft)
    except StopAsyncIteration:
        return some, None
    except Exception as error:
        return some, error
    return some, None
