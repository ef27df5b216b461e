"""Renewals: the run cell only; no revision, no event (docs/rulings.md, R4)."""

from collections.abc import Sequence

from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.model.words import State
from andon.stores.kit.codec import Undecodable, decode_status
from andon.stores.sqlite.statements import LIFE
from andon.stores.sqlite.transaction import Transaction


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
            tx.begun.append(r.task)
        verdicts.append(Verdict.CANCEL if _asked(row[3]) else Verdict.OK)
    return verdicts


def _asked(body: bytes) -> bool:
    try:
        return decode_status(body).cancel_requested_at is not None
    except Undecodable:
        return False
