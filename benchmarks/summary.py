"""The figures at the head of docs/benchmarks.md and in README.md, made from what the runs measured.

    python benchmarks/summary.py

A figure that rests on fewer than `FEWEST` rounds is left out. `make bench` writes both anew.
"""

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import page
import service_report
import side_by_side_report as side_by_side
from embedded_report import told_of
from side_by_side_report import FEWEST, NAMES

Told = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"

SERVERS = ("redis", "postgres", "nats")
SHORT = NAMES | {"sqlite": "SQLite", "nats": "NATS"}
RATES = {
    "submit single": "submit, one after another",
    "submit concurrent": "submit, 100 at once",
    "submit bulk": "submit in bulk",
    "drain": "drain, one worker process",
    "e2e": "end to end",
}
OURS_ON_SQLITE = {
    "submit single": "andon submit single",
    "submit concurrent": "andon submit 100 coroutines",
    "submit bulk": "andon submit bulk",
    "drain": "andon drain",
    "e2e": "andon e2e",
}
WAIT = "submit to start, p50, ms"
LATE = "submit to start, p99, ms"


class Beside(NamedTuple):
    """The peer that is best at something, and how many times its figure Andon's is."""

    peer: str
    ratio: float


class Figure(NamedTuple):
    """What Andon does, in each round, and the best of its peers at that."""

    values: list[float]
    beside: Beside | None = None


def figures(told: Told) -> dict[str, Figure]:
    """What one store's run measured in enough rounds, by its label."""
    found = _on_sqlite(told) if told["store"] == "sqlite" else _on_server(told)
    return {label: one for label, one in found.items() if len(one.values) >= FEWEST}


def _on_server(told: Told) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    peers = [side for side in told["sides"] if side not in ("andon", "limit")]
    for kind, label in RATES.items():
        ratios = {peer: side_by_side.ratio(told, peer, kind) for peer in peers}
        known = {peer: ratio for peer, ratio in ratios.items() if ratio}
        best = min(known, key=lambda peer: known[peer]) if known else None
        beside = None if best is None else Beside(best, known[best])
        found[label] = Figure(side_by_side.values(told, "andon", f"{kind} rate"), beside)
    for label, figure in ((WAIT, "latency p50_ms"), (LATE, "latency p99_ms")):
        ours = side_by_side.values(told, "andon", figure)
        waits = {peer: v for peer in peers if (v := side_by_side.values(told, peer, figure))}
        found[label] = Figure(ours, _quickest(ours, waits))
    return found


def _quickest(ours: list[float], waits: dict[str, list[float]]) -> Beside | None:
    """Beside the peer that waits least; below 1 where Andon waits less."""
    medians = {peer: statistics.median(values) for peer, values in waits.items()}
    if not ours or not medians:
        return None
    best = min(medians, key=lambda peer: medians[peer])
    return Beside(best, statistics.median(ours) / medians[best])


def _on_sqlite(told: Told, sync: str = "full", huey_sync: str = "full") -> dict[str, Figure]:
    outcomes = told["outcomes"]
    submits = [f"huey submit {huey_sync}"]
    drains = [name for name in outcomes if name.startswith(f"huey drain {huey_sync},")]
    theirs = dict.fromkeys(RATES, submits) | {"drain": drains, "e2e": [f"huey e2e {huey_sync}"]}
    found: dict[str, Figure] = {}
    for kind, label in RATES.items():
        ours = _rates(outcomes[f"{OURS_ON_SQLITE[kind]} {sync}"])
        fastest = max(statistics.median(_rates(outcomes[name])) for name in theirs[kind])
        beside = Beside("SqliteHuey", statistics.median(ours) / fastest)
        found[label] = Figure(ours, beside)
    for label, figure in ((WAIT, "p50_ms"), (LATE, "p99_ms")):
        ours = [outcome[figure] for outcome in outcomes[f"andon latency {sync}"]]
        waits = [outcome[figure] for outcome in outcomes[f"huey latency {huey_sync}"]]
        found[label] = Figure(ours, _quickest(ours, {"SqliteHuey": waits}))
    return found


def _rates(outcomes: list[dict[str, Any]]) -> list[float]:
    return [outcome["rate"] for outcome in outcomes]


# --- what is written ---


def head(kept: dict[str, Told]) -> list[str]:
    """The head of docs/benchmarks.md."""
    stores = [store for store in ("sqlite", *SERVERS) if store in kept]
    found = {store: figures(kept[store]) for store in stores}
    columns = "| | " + " | ".join(_column(store) for store in stores) + " |"
    lines = [columns, "|---|" + "---|" * len(stores), _row("measured", map(_when, _of(kept)))]
    for label in (*RATES.values(), WAIT, LATE):
        cells = (_told(found[store].get(label), label) for store in stores)
        lines.append(_row(label if label in (WAIT, LATE) else f"{label}, tasks/s", cells))
    lines += [
        "",
        "Each rate as a multiple of that of the fastest peer at it; where it has no bulk call,",
    ]
    lines += ["bulk is held against its fastest submits:", ""]
    lines += [columns, "|---|" + "---|" * len(stores)]
    for label in RATES.values():
        cells = (_beside(found[store].get(label)) for store in stores)
        lines.append(_row(label, cells))
    lines += ["", *_ahead(found), *_normal(kept), *_service(kept)]
    return lines[:-1]


