"""How long to wait before retry n. Pure; the formulas are docs/rulings.md, R16 in words and asynq's
and Choria's published tables where named. All results are whole milliseconds, clamped by
`max_retry_delay`."""

from collections.abc import Callable, Sequence

from andon.model.policy import Backoff, Policy

Random = Callable[[], float]
"""A source of uniform numbers in [0, 1)."""

_LARGEST_EXPONENT = 62
"""2**62 s is beyond every clamp; a larger exponent would only overflow a float."""

CHORIA_10M: tuple[float, ...] = tuple(60 + 10.8 * i for i in range(50))
"""Choria's `10m` table: fifty steps from one minute to about ten (docs/rulings.md, R16)."""


def retry_delay(policy: Policy, retry: int, random: Random) -> int | None:
    """Milliseconds before retry number `retry` (from 1), or None to retry at once."""
    if policy.retry_delay is None and policy.backoff not in (Backoff.POLYNOMIAL, Backoff.STEPS):
        return None
    seconds = _FORMULAS[policy.backoff](policy, max(retry, 1), random)
    return round(min(max(seconds, 0.0), policy.max_retry_delay) * 1000)


def _constant(policy: Policy, retry: int, random: Random) -> float:
    return policy.retry_delay or 0.0


def _linear(policy: Policy, retry: int, random: Random) -> float:
    return (policy.retry_delay or 0.0) * retry


def _exponential(policy: Policy, retry: int, random: Random) -> float:
    return (policy.retry_delay or 0.0) * 2.0 ** min(retry - 1, _LARGEST_EXPONENT)


def _exponential_jitter(policy: Policy, retry: int, random: Random) -> float:
    return random() * min(policy.max_retry_delay, _exponential(policy, retry, random))


def _polynomial(policy: Policy, retry: int, random: Random) -> float:
    return (retry - 1) ** 4 + 15 + int(random() * 30) * retry


def _steps(policy: Policy, retry: int, random: Random) -> float:
    if policy.steps:
        return _step(policy.steps, retry - 1)
    interval = _step(CHORIA_10M, retry)
    return 0.9 * interval + random() * interval


def _step(table: Sequence[float], index: int) -> float:
    return table[min(index, len(table) - 1)]


_FORMULAS: dict[Backoff, Callable[[Policy, int, Random], float]] = {
    Backoff.CONSTANT: _constant,
    Backoff.LINEAR: _linear,
    Backoff.EXPONENTIAL: _exponential,
    Backoff.EXPONENTIAL_JITTER: _exponential_jitter,
    Backoff.POLYNOMIAL: _polynomial,
    Backoff.STEPS: _steps,
    Backoff.CUSTOM: _constant,
}
