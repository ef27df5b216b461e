"""Charts drawn on the server as SVG, with the same numbers as text for who cannot see them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import htpy as h

if TYPE_CHECKING:
    from htpy import Renderable

_WIDTH, _HEIGHT = 600, 72


def throughput(
    points: Sequence[tuple[int, float, float]], now: int, window_ms: int
) -> "Renderable":
    """Runs that ended per second, as an area; those that failed, as a second one below."""
    top = max((processed for _, processed, _ in points), default=0.0)
    scale = _HEIGHT / _ceiling(top)
    drawn = [
        (_WIDTH * (1 - (now - at) / window_ms), processed * scale, failed * scale)
        for at, processed, failed in points
    ]
    newest = points[-1][1] if points else 0.0
    label = f"Runs that ended per second, last {window_ms // 60_000} minutes: now {newest:.1f}, "
    return h.svg(
        ".chart", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", role="img",
        aria_label=f"{label}at most {top:.1f}",
    )[
        h.line(".grid", x1="0", y1="0.5", x2=str(_WIDTH), y2="0.5"),
        h.line(".grid", x1="0", y1=str(_HEIGHT / 2), x2=str(_WIDTH), y2=str(_HEIGHT / 2)),
        len(drawn) > 1
        and [
            h.path(".area", d=_area([(x, good) for x, good, _ in drawn])),
            h.path(".area.bad", d=_area([(x, bad) for x, _, bad in drawn])),
            h.path(".line", d=_line([(x, good) for x, good, _ in drawn])),
        ],
        h.line(".axis", x1="0", y1=str(_HEIGHT - 0.5), x2=str(_WIDTH), y2=str(_HEIGHT - 0.5)),
    ]  # fmt: skip


def bars(days: Sequence[tuple[str, int, int]], *, label: str) -> "Renderable":
    """A bar for each of some spans of time, the oldest first: name, how many, and how many of them
    badly."""
    most = max((number for _, number, _ in days), default=0) or 1
    width = _WIDTH / max(1, len(days))
    return h.svg(
        ".chart", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", role="img",
        aria_label=f"{label}: " + ", ".join(f"{name} {number:,}" for name, number, _ in days[-14:]),
    )[
        (
            h.g[
                h.title[f"{name}: {number:,}, of which {bad:,} failed"],
                h.rect(
                    ".bar",
                    x=f"{place * width + 1:.1f}",
                    y=f"{_HEIGHT - _HEIGHT * number / most:.1f}",
                    width=f"{max(0.5, width - 2):.1f}",
                    height=f"{_HEIGHT * number / most:.1f}",
                ),
                bad
                and h.rect(
                    ".bar.bad",
                    x=f"{place * width + 1:.1f}",
                    y=f"{_HEIGHT - _HEIGHT * bad / most:.1f}",
                    width=f"{max(0.5, width - 2):.1f}",
                    height=f"{_HEIGHT * bad / most:.1f}",
                ),
            ]
            for place, (name, number, bad) in enumerate(days)
        ),
        h.line(".axis", x1="0", y1=str(_HEIGHT - 0.5), x2=str(_WIDTH), y2=str(_HEIGHT - 0.5)),
    ]  # fmt: skip


def _ceiling(value: float) -> float:
    """A round number at or above the value, so that the scale does not jump with each sample."""
    size = 1.0
    while size < value:
        for factor in (2.0, 2.5, 2.0):
            size *= factor
            if size >= value:
                break
    return size


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {_HEIGHT - y:.1f}" for x, y in points)


def _area(points: Sequence[tuple[float, float]]) -> str:
    first, last = points[0][0], points[-1][0]
    return f"{_line(points)}L{last:.1f} {_HEIGHT}L{first:.1f} {_HEIGHT}Z"
