"""Renewals: the run cell only; no revision, no event (R4)."""

import logging
from collections.abc import Sequence

from andon.model.words import State
from andon.stores.base import Renewal, Verdict
from andon.stores.codec import Undecodable, decode_status
from andon.stores.sqlite.statements import LIFE
from andon.stores.sqlite.transaction import Transaction

logger = logging.getLogger("andon.sqlite")


def renew(tx: Transaction, renewals: Sequence[Renewal]) -> list[Verdict]:
    """Extend leases and write progress of runs that still hold their task."""
    verdicts: list[Verdict] = []
    for r in renewals:
        row = tx.db.execute(LIFE.run_of, (r.task,)).fetchone()
        if row is None or row[2] != State.ACTIVE or row[1] != r.run:
            verdicts.append(Verdict.LOST)
            continue
        beat = tx.now if r.heartbeat else None
        tx.db.execute(LIFE.renew, (row[0], tx.now + r.lease_ms, beat, r.progress, r.message))
        if r.progress is not None or r.message is not None:
            tx.moved.append(r.task)
        verdicts.append(Verdict.CANCEL if _asked(row[3]) else Verdict.OK)
    return verdicts


def invalid(renewal: Renewal, why: str) -> Verdict:
    """The answer to a renewal that cannot be written."""
    logger.error("A renewal of task %r was refused: %s", renewal.task, why)
    return Verdict.INVALID


def _asked(body: bytes) -> bool:
    try:
        return decode_status(body).cancel_requested_at is not None
    except Undecodable:
        return False
