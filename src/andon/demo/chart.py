"""A stacked bar chart as SVG, by hand: readable on light and on dark paper."""

from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

_COLOURS = ("#2f6fb2", "#e0a030", "#5a9e6f", "#b9bdc4")
_ROW = 24
_LEFT = 170
_WIDTH = 860
_RIGHT = 90
_TOP = 74
_STYLE = """\
<style>
  text { font: 13px system-ui, sans-serif; fill: #24292f; }
  .title { font-size: 17px; font-weight: 600; }
  .quiet { fill: #656d76; font-size: 12px; }
  .paper { fill: #ffffff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .quiet { fill: #9198a1; } .paper { fill: #0d1117; }
  }
</style>"""


class Bar(NamedTuple):
    """One bar: its label, and how much of each kind it has."""

    label: str
    amounts: tuple[int, ...]


def stacked_bars(title: str, kinds: Sequence[str], bars: Sequence[Bar]) -> str:
    """The chart: one bar after another from the top, the kinds side by side within each."""
    height = _TOP + _ROW * len(bars) + 16
    most = max((sum(bar.amounts) for bar in bars), default=0) or 1
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{_text(title)}">',
        _STYLE,
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="20" y="30">{_text(title)}</text>',
    ]
    across = 20
    for kind, colour in zip(kinds, _COLOURS, strict=False):
        lines.append(f'<rect x="{across}" y="44" width="12" height="12" rx="2" fill="{colour}"/>')
        lines.append(f'<text class="quiet" x="{across + 18}" y="54">{_text(kind)}</text>')
        across += 40 + 8 * len(kind)
    for number, bar in enumerate(bars):
        lines += _bar(bar, _TOP + _ROW * number, scale)
    lines.append("</svg>\n")
    return "\n".join(lines)


def _bar(bar: Bar, top: int, scale: float) -> list[str]:
    middle = top + 13
    lines = [f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end">{_text(bar.label)}</text>']
    across = float(_LEFT)
    for amount, colour in zip(bar.amounts, _COLOURS, strict=False):
        width = amount * scale
        if width > 0:
            lines.append(
                f'<rect x="{across:.1f}" y="{top}" width="{width:.1f}" height="17" '
                f'fill="{colour}"/>'
            )
        across += width
    total = sum(bar.amounts)
    lines.append(f'<text class="quiet" x="{across + 8:.1f}" y="{middle}">{total:,}</text>')
    return lines


def _text(text: str) -> str:
    short = text if len(text) <= 60 else f"{text[:59]}…"
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in short)
    return escape(shown, {'"': "&quot;"})
