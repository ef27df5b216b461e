"""Rates as people write them: `5/s`, `300/m`, `5/h`. Stored as a number a second. Pure."""

import re

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/(s|m|h|d))?")
_CLOSE = 1e-9
"""Two rates are the same if they differ by less than this part: a third of a second has no end."""


def rate_of(rate: float | str) -> float:
    """A rate as a number a second: `5`, `"5/s"`, `"300/m"`, `"1000/h"`, `"10/d"`.

    Raises `ValueError` saying what can be written.
    """
    if not isinstance(rate, str):
        return float(rate)
    found = _RATE.fullmatch(rate.strip())
    if found is None:
        raise ValueError(f"{rate!r} is no rate; write 5 (a second), 300/m, 1000/h or 10/d.")
    return float(found[1]) / _SECONDS[found[2] or "s"]


def rate_text(rate: float) -> str:
    """The rate in the shortest unit in which it is a whole number: `5/s`, `5/h`; else a second."""
    for unit, seconds in _SECONDS.items():
        number = rate * seconds
        if number >= 1 - _CLOSE and abs(number - round(number)) <= _CLOSE * number:
            return f"{round(number)}/{unit}"
    return f"{rate:g}/s"
