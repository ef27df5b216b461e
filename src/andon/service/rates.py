"""Limits the requests of each address: a token bucket for each of a bounded number of addresses."""

from collections import OrderedDict

_MOST_ADDRESSES = 10_000


class Rates:
    """Buckets by address. The least recently seen address is forgotten first."""

    def __init__(self, rate: float, burst: int | None) -> None:
        self._rate = rate
        self._burst = float(burst if burst is not None else max(1, round(2 * rate)))
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, now: float) -> float:
        """Take one token at `now` (seconds, any monotonic clock); 0, or seconds to wait for it."""
        tokens, then = self._buckets.pop(address, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._buckets[address] = (tokens - 1 if not wait else tokens, now)
        if len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return wait
