"""Maps errors of SQLite to store errors: wait, or do something about it."""

import sqlite3
from pathlib import Path

from andon.model.errors import StoreError, StoreIncompatible, StoreUnavailable
from andon.stores.sqlite.holders import writer_of

_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_CANTOPEN,
    }
)


def is_passing(error: sqlite3.Error) -> bool:
    """Whether the same statement may succeed later (locked, full, I/O), by its primary code."""
    return _code(error) in _PASSING


def translated(error: sqlite3.Error, path: str) -> StoreError:
    """The store error to raise, with what to do about it."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return StoreUnavailable(f"The disk that holds {path} is full; free some space.")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreIncompatible(f"{path} is not a SQLite database. Name another file.")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreIncompatible(
            f"{path} is damaged ({error}). Recover it with `sqlite3 {path} .recover`, "
            "or restore a backup."
        )
    if code == sqlite3.SQLITE_READONLY:
        return StoreUnavailable(f"{path} is read-only; make it and its folder writable.")
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable(f"{path} cannot be opened; does its folder exist and is it yours?")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        holder = writer_of(Path(path))
        if holder is None:
            return StoreUnavailable(f"{path} stays locked by another program; close that one.")
        todo = f"kill -CONT {holder.pid}, or end it" if holder.is_stopped else "close that one"
        return StoreUnavailable(f"{path} stays locked by another program, {holder}; {todo}.")
    return StoreUnavailable(f"{path}: {error}")


def _code(error: sqlite3.Error) -> int:
    # Extended codes keep the primary one in their low byte; errors that the module itself raises
    # carry none.
    extended: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if extended is None else extended & 0xFF
