"""Queues, types, workers, settings; and the event log's bounds."""

import sqlite3
from collections.abc import Sequence

import msgspec

from andon.contract.topics import CONFIG_TOPIC
from andon.lifecycle.constants import (
    CLAIM_KEPT_MS,
    EVENTS_KEPT_MS,
    SUBMIT_WINDOW_MS,
    WORKER_SEEN_MS,
)
from andon.model.fleet import QueueConfig, TypeInfo, WorkerInfo
from andon.stores.kit.codec import encode
from andon.stores.sqlite import daily
from andon.stores.sqlite.statements import CONFIG, LIFE, READING
from andon.stores.sqlite.transaction import Transaction

QueueConfigs = dict[str, QueueConfig]

_decode_queue = msgspec.msgpack.Decoder(QueueConfig).decode
_decode_type = msgspec.msgpack.Decoder(TypeInfo).decode
_decode_worker = msgspec.msgpack.Decoder(WorkerInfo).decode


def queues(db: sqlite3.Connection) -> list[QueueConfig]:
    """Every queue known: configured ones, and those that ever had a task."""
    configured = {(c := _decode_queue(body)).name: c for (body,) in db.execute(CONFIG.queues)}
    for (name,) in db.execute(CONFIG.used_queues):
        configured.setdefault(name, QueueConfig(name=name))
    return [configured[name] for name in sorted(configured)]


def configured(db: sqlite3.Connection) -> QueueConfigs:
    """Queues with a configuration of their own."""
    return {(c := _decode_queue(body)).name: c for (body,) in db.execute(CONFIG.queues)}


def put_queue(tx: Transaction, config: QueueConfig, expect: QueueConfig) -> bool:
    """Replace a queue's configuration, if it still is `expect`."""
    row = tx.db.execute(CONFIG.queue, (config.name,)).fetchone()
    if (QueueConfig(name=config.name) if row is None else _decode_queue(row[0])) != expect:
        return False
    tx.db.execute(CONFIG.put_queue, (config.name, encode(config)))
    tx.hints.add(CONFIG_TOPIC)
    tx.hint_ready(config.name)
    return True


def types(db: sqlite3.Connection) -> list[TypeInfo]:
    """Every task type published."""
    return [_decode_type(body) for (body,) in db.execute(CONFIG.types)]


def put_types(tx: Transaction, infos: Sequence[TypeInfo]) -> list[None]:
    """Publish task types."""
    tx.db.executemany(CONFIG.put_type, [(t.name, t.version, encode(t)) for t in infos])
    tx.hints.add(CONFIG_TOPIC)
    return [None] * len(infos)


def workers(db: sqlite3.Connection, now: int) -> list[WorkerInfo]:
    """Workers that published themselves lately."""
    rows = db.execute(CONFIG.workers, (now - WORKER_SEEN_MS,))
    return [_decode_worker(body) for (body,) in rows]


def put_worker(tx: Transaction, info: WorkerInfo) -> None:
    """Record that a worker is alive."""
    seen = msgspec.structs.replace(info, seen_at=tx.now)
    tx.db.execute(CONFIG.put_worker, (info.id, tx.now, encode(seen)))


def setting(db: sqlite3.Connection, name: str) -> bytes | None:
    """A small value."""
    row = db.execute(CONFIG.setting, (name,)).fetchone()
    return None if row is None else bytes(row[0])


def put_setting(tx: Transaction, name: str, value: bytes, expect: bytes | None) -> bool:
    """Compare and set."""
    if setting(tx.db, name) != expect:
        return False
    tx.db.execute(CONFIG.put_setting, (name, value))
    tx.hints.add(CONFIG_TOPIC)
    return True


def trim(tx: Transaction, limit: int, most: int) -> int:
    """Move the start of the event log on, and delete events that are no longer needed.

    An event whose record lives stays in the table for the record's history; only the log's start
    passes it.
    """
    row = tx.db.execute(CONFIG.meta, ("log_start",)).fetchone()
    start: int = row[0] if row else 0
    end_row = tx.db.execute(READING.end).fetchone()
    end: int = end_row[0] if end_row else 0
    passed = start
    dropped: list[tuple[int]] = []
    for pos, at, lives in tx.db.execute(CONFIG.old_events, (start, limit)):
        if passed - start >= limit or (at > tx.now - EVENTS_KEPT_MS and pos > end - most):
            break
        passed = pos
        if not lives:
            dropped.append((pos,))
    if passed > start:
        tx.db.executemany(CONFIG.drop_event, dropped)
        tx.db.execute(CONFIG.put_meta, ("log_start", passed))
    stubs = tx.db.execute(CONFIG.drop_stubs, (tx.now - SUBMIT_WINDOW_MS, limit)).rowcount
    daily.trim(tx, limit)
    tx.db.execute(LIFE.drop_claims, (tx.now - CLAIM_KEPT_MS,))
    tx.db.execute(CONFIG.drop_silent_workers, (tx.now - WORKER_SEEN_MS,))
    return passed - start + max(stubs, 0)
