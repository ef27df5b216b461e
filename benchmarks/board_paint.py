"""The board in Chromium, for `board.py`: when a page is first seen, and how a failure is found."""

import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import board_filling

_FIRST_SEEN = """
() => new Promise(done => {
  const seen = () => performance.getEntriesByName("first-contentful-paint")[0];
  const told = () => {
    const page = performance.getEntriesByType("navigation")[0];
    done([seen().startTime, page.responseStart, page.responseEnd]);
  };
  if (seen()) return told();
  new PerformanceObserver((list, it) => {
    if (seen()) { it.disconnect(); told(); }
  }).observe({type: "paint", buffered: true});
})
"""


def measure(url: str, pages: Mapping[str, str], rounds: int) -> dict[str, Any]:
    """Milliseconds from the request of each page to its first paint, the median and the largest,
    and to the first byte of its answer; and what it took to find the one failure of its name."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from dashboard.browser import CHROMIUM, MISSING, chromium
    from dashboard.finding import find_and_rerun

    if CHROMIUM is None:
        return {"skipped": MISSING}
    painted: dict[str, list[list[float]]] = {}
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        page = context.new_page()
        for number in range(1 + rounds):  # the first is for caches
            for name, path in pages.items():
                page.goto(url + path)
                if number:
                    painted.setdefault(name, []).append(page.evaluate(_FIRST_SEEN))
        begun = time.perf_counter()
        page.goto(url)
        clicks = find_and_rerun(page, board_filling.NEEDLE_NAME, "not found in ledger")
        found_s = time.perf_counter() - begun
        context.close()
    return {
        "first_paint_ms": {
            name: {
                "p50": round(statistics.median(ms for ms, _, _ in seen)),
                "most": round(max(ms for ms, _, _ in seen)),
                "first_byte": round(statistics.median(ms for _, ms, _ in seen)),
            }
            for name, seen in painted.items()
        },
        "failure": {"clicks": clicks, "seconds": round(found_s, 1)},
    }
