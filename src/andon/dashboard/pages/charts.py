"""Draws charts on the server as SVG, with the same numbers as text for readers who cannot see
them."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import htpy as h

from andon.dashboard.views.minutes import Minutes, Slice
from andon.lifecycle.faces.fields import iso
from andon.model.wording import span

if TYPE_CHECKING:
    from htpy import Renderable

_WIDTH, _HEIGHT = 600, 72
_SHADES = 12
"""How many shades the bands have. All cells of one shade are one element, so that a browser has few
to lay out."""


def throughput(points: Sequence[tuple[int, float, float]], window_ms: int) -> "Renderable":
    """Runs that ended per second, as an area; those that failed, as a second one below. Its right
    end is the last of the points, so it does not change while nothing ends."""
    top = max((processed for _, processed, _ in points), default=0.0)
    scale = _HEIGHT / _ceiling(top)
    newest = points[-1] if points else (0, 0.0, 0.0)
    drawn = [
        (_WIDTH * (1 - (newest[0] - at) / window_ms), processed * scale, failed * scale)
        for at, processed, failed in _bends(points)
    ]
    label = f"Runs that ended per second, last {window_ms // 60_000} minutes: now {newest[1]:.1f}, "
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


def _bends(points: Sequence[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """The points without those within a level stretch, which do not change the line."""
    last = len(points) - 1
    return [
        point
        for place, point in enumerate(points)
        if place in (0, last) or not points[place - 1][1:] == point[1:] == points[place + 1][1:]
    ]


def bars(days: Sequence[tuple[str, int, int]], *, label: str) -> "Renderable":
    """A bar for each of some spans of time, the oldest first: name, how many runs ended, and how
    many of them failed."""
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


def minutes(view: Minutes, *, label: str) -> "Renderable":
    """A bar for each slice of time: runs that ended, and those that failed; unknown slices are
    hatched."""
    most = max((one.ended for one in view.slices), default=0) or 1
    width = _WIDTH / max(1, len(view.slices))
    total, bad = sum(s.ended for s in view.slices), sum(s.failed for s in view.slices)
    return h.svg(
        ".chart", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", role="img",
        aria_label=f"{label}: {total:,} runs ended, {bad:,} of them failed",
    )[
        (
            _bar(one, place * width, width, most)
            for place, one in enumerate(view.slices)
            if one.ended or not one.is_known
        ),
        h.line(".axis", x1="0", y1=str(_HEIGHT - 0.5), x2=str(_WIDTH), y2=str(_HEIGHT - 0.5)),
    ]  # fmt: skip


def _bar(one: Slice, x: float, width: float, most: int) -> "Renderable":
    left, wide = f"{x:.1f}", f"{max(0.5, width - 0.8):.1f}"
    if not one.is_known:
        return h.rect(".unknown", x=left, y="0", width=wide, height=str(_HEIGHT))
    tall, bad = _HEIGHT * one.ended / most, _HEIGHT * one.failed / most
    return h.g[
        h.title[f"{iso(one.at)[11:16]}Z: {one.ended:,} ended, {one.failed:,} failed"],
        h.rect(".bar", x=left, y=f"{_HEIGHT - tall:.1f}", width=wide, height=f"{tall:.1f}"),
        bad > 0
        and h.rect(".bar.bad", x=left, y=f"{_HEIGHT - bad:.1f}", width=wide, height=f"{bad:.1f}"),
    ]


def bands(view: Minutes, *, of_runs: bool, label: str) -> "Renderable":
    """Durations as bands: each slice is a column, each band of durations a row; a cell is the
    darker the more of the slice's runs are in it."""
    rows = len(view.bands_ms) + 1
    width, height = _WIDTH / max(1, len(view.slices)), _HEIGHT / rows
    wide, tall = f"{max(0.5, width - 0.5):.1f}", f"{height - 0.5:.1f}"
    shades: dict[int, list[str]] = {}
    sums = [0] * rows
    for place, one in enumerate(view.slices):
        counts = one.run if of_runs else one.wait
        whole = sum(counts)
        for band, number in enumerate(counts):
            sums[band] += number
            if number:
                left, top = place * width, _HEIGHT - (band + 1) * height
                cell = f"M{left:.1f} {top:.1f}h{wide}v{tall}h-{wide}z"
                shades.setdefault(math.ceil(_SHADES * number / whole), []).append(cell)
    said = ", ".join(
        f"{number:,} {band_name(band, view.bands_ms)}" for band, number in enumerate(sums) if number
    )
    return h.svg(
        ".chart.bands", viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none", role="img",
        aria_label=f"{label}: {said or 'nothing'}",
    )[
        [
            h.path(".cell", d="".join(cells), fill_opacity=f"{0.25 + 0.75 * shade / _SHADES:.2f}")
            for shade, cells in sorted(shades.items())
        ],
        h.line(".axis", x1="0", y1=str(_HEIGHT - 0.5), x2=str(_WIDTH), y2=str(_HEIGHT - 0.5)),
    ]  # fmt: skip


def band_name(band: int, bounds: Sequence[int]) -> str:
    """A band of durations in words."""
    if band == len(bounds):
        return f"over {_span(bounds[-1])}"
    return f"up to {_span(bounds[band])}"


def _span(ms: int) -> str:
    return f"{ms} ms" if ms < 1_000 else span(ms / 1000)


def usual_band(view: Minutes, *, of_runs: bool) -> str:
    """The band in which the median of all durations lies, in words; empty if there are none."""
    sums = [0] * (len(view.bands_ms) + 1)
    for one in view.slices:
        for band, number in enumerate(one.run if of_runs else one.wait):
            sums[band] += number
    return middle_band(sums, view.bands_ms)


def middle_band(counts: Sequence[int], bounds: Sequence[int]) -> str:
    """The band in which the median of so many durations lies, in words; empty if there are none."""
    middle, passed = sum(counts) / 2, 0
    for band, number in enumerate(counts):
        passed += number
        if number and passed >= middle:
            return band_name(band, bounds)
    return ""


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
