"""Renewals: the run cell only; no revision, no event (docs/rulings.md, R4)."""

from collections.abc import Sequence
from typing import Any

from andon.contract.isolation import Unwritable
from andon.contract.outcomes import Verdict
from andon.contract.requests import Renewal
from andon.stores.kit.codec import encode
from andon.stores.redis.partitions import Partitions

MOST_LEASE_MS = 2**52
"""With the time of now it stays below what scripts count exactly."""

_VERDICTS = {b"o": Verdict.OK, b"c": Verdict.CANCEL, b"l": Verdict.LOST}


async def renew(at: Partitions, renewals: Sequence[Renewal]) -> list[Verdict]:
    """Extend leases and write progress of runs that still hold their task."""
    replies = await at.spread("renew", [_item(r) for r in renewals], [r.task for r in renewals])
    return verdicts(replies)


def verdicts(replies: Sequence[Any]) -> list[Verdict]:
    """What the script says of each; of a damaged cell it says why it cannot be renewed."""
    return [Verdict.INVALID if isinstance(reply, list) else _VERDICTS[reply] for reply in replies]


def packed(renewals: Sequence[Renewal]) -> bytes:
    """Renewals of one partition as `renew.lua` takes them."""
    return encode([_item(renewal) for renewal in renewals])


def _item(renewal: Renewal) -> tuple[Any, ...]:
    if not 0 <= renewal.lease_ms <= MOST_LEASE_MS:
        raise Unwritable(f"a lease of {renewal.lease_ms} ms cannot be kept")
    return (
        renewal.task,
        renewal.run,
        renewal.lease_ms,
        renewal.heartbeat,
        renewal.progress,
        renewal.message,
    )
