"""A queue's `rate_limit`: a bucket that fills with time and is drawn from by claims."""

import math

from andon.model.fleet import QueueConfig


class Bucket:
    """Tokens of one queue. Starts full, and never holds more than its burst."""

    def __init__(self, config: QueueConfig, now: int) -> None:
        assert config.rate_limit is not None
        self._rate = config.rate_limit
        # one claim must always fit, or a rate below one a second would never let any through
        self._burst = max(config.rate_burst or math.ceil(self._rate), 1)
        self._tokens = float(self._burst)
        self._at = now

    def available(self, now: int) -> int:
        """Claims allowed now."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate / 1000)
        self._at = now
        return int(self._tokens)

    def draw(self, count: int) -> None:
        """Use up tokens that were available."""
        self._tokens -= count

    def seconds_to_next(self) -> float | None:
        """How long until a claim is allowed; None if never."""
        return max(1 - self._tokens, 0.0) / self._rate if self._rate > 0 else None