def _of(kept: dict[str, Told]) -> list[Told]:
    return [kept[store] for store in ("sqlite", *SERVERS) if store in kept]


def _column(store: str) -> str:
    return "SQLite (`full`)" if store == "sqlite" else SHORT[store]


def _when(told: Told) -> str:
    return f"{told['machine']['date']}, {told['rounds']} rounds"


def _row(label: str, cells: Iterable[str]) -> str:
    return f"| {label} | {' | '.join(cells)} |"


def _told(figure: Figure | None, label: str) -> str:
    """The median, the smallest and the largest."""
    digits = 1 if label in (WAIT, LATE) else 0
    return "-" if figure is None else told_of(figure.values, digits)


def _beside(figure: Figure | None) -> str:
    if figure is None or figure.beside is None:
        return "-"
    return f"{figure.beside.ratio:.2f} ({figure.beside.peer})"


def _ahead(found: dict[str, dict[str, Figure]]) -> list[str]:
    """At what the best peer of each store is ahead, in words."""
    lines = ["**Where the best peer is ahead** (the sections name every peer that is):", ""]
    for store, of in found.items():
        said = [
            f"{label} ({one.beside.peer}, {1 / one.beside.ratio:.2f} times the rate)"
            for label, one in of.items()
            if label not in (WAIT, LATE) and one.beside is not None and one.beside.ratio < 1
        ]
        said += [
            f"{label} ({one.beside.peer} {statistics.median(one.values) / one.beside.ratio:.1f}, "
            f"Andon {statistics.median(one.values):.1f})"
            for label, one in of.items()
            if label in (WAIT, LATE) and one.beside is not None and one.beside.ratio > 1
        ]
        lines.append(f"- {_column(store)}: {'; '.join(said) or 'at none of these'}.")
    return [*lines, ""]


def _normal(kept: dict[str, Told]) -> list[str]:
    """SQLite with less durability."""
    if "sqlite" not in kept:
        return []
    found = _on_sqlite(kept["sqlite"], "normal", "off")
    ahead = [
        f"{label} ({one.beside.ratio:.2f})"
        for label, one in found.items()
        if label in RATES.values() and one.beside is not None and one.beside.ratio < 1
    ]
    if not ahead:
        return []
    return [
        f"With `synchronous=normal` SqliteHuey, which promises less there, is ahead at: "
        f"{'; '.join(ahead)}.",
        "",
    ]


def _service(kept: dict[str, Told]) -> list[str]:
    """One figure of the service on each store."""
    told = kept.get("service", {"outcomes": {}})["outcomes"]
    rates = {
        store: rates
        for store, outcomes in told.items()
        if (rates := service_report.values(outcomes, "single submits", "rate"))
    }
    if not rates:
        return []
    said = " and ".join(f"{told_of(values, 0)} on {store}" for store, values in rates.items())
    return [
        f"`andon serve` in one process, single submits a second over 100 connections: {said}.",
        "[The service](#the-service) has the rest.",
        "",
    ]


def short(kept: dict[str, Told]) -> list[str]:
    """The tables of README.md."""
    stores = [store for store in ("sqlite", *SERVERS) if store in kept]
    found = {store: figures(kept[store]) for store in stores}
    lines = ["| | " + " | ".join(SHORT[store] for store in stores) + " |"]
    lines.append("|---|" + "---|" * len(stores))
    for label in (*RATES.values(), WAIT):
        cells = (_short(found[store].get(label), label) for store in stores)
        lines.append(_row(label if label == WAIT else f"{label}, tasks/s", cells))
    dates = ", ".join(f"{SHORT[store]} {kept[store]['machine']['date']}" for store in stores)
    rounds = min(kept[store]["rounds"] for store in stores)
    return [*lines, "", f"Medians of {rounds} rounds, the smallest and the largest: {dates}."]


def _short(figure: Figure | None, label: str) -> str:
    """The median, the range, and how it stands to the best peer, in few digits."""
    if figure is None:
        return "-"
    digits = 1 if label == WAIT else None
    median, least, most = statistics.median(figure.values), min(figure.values), max(figure.values)
    said = f"{_few(median, digits)} ({_few(least, digits)} to {_few(most, digits)})"
    if figure.beside is None:
        return said
    if label == WAIT:
        return f"{said}; {figure.beside.peer} {_few(median / figure.beside.ratio, 1)}"
    return f"{said}; {figure.beside.ratio:.2f} × {figure.beside.peer}"  # noqa: RUF001


def _few(value: float, digits: int | None) -> str:
    """Three significant digits, or so many after the point."""
    if digits is not None:
        return f"{value:.{digits}f}"
    return f"{float(f'{value:.3g}'):,.0f}"


def between(text: str, lines: list[str]) -> str:
    """The text with these lines between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{BEGIN}\n", *lines, f"\n{END}{after}"])


def pages() -> dict[Path, str]:
    """Both pages as they should be."""
    kept = {store: told for store in page.ORDER if (told := page.kept(store)) is not None}
    written = {page.PAGE: head(kept), ROOT / "README.md": short(kept)}
    return {p: between(p.read_text(encoding="utf-8"), lines) for p, lines in written.items()}


def write() -> None:
    """Write them."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
