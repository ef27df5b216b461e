"""docs/benchmarks.md: one section per store, each rewritten only by its own run.

What stands before the first section is written by hand, but for its figures, which `summary.py`
takes from what is kept.

What a run measured is kept beside it, as `docs/benchmarks/STORE.json`; from that a section can be
written again: `python benchmarks/page.py STORE`.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
KEPT = HERE.parent / "docs" / "benchmarks"
ORDER = ("sqlite", "redis", "postgres", "nats", "service")


def keep(told: dict[str, Any], *, aside: bool) -> None:
    """Keep what was measured; `aside` leaves the documentation's own alone."""
    name = told["store"]
    if aside:
        name += time.strftime("-%Y%m%d-%H%M%S", time.gmtime())
    folder = HERE / "results" if aside else KEPT
    folder.mkdir(exist_ok=True)
    text = json.dumps(told, indent=1)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def kept(store: str) -> dict[str, Any] | None:
    """What the documentation's run of a store measured; None if there was none."""
    file = KEPT / f"{store}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def replace(store: str, lines: list[str], plots: dict[str, str]) -> None:
    """Write one section anew, and its plots."""
    KEPT.mkdir(exist_ok=True)
    for name, drawn in plots.items():
        (KEPT / f"{store}-{name}.svg").write_text(drawn, encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    head = min((text.partition(_mark(name))[0] for name in ORDER), key=len)
    sections = {name: _section(text, name) for name in ORDER}
    sections[store] = "\n".join(lines).strip()
    parts = [f"{_mark(name)}\n\n{body}\n\n{_end(name)}" for name, body in sections.items() if body]
    PAGE.write_text("\n\n".join([head.strip(), *parts]) + "\n", encoding="utf-8")


def _section(text: str, name: str) -> str:
    _, found, rest = text.partition(_mark(name))
    body, closed, _ = rest.partition(_end(name))
    return body.strip() if found and closed else ""


def _mark(name: str) -> str:
    return f"<!-- {name} -->"


def _end(name: str) -> str:
    return f"<!-- end of {name} -->"


def _again(store: str) -> None:
    if store == "sqlite":
        import embedded_report as report
    elif store == "service":
        import service_report as report
    else:
        import side_by_side_report as report
    told = kept(store)
    if told is None:
        raise SystemExit(f"Nothing was measured of {store!r}.")
    replace(store, report.section(told), report.plots(told))


if __name__ == "__main__":
    _again(sys.argv[1])
