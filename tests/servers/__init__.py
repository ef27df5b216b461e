"""Real store servers for the tests, from wheels: started on free loopback ports when the first
test asks, one of each kind per test process, and always stopped.

Each kind has a module here with a class that fulfils `Server`. `Servers` hands out URLs, each in
a namespace of its own, so that tests never see each other's tasks.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from andon.contract.store import Store
from andon.stores.registry import open_store

KINDS = {
    "redis": "servers.redis:RedisServer",
    "redis-cluster": "servers.redis:RedisCluster",
    "postgres": "servers.postgres:PostgresServer",
    "nats": "servers.nats:NatsServer",
}
"""Kind of store to the class that runs its server; each takes the folder it may fill."""

IN_VIRTUAL_TIME = frozenset({"memory", "sqlite", "redis", "postgres"})
"""Kinds of store that take a `clock`, which gives ms UTC, in place of their own."""


def may_repeat(url: str) -> bool:
    """Whether a reader of that store's event log who is catching up may get an event twice: NATS
    keeps a task's newest message only, and its moves in there."""
    return url.startswith("nats://")


def keeps_moves_in_the_record(url: str) -> bool:
    """Whether a record that is damaged takes its newest moves out of the event log with it."""
    return url.startswith("nats://")


class Server(Protocol):
    """One server process with its data in one folder."""

    @property
    def pid(self) -> int:
        """Its process, for signals."""
        ...

    def start(self) -> None:
        """Start, or start again on the same data and port; returns when it answers."""
        ...

    def stop(self) -> None:
        """End it and wait for that; harmless when it has ended. Keeps the data."""
        ...

    def kill(self) -> None:
        """End it at once, as a crash does; `start` then finds what its durability promises."""
        ...

    def pause(self) -> None:
        """Have it fall silent, its connections open."""
        ...

    def resume(self) -> None:
        """Let it go on after `pause`; harmless if it does."""
        ...

    def url(self, namespace: str) -> str:
        """The store's URL for a namespace ([a-z][a-z0-9_]*)."""
        ...


_UNHURT: dict[str, dict[str, Any]] = {"postgres": {"fsync": False}}
"""Options of a server that nobody kills: it need not wait for the disk."""


def make(kind: str, folder: Path, **options: Any) -> Server:
    """A server of that kind, not started."""
    module, _, name = KINDS[kind].partition(":")
    return cast("Server", getattr(import_module(module), name)(folder, **options))


def on_clock(url: str, clock: Callable[[], int]) -> Store:
    """The store of that URL, not open, in virtual time."""
    made: Any = type(open_store(url))
    return cast("Store", made(url, clock=clock))


class Servers:
    """The servers of one test process, each started when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Server] = {}
        self._count = itertools.count()
        self._recycled: Any = None

    def running(self, kind: str) -> Server:
        """The server of that kind, which tests share: do not hurt it; `make` one for that."""
        if kind not in self._running:
            folder = self._folder / kind
            folder.mkdir(parents=True)
            server = make(kind, folder, **_UNHURT.get(kind, {}))
            server.start()
            self._running[kind] = server
        return self._running[kind]

    def fresh_url(self, kind: str, folder: Path) -> str:
        """A URL of that kind on which nothing was stored; embedded stores live in `folder`."""
        if kind == "memory":
            return "memory://"
        if kind == "sqlite":
            return f"sqlite:///{folder / 'andon.db'}"
        return self.running(kind).url(self._new_name())

    @contextmanager
    def empty_url(self, kind: str, folder: Path, options: str = "") -> Iterator[str]:
        """A URL of that kind on which nothing is stored, with options for what is made there
        (`partitions=4`). Perhaps another test had it: for who closes in time what he opens on it,
        and does not ask how a store is made."""
        if kind != "postgres":
            url = self.fresh_url(kind, folder)
            yield f"{url}{'&' if '?' in url else '?'}{options}" if options else url
            return
        if self._recycled is None:
            server: Any = self.running(kind)
            recycled = import_module("servers.recycled")
            self._recycled = recycled.Recycled(server.dsn, server.url, self._new_name)
        with self._recycled.url(options and f"&{options}") as url:
            yield url

    def _new_name(self) -> str:
        return f"t{os.getpid()}_{next(self._count)}"

    def close(self) -> None:
        """Stop every server."""
        if self._recycled is not None:
            self._recycled.close()
        for server in self._running.values():
            server.stop()
        self._running.clear()
