"""Notes: small values beside the tasks, a row each."""

import sqlite3
from collections.abc import Iterable, Sequence

from andon.contract.notes import Note, NoteName, NotePut, PutNote
from andon.stores.sqlite.rows import find, write
from andon.stores.sqlite.statements import CONFIG
from andon.stores.sqlite.transaction import Transaction


def notes(db: sqlite3.Connection, names: Sequence[NoteName]) -> list[bytes | None]:
    """Values of notes."""
    return [_note(db, name) for name in names]


def _note(db: sqlite3.Connection, name: NoteName) -> bytes | None:
    try:
        row = db.execute(CONFIG.note, name).fetchone()
    except UnicodeEncodeError:  # no note can have such a name
        return None
    return None if row is None else bytes(row[0])


def put_notes(tx: Transaction, puts: Sequence[PutNote]) -> list[NotePut]:
    """Compare and set each."""
    return [_put(tx, put) for put in puts]


def _put(tx: Transaction, put: PutNote) -> NotePut:
    row = tx.db.execute(CONFIG.note, put.name).fetchone()
    if (None if row is None else bytes(row[0])) != put.expect:
        return NotePut.OTHER
    if put.value is None:
        tx.db.execute(CONFIG.drop_note, put.name)
    else:
        tx.db.execute(CONFIG.put_note, (*put.name, put.value))
    return NotePut.WRITTEN


def put_in_order(tx: Transaction, puts: Sequence[PutNote]) -> list[bool]:
    """Compare and set each in turn, where several may have the same name. Returns whether each was
    the one that was decided on. Each name is looked up once and written once."""
    found = _values(tx.db, dict.fromkeys(put.name for put in puts))
    changed: dict[NoteName, bytes | None] = {}
    kept: list[bool] = []
    for put in puts:
        name = put.name
        is_kept = found[name] == put.expect
        if is_kept and put.value != put.expect:
            found[name] = changed[name] = put.value
        kept.append(is_kept)
    write(
        tx.db, CONFIG.put_note, [(*n, value) for n, value in changed.items() if value is not None]
    )
    for name in [name for name, value in changed.items() if value is None]:
        tx.db.execute(CONFIG.drop_note, name)
    return kept


def _values(db: sqlite3.Connection, names: Iterable[NoteName]) -> dict[NoteName, bytes | None]:
    """The values of some notes, by their names."""
    values: dict[NoteName, bytes | None] = dict.fromkeys(names)
    for kind, scope, key, value in find(db, CONFIG.notes_of, list(values)):
        values[NoteName(kind, scope, key)] = bytes(value)
    return values


def page(db: sqlite3.Connection, kind: str, scope: str, after: str, limit: int) -> list[Note]:
    """Notes of one kind and scope by key."""
    rows = db.execute(CONFIG.notes, (kind, scope, after, limit))
    return [Note(key, bytes(value)) for key, value in rows]
