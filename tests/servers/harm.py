"""Harm done to stored data behind a store's back, which each kind keeps in its own way."""

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


_DAMAGE: dict[str, Callable[[str, str], Awaitable[None]]] = {"sqlite": _damage_sqlite}
_FORGET: dict[str, Callable[[str], Awaitable[None]]] = {"sqlite": _forget_sqlite}
