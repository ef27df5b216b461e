"""A queue's `rate_limit`: a bucket that fills with time and is drawn from by claims. Pure.

It starts full and never holds more than its burst. `postgres/sql/functions/claim.sql`,
`redis/lua/claim.lua` and `redis/lua/draw.lua` count the same way on their servers;
`tests/properties/test_limits_agree.py` holds each store against this.
"""

import math

from andon.model.fleet import QueueConfig

_NEARLY = 1e-9
"""Tolerance for a whole token: tokens are added up in binary fractions."""


def burst_of(config: QueueConfig) -> int:
    """The most tokens that the bucket of a queue with a rate limit holds."""
    assert config.rate_limit is not None
    # One claim must always fit, or a rate below one a second would never let any through.
    return max(config.rate_burst or math.ceil(config.rate_limit), 1)


def tokens_at(config: QueueConfig, before: tuple[float, int] | None, now: int) -> float:
    """What the bucket holds now, if it held so many tokens at a time in ms; None: it is full."""
    assert config.rate_limit is not None
    burst = burst_of(config)
    if before is None:
        return float(burst)
    tokens, at = before
    return min(float(burst), tokens + (now - at) * config.rate_limit / 1000)


def claims_allowed(tokens: float) -> int:
    """How many claims so many tokens let through."""
    return math.floor(tokens + _NEARLY)


def seconds_to_next(config: QueueConfig, tokens: float) -> float:
    """How long until a claim is let through."""
    assert config.rate_limit is not None
    return max(1 - tokens, 0.0) / config.rate_limit
