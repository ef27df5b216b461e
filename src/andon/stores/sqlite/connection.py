"""Connections: opened the same way everywhere, schema created and migrated under the write lock."""

import sqlite3
from pathlib import Path

from andon.model.errors import ConfigurationError, StoreError, StoreIncompatible
from andon.stores.sqlite.errors import translated
from andon.stores.sqlite.listing import enter_lists
from andon.stores.sqlite.location import Location
from andon.stores.sqlite.lock import WriteLock
from andon.stores.sqlite.statements import CONFIG, indexes, schema

SCHEMA_VERSION = 5
"""The schema this release writes. Kept in the file as `PRAGMA user_version`."""

WRITER_VERSION = 2
"""The version of the rules for writing to the file; a process that has it open checks it whenever
another has written. 2: writers enter tasks in the lists by name."""

_MOVES = {5: enter_lists}
"""The changes to the contents of tables, by version, after its script."""

APPLICATION_ID = 0x414E444F
"""Marks a file as ours ("ANDO"), so that a foreign database is never written to."""

MOST_LOG_BYTES = 64 * 1024 * 1024
"""Bytes that the log may take on the disk, while no reader takes long (`checkpoint`)."""

BUSY_TIMEOUT_S = 10.0
"""How long SQLite itself waits for programs that do not take our side lock, such as a shell."""


def connect(location: Location, *, write: bool) -> sqlite3.Connection:
    """Open one connection. Raises `StoreError`s that say what to do."""
    path = location.path
    if write and not path.parent.is_dir():
        raise ConfigurationError(f"The folder {path.parent} does not exist; create it first.")
    try:
        db = sqlite3.connect(
            path,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_TIMEOUT_S,
            cached_statements=256,
        )
        try:
            _set_up(db, location, write=write)
        except BaseException:
            db.close()
            raise
    except sqlite3.Error as error:
        raise translated(error, str(path)) from error
    return db


def _set_up(db: sqlite3.Connection, location: Location, *, write: bool) -> None:
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute(f"PRAGMA synchronous = {location.synchronous}")
    # A separate thread checkpoints; this is for the case that it could not begin.
    db.execute("PRAGMA wal_autocheckpoint = 8000")
    # A log that grew beyond this, because of a long read, is truncated.
    db.execute(f"PRAGMA journal_size_limit = {MOST_LOG_BYTES}")
    db.execute("PRAGMA secure_delete = OFF")
    db.execute("PRAGMA temp_store = memory")
    if not write:
        db.execute("PRAGMA query_only = ON")


def prepare(db: sqlite3.Connection, location: Location, lock: WriteLock) -> int:
    """Create or migrate the schema; the number of partitions the file has."""
    try:
        return _prepare(db, location, lock)
    except sqlite3.Error as error:
        raise translated(error, str(location.path)) from error


def _prepare(db: sqlite3.Connection, location: Location, lock: WriteLock) -> int:
    _check_ours(db, location.path)
    with lock:
        if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise StoreError(
                    f"{location.path} cannot use write-ahead logging (it stays in {mode} mode); "
                    "put it on a local disk."
                )
        db.execute("BEGIN IMMEDIATE")
        try:
            version: int = db.execute("PRAGMA user_version").fetchone()[0]
            for step in range(version + 1, SCHEMA_VERSION + 1):
                _run_script(db, schema(step))
                if step in _MOVES:
                    _MOVES[step](db)
            _run_script(db, indexes())
            if version < SCHEMA_VERSION:
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                db.execute(CONFIG.put_meta, ("min_writer", WRITER_VERSION))
            if version == 0:
                partitions = location.partitions or 1
                db.execute(CONFIG.put_meta, ("partitions", partitions))
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise
    return _check_settings(db, location)


def _check_ours(db: sqlite3.Connection, path: Path) -> None:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    application: int = db.execute("PRAGMA application_id").fetchone()[0]
    tables: int = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (application or version or tables):
        raise StoreIncompatible(
            f"{path} is a database of another program. Name another file for Andon."
        )
    if version > SCHEMA_VERSION:
        raise StoreIncompatible(
            f"{path} has schema {version}, this release knows up to {SCHEMA_VERSION}. "
            "Upgrade Andon here before using it."
        )


def _check_settings(db: sqlite3.Connection, location: Location) -> int:
    partitions: int = db.execute(CONFIG.meta, ("partitions",)).fetchone()[0]
    if location.partitions not in (None, partitions):
        raise ConfigurationError(
            f"{location.path} has {partitions} partitions, the URL says {location.partitions}. "
            "Partitions are fixed when a store is made."
        )
    min_writer: int = db.execute(CONFIG.meta, ("min_writer",)).fetchone()[0]
    if min_writer > WRITER_VERSION:
        raise StoreIncompatible(
            f"{location.path} holds records of version {min_writer}, this release writes "
            f"{WRITER_VERSION}. Upgrade Andon here before using it."
        )
    return partitions


def _run_script(db: sqlite3.Connection, script: str) -> None:
    # executescript would commit the transaction around it
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""
