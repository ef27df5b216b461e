"""The stores of `board.py`: each filled once, and kept in a folder for the next run on demand."""

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import board_filling
import msgspec
import psutil
import store_servers

from andon.contract.limits import MAX_BATCH, in_batches
from andon.contract.queries import Query
from andon.engine.local import LocalEngine
from andon.engine.opening import open_store
from andon.lifecycle.commands import Delete
from andon.model.words import State

MARK = "filled.json"
_TELL_S = 10.0
_DEEP = 30
_PER_PAGE = 1_000


class Filled(msgspec.Struct):
    """A store that is filled and answers."""

    kind: str
    url: str
    about: str  #: the server, its version and durability, in words
    tasks: int
    seconds: float  #: that filling took, whenever it was done
    processes: tuple[int, ...] = ()  #: of the server; none where the store is a file
    needle: str = ""  #: id of the one failure of its name
    deep: str = ""  #: cursor of a page far from the beginning

    @property
    def server_cpu_s(self) -> float:
        """Processor time that the server has taken so far, its sessions too."""
        return sum(map(cpu_of, self.processes)) if self.processes else 0.0

    @property
    def serving_cpu_s(self) -> float:
        """The same for what the server does when asked: not what it does by itself beside that, as
        a vacuum, a checkpoint or a rewrite of its log, each in a process of its own."""
        if self.kind != "postgres":
            return sum(map(_run_ns, self.processes)) / 1e9
        sessions = (one for pid in self.processes for one in psutil.Process(pid).children())
        return sum(_run_ns(one.pid) for one in sessions if _HAS_CLIENT in one.cmdline()[0]) / 1e9

    def commands(self) -> int | None:
        """Commands that the server has run so far, those within scripts too; None if it does not
        say."""
        return store_servers.commands(self.url) if self.kind == "redis" else None


_HAS_CLIENT = "127.0.0.1("
"""In the title of a session of PostgreSQL: where its client is."""


def cpu_of(pid: int) -> float:
    """Processor time of a process and its children, in seconds; of children that have ended, too.
    (`times` counts in steps of 10 ms, which is more than a page takes.)"""
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        process = psutil.Process(pid)
        alive = sum(map(_run_ns, (one.pid for one in (process, *process.children()))))
        times = process.cpu_times()
        return alive / 1e9 + times.children_user + times.children_system
    return 0.0


def _run_ns(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads)


@contextmanager
def filled(kind: str, tasks: int, keep: Path | None) -> Iterator[Filled]:
    """A store of that kind with so many tasks: the one in the folder `keep`, if it has as many;
    else a new one, which stays there."""
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="andon-board-")))
        else:
            folder = keep.resolve() / kind
            folder.mkdir(parents=True, exist_ok=True)
        mark = folder / MARK
        seconds = _seconds_of(mark, tasks)
        if seconds is None and any(folder.iterdir()):
            sys.exit(
                f"{folder} holds something that is no store filled with {tasks:,} tasks by this "
                "release: remove it, or name another folder."
            )
        processes: tuple[int, ...] = ()
        if kind == "sqlite":
            url, about = f"sqlite:///{folder}/tasks.db", "a file, synchronous=FULL"
        else:
            server = stack.enter_context(store_servers.running(kind, kept=folder / "server"))
            url, about = server.namespace("board"), server.about
            processes = (server.pid,)
        if seconds is None:
            seconds = asyncio.run(_fill(kind, url, tasks))
            store_servers.settle(kind, url)
            mark.write_text(_mark(tasks, seconds))
        needle, deep = asyncio.run(_places(url))
        yield Filled(kind, url, about, tasks, seconds, processes, needle, deep)


def spoil(kind: str, keep: Path) -> None:
    """Have the kept store serve no other run: what follows changes it for good."""
    (keep / kind / MARK).unlink(missing_ok=True)


def _mark(tasks: int, seconds: float) -> str:
    return json.dumps({"version": board_filling.VERSION, "tasks": tasks, "seconds": seconds})


def _seconds_of(mark: Path, tasks: int) -> float | None:
    if not mark.exists():
        return None
    told = json.loads(mark.read_text())
    if (told["version"], told["tasks"]) != (board_filling.VERSION, tasks):
        return None
    return told["seconds"]


async def _fill(kind: str, url: str, tasks: int) -> float:
    begun = last = time.monotonic()

    def told(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TELL_S or done >= tasks:
            last = now
            rate = done / (now - begun)
            print(f"  {kind}: {done:,} of {tasks:,} tasks, {rate:,.0f} a second", file=sys.stderr)

    async with engine(url) as opened:
        opened.keep_time()  # as a worker would: PostgreSQL's counts are folded on the way
        await board_filling.fill(opened, tasks, told)
    return round(time.monotonic() - begun, 1)


async def _places(url: str) -> tuple[str, str]:
    """The failure that is to be found, and the cursor of a page deep in a list."""
    async with engine(url) as opened:
        cursor = ""
        for _ in range(_DEEP):
            query = Query(newest_first=True, limit=_PER_PAGE, cursor=cursor)
            page = await opened.store.find(query)
            if not page.cursor:
                break
            cursor = page.cursor
        return await board_filling.needle(opened), cursor


async def emptied(url: str, queue: str) -> None:
    """Delete the ended tasks of a queue, so that the store has as many as before."""
    async with engine(url) as opened:
        while True:
            query = Query(queue=queue, limit=MAX_BATCH)
            page = await opened.find(query)
            ids = [task.id for task in page.tasks if task.state is not State.ACTIVE]
            if not ids:
                return
            for some in in_batches(ids):
                await opened.act(some, Delete())


class engine:  # noqa: N801 - used as a function
    """An engine over the store, for as long as the block lasts."""

    def __init__(self, url: str) -> None:
        self._engine = LocalEngine(open_store(url))

    async def __aenter__(self) -> LocalEngine:
        await self._engine.open()
        return self._engine

    async def __aexit__(self, *_: object) -> None:
        await self._engine.close()
