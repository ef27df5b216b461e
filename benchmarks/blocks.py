"""How much a ratio of two medians varies within one run, whose rounds are interleaved."""

import statistics

BLOCKS = 5


def ratios(few: list[float], many: list[float]) -> list[float]:
    """The ratio of the medians, many to few, in each fifth of the rounds in the order they ran.
    Single rounds would say how much one call varies, of which a median of them depends little."""
    size = len(few) // BLOCKS
    assert size
    parts = [slice(i * size, (i + 1) * size) for i in range(BLOCKS)]
    return [statistics.median(many[part]) / statistics.median(few[part]) for part in parts]


def told(ratio: float, within: list[float]) -> str:
    """The ratio, the smallest and the largest fifth."""
    if not within:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} ({min(within):.2f} to {max(within):.2f})"
