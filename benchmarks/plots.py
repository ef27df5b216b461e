"""Bar charts as SVG, for light and dark pages alike."""

from html import escape
from typing import NamedTuple

WIDTH, LABEL, BAR, GAP, HEAD = 760, 190, 18, 8, 44
STYLE = """text{font:13px system-ui,sans-serif;fill:#57606a}
.title{font-weight:600;font-size:15px}.ours{fill:#1a7f37}.peer{fill:#8c959f}.limit{fill:#bf8700}
.whisker{stroke:#57606a;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#c9d1d9}.whisker{stroke:#c9d1d9}}"""


class Bar(NamedTuple):
    """One bar; `most` draws a whisker up to there (a p99 beyond a p50)."""

    label: str
    value: float
    kind: str  #: ours, peer or limit
    most: float | None = None


def bars(title: str, rows: list[Bar], unit: str, digits: int = 0) -> str:
    """A chart of horizontal bars, one a row."""
    height = HEAD + len(rows) * (BAR + GAP) + 8
    room = WIDTH - LABEL - 150
    top = max((max(row.value, row.most or 0) for row in rows), default=1) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="24">{escape(title)}</text>',
    ]
    for place, row in enumerate(rows):
        y = HEAD + place * (BAR + GAP)
        width = max(row.value / top * room, 1)
        end = LABEL + width
        parts.append(
            f'<text x="{LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(row.label)}</text>'
            f'<rect class="{row.kind}" x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" '
            'rx="2"/>'
        )
        said = f"{row.value:,.{digits}f} {unit}"
        if row.most is not None:
            far = LABEL + row.most / top * room
            middle = y + BAR / 2
            parts.append(
                f'<path class="whisker" d="M{end:.1f} {middle}H{far:.1f}m0 -5v10" fill="none"/>'
            )
            said = f"{row.value:,.{digits}f} (p99 {row.most:,.{digits}f}) {unit}"
            end = max(end, far)
        parts.append(f'<text x="{end + 8:.1f}" y="{y + 14}">{escape(said)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
