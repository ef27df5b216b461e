"""The application that child processes import."""

import asyncio
import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from andon import Andon
from andon.worker.calls import Call
from andon.worker.context import Context, current
from andon.worker.control import Retry, Snooze, Terminate
from andon.worker.registry import Registry, TaskType

registry = Registry()


def task(**settings: Any):
    def add(handler: Any) -> Any:
        name = settings.pop("name", handler.__name__)
        registry.add(
            TaskType(name=name, handler=handler, kind="process", codec=Call(handler), **settings)
        )
        return handler

    return add


@dataclass
class Point:
    x: int


@task()
def where(p: Point) -> list[int]:
    return [p.x, os.getpid()]


def inside() -> int:
    """Needs no child."""
    return os.getpid()


registry.add(TaskType(name="inside", handler=inside, kind="thread", codec=Call(inside)))


@task()
def environment() -> dict[str, str]:
    return dict(os.environ)


elsewhere = Andon("memory://")


@task()
def bears(ctx: Context, how: str) -> str:
    options: Any = {"headers": {"h": "\ud800"}} if how == "cannot be sent" else {}
    [handle] = ctx.follow_up(elsewhere.draft("x", [7], **options))
    if how == "fails":
        raise ValueError(how)
    return handle.id


@task()
def adds(ctx: Context, join: str) -> str:
    [handle] = ctx.follow_up(elsewhere.draft("x", [7]), before=join)
    return handle.id


@task()
def headers(ctx: Context) -> dict[str, str]:
    return dict(ctx.headers)


@task()
async def aside(ctx: Context, n: int) -> str:
    await asyncio.sleep(0)
    assert current() is ctx
    return f"{ctx.task_id} {n} {ctx.run} {sorted(ctx.dependencies)}"


@task()
def dies(how: int) -> None:
    if how == 0:
        os._exit(7)
    os.kill(os.getpid(), how)


@task(no_retry_on_types=(LookupError,))
def raises(what: str) -> None:
    known: dict[str, BaseException] = {
        "key": KeyError("k"),
        "exit": SystemExit(3),
        "snooze": Snooze(120),
        "terminate": Terminate("enough"),
        "terminate in a group": ExceptionGroup("one", [Terminate("enough")]),
        "retry": Retry(3600, "again"),
    }
    raise known[what]


@task()
def speaks(ctx: Context) -> None:
    print("printed", flush=True)
    logging.getLogger("elsewhere").warning("logged %d", 5)
    ctx.log.warning("from the context")
    ctx.progress(30, "a third")


@task()
def waits(ready: str, cleaned: str) -> None:
    Path(ready).write_text(str(os.getpid()))
    try:
        time.sleep(60)
    finally:
        Path(cleaned).write_text("yes")


@task()
async def waits_async(ready: str, cleaned: str) -> None:
    Path(ready).write_text(str(os.getpid()))  # noqa: ASYNC240
    try:
        await asyncio.sleep(60)
    finally:
        Path(cleaned).write_text("yes")  # noqa: ASYNC240


@task()
def deaf(ready: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(ready).write_text(str(os.getpid()))
    time.sleep(60)


@task()
def odd() -> object:
    return object()


@task()
def leaves(ctx: Context, name: str) -> int:
    print("leaving", name)
    return ctx.artifact_blocking(name, b"from a child").size


@task()
async def leaves_file(ctx: Context, path: str) -> str:
    return (await ctx.artifact("copy.txt", Path(path))).sha256


@task()
def leaves_trace(path: str) -> None:
    with Path(path).open("a") as file:
        file.write("x")
