"""The audit list: what was done by hand, newest first, in one bounded setting of the store.

An act on tasks is recorded after it is done. The event of each task's move, which is written with
the move, is authoritative; the list has one record for a whole call, and misses at most what a
crash cut off. An act on anything else (a queue's settings, a token) leaves no event, so its record
is written first: what is listed was asked for, and nothing is changed that is not listed.

Only acts by hand pay for it: a read and a compare-and-set for each call, shared by the calls that
arrive meanwhile.
"""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from andon.contract.store import Store
from andon.engine.actor import ACTOR
from andon.engine.base import ActionResult
from andon.engine.batching import Batcher
from andon.model.audit import AuditRecord
from andon.model.errors import AndonError, StoreUnavailable
from andon.model.settings import AUDIT_SETTING
from andon.model.text import storable

log = logging.getLogger("andon.engine")

MOST_RECORDS = 500
"""Records that are kept; the oldest go."""

TOGETHER_MS = 60_000
"""Acts on tasks that are alike in actor and kind are one record, if they follow within this."""

_MOST_SHOWN = 300
_MOST_TRIES = 20
_encode = msgspec.json.encode
_Record = tuple[AuditRecord, bool]
"""A record, and whether it may join one before it that is alike."""

_decode = msgspec.json.Decoder(list[AuditRecord]).decode


class Audit:
    """The audit list of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writes: Batcher[_Record, None] = Batcher(self._write, size=MOST_RECORDS)

    async def done(self, act: str, acted: Sequence[ActionResult], **detail: Any) -> None:
        """Note what was done to tasks, if an actor is named. Never raises because of the list: the
        act is done, and each task's event names the actor."""
        changed = [one.id for one in acted if one.changed]
        if not changed or not ACTOR.get():
            return
        record = self._record(act, changed[0], len(changed), detail)
        try:
            await self._writes.put((record, True))
        except (AndonError, OSError) as error:
            log.warning("The audit list could not be written: %s", error)
        except Exception:
            log.exception("The audit list could not be written.")

    async def asked(self, act: str, subject: str, **detail: Any) -> None:
        """Note what is about to be done to something other than a task, with or without an actor.
        Raises the error that kept the list from being written; then the act must not be done."""
        await self._writes.put((self._record(act, subject, 1, detail), False))

    async def acts(self, actor: str | None = None, limit: int = 100) -> list[AuditRecord]:
        """The newest records, by one actor or by all, newest first."""
        kept = _read(await self._store.setting(AUDIT_SETTING))
        found = [one for one in reversed(kept) if actor is None or one.actor == actor]
        return found[:limit]

    def _record(self, act: str, subject: str, count: int, detail: dict[str, Any]) -> AuditRecord:
        now = self._store.now()
        given = {name: value for name, value in detail.items() if value is not None}
        said = _encode(given).decode() if given else ""
        return AuditRecord(
            at=now,
            until=now,
            actor=ACTOR.get(),
            act=act,
            subject=storable(subject),
            count=count,
            detail=said if len(said) <= _MOST_SHOWN else said[: _MOST_SHOWN - 1] + "…",
        )

    async def _write(self, records: Sequence[_Record]) -> list[None]:
        for _ in range(_MOST_TRIES):
            stored = await self._store.setting(AUDIT_SETTING)
            kept = _read(stored)
            for record, joins in records:
                _add(kept, record, joins=joins)
            written = _encode(kept[-MOST_RECORDS:])
            if await self._store.put_setting(AUDIT_SETTING, written, expect=stored):
                return [None] * len(records)
        raise StoreUnavailable("The audit list is being written by many at once; try again.")


def _add(kept: list[AuditRecord], record: AuditRecord, *, joins: bool) -> None:
    last = kept[-1] if kept else None
    if (
        joins
        and last is not None
        and (last.actor, last.act, last.detail) == (record.actor, record.act, record.detail)
        and record.at - last.until <= TOGETHER_MS
    ):
        kept[-1] = replace(last, until=record.until, count=last.count + record.count)
    else:
        kept.append(record)


def _read(stored: bytes | None) -> list[AuditRecord]:
    if not stored:
        return []
    try:
        return _decode(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("The audit list is damaged, and begins anew: %s", error)
        return []
