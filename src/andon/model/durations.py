"""Durations as people write them. Pure."""

import math
import re

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def seconds_of(text: str) -> float:
    """`90`, `30s`, `1h30m`, `2d` in seconds. Raises `ValueError` saying what is wrong."""
    try:
        seconds = float(text)
    except ValueError:
        if text.startswith("-") and _PART.match(text[1:]):
            raise ValueError("A duration must not be negative.") from None
        if not text or _PART.sub("", text):
            raise ValueError(
                f"{text!r} is no duration; write seconds, or 30s, 5m, 1h30m, 2d."
            ) from None
        seconds = sum(float(n) * _SECONDS[unit] for n, unit in _PART.findall(text))
    if seconds < 0:
        raise ValueError("A duration must not be negative.")
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is no duration.")
    return seconds


def duration_text(seconds: float) -> str:
    """The duration as `seconds_of` reads it, exactly: `1h30m`, `0s`, `1.5s`."""
    whole, parts = int(seconds), list[str]()
    for unit in ("d", "h", "m"):
        count, whole = divmod(whole, int(_SECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    rest = whole + seconds - int(seconds)
    if rest or not parts:
        parts.append(f"{rest:g}s")
    return "".join(parts)
