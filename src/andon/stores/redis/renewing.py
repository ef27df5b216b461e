"""What renew sends and what comes back."""

from typing import Any

from andon.stores.base import Renewal, Verdict

VERDICTS = {b"o": Verdict.OK, b"c": Verdict.CANCEL, b"l": Verdict.LOST}


def item(renewal: Renewal) -> tuple[Any, ...]:
    """One renewal as `renew.lua` takes it."""
    return (
        renewal.task,
        renewal.run,
        renewal.lease_ms,
        renewal.heartbeat,
        renewal.progress,
        renewal.message,
    )
