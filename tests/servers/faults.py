"""Answers lost on their way to an open store, one at a chosen place: the request was carried out,
and who asked is told that the store is not available.

Every kind of store asks its server, or its file, in one or two ways; those are what is spoilt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any
from unittest.mock import patch

from andon.model.errors import StoreUnavailable

_ASKING: dict[str, tuple[tuple[str, str, str], ...]] = {
    "sqlite": (("andon.stores.sqlite.threads", "OperationThread", "do"),),
    "redis": (("andon.stores.redis.network", "Network", "ask"),),
    "postgres": (
        ("andon.stores.postgres.connections", "Connections", "once"),
        ("andon.stores.postgres.connections", "Connections", "do"),
        ("andon.stores.postgres.connections", "Connections", "do_here"),
    ),
    "nats": (
        ("andon.stores.nats.jetstream", "JetStream", "read"),
        ("andon.stores.nats.jetstream", "JetStream", "read_each"),
        ("andon.stores.nats.jetstream", "JetStream", "api"),
        ("andon.stores.nats.jetstream", "JetStream", "write"),
        ("andon.stores.nats.jetstream", "JetStream", "write_batch"),
    ),
}

_PAGES: dict[str, tuple[tuple[str, str, int], ...]] = {
    "nats": (
        ("andon.stores.nats.index", "_PAGE", 7),
        ("andon.stores.nats.event_log", "_PAGE", 7),
        ("andon.stores.nats.event_log", "_NEAR", 5),
        ("andon.stores.nats.dead_letter_index", "_PAGE", 7),
        ("andon.stores.nats.changes", "_FEW", 3),
        ("andon.stores.nats.record_cache", "_CHUNK", 7),
    ),
}
"""What a store reads at once where one call reads several pages: less, so that a test need not
write thousands of records."""


class Fault:
    """One lost answer, and what who asked has instead."""

    def __init__(self, at: int, instead: BaseException) -> None:
        self._left = at
        self._instead = instead
        self.happened = False

    def spoil(self, plain: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """The same, but for the answer that is lost."""

        @wraps(plain)
        async def spoilt(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            mine = self._left == 0
            answer = await plain(*arguments, **named)
            if mine:
                self.happened = True
                raise self._instead
            return answer

        return spoilt


@contextmanager
def fault(kind: str, at: int, *, cancels: bool = False) -> Iterator[Fault]:
    """The `at`th answer from now on is lost, counting from 1, whichever store of the kind asks.

    `cancels`: because the call is cancelled while it waits for that answer.
    """
    lost = StoreUnavailable("The answer was lost on its way.")
    one = Fault(at, asyncio.CancelledError() if cancels else lost)
    patches = []
    for module, name, method in _ASKING[kind]:
        owner = getattr(import_module(module), name)
        patches.append(patch.object(owner, method, one.spoil(getattr(owner, method))))
    for each in patches:
        each.start()
    try:
        yield one
    finally:
        for each in patches:
            each.stop()


@contextmanager
def small_pages(kind: str) -> Iterator[None]:
    """Calls that read several pages read smaller ones."""
    patches = [
        patch.object(import_module(module), name, value)
        for module, name, value in _PAGES.get(kind, ())
    ]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
