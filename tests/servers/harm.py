"""Harm done to stored data behind a store's back, which each kind keeps in its own way."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit


async def damage(url: str, task_id: str) -> None:
    """Make the status of one record nonsense, as a bad disk would."""
    await _DAMAGE[urlsplit(url).scheme](url, task_id)


async def forget_deletions(url: str) -> None:
    """Make every deletion so long ago that repeats of its submit are no longer recognised."""
    await _FORGET[urlsplit(url).scheme](url)


async def disconnect(url: str) -> int:
    """Have the server end every connection that others have to it; how many there were."""
    return await _DISCONNECT[urlsplit(url).scheme](url)


def can_disconnect(url: str) -> bool:
    """Whether the kind of server has a command for that."""
    return urlsplit(url).scheme in _DISCONNECT


async def _damage_sqlite(url: str, task_id: str) -> None:
    changed = _on_file(
        url,
        "UPDATE task SET body = CAST(x'c1c1' || substr(body, 3) AS BLOB) "
        "WHERE seq = (SELECT seq FROM definition WHERE id = ?)",
        task_id,
    )
    assert changed == 1


async def _forget_sqlite(url: str) -> None:
    _on_file(url, "DELETE FROM stub")


def _on_file(url: str, statement: str, *arguments: object) -> int:
    """Rows changed."""
    file = url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(file, timeout=10)) as db, db:
        return db.execute(statement, arguments).rowcount


async def _disconnect_redis(url: str) -> int:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    killed = 0
    for kind in ("normal", "pubsub"):
        writer.write(f"CLIENT KILL TYPE {kind} SKIPME yes\r\n".encode())
        reply = await reader.readline()
        assert reply[:1] == b":", reply
        killed += int(reply[1:])
    writer.close()
    await writer.wait_closed()
    return killed


_DAMAGE: dict[str, Callable[[str, str], Awaitable[None]]] = {"sqlite": _damage_sqlite}
_FORGET: dict[str, Callable[[str], Awaitable[None]]] = {"sqlite": _forget_sqlite}
_DISCONNECT: dict[str, Callable[[str], Awaitable[int]]] = {"redis": _disconnect_redis}
