"""The section on a server store in docs/benchmarks.md: tables, plots, method, losses included."""

import statistics
from typing import Any

import store_servers
from embedded_report import flat_lines, told_of
from plots import Bar, bars

Told = dict[str, Any]

NAMES = {"redis": "Redis", "postgres": "PostgreSQL", "nats": "NATS JetStream"}
RATES = {
    "submit single": "single, one after another",
    "submit concurrent": "single, 100 at once",
    "submit bulk": "in bulk",
    "drain": "drain",
    "e2e": "end to end",
}
LESS_IS_BETTER = {
    "latency p50_ms": "p50",
    "latency p95_ms": "p95",
    "latency p99_ms": "p99",
    "idle rss_mb": "MB idle",
    "drain rss_mb": "MB after the drain",
    "import import_ms": "import, ms",
    "drain worker_cpu_us": "CPU, us per task",
    "idle server_per_s": "idle load",
    "idle cpu_percent": "idle CPU, %",
}
DIGITS = {"latency p50_ms": 1, "latency p95_ms": 1, "latency p99_ms": 1, "idle cpu_percent": 1}


FEWEST = 5
"""Rounds that a figure rests on at least. Rates of fewer are shown with all that they vary by, and
said to be so; waits, memory and the like of fewer are not shown: one round that went wrong decides.
"""


def section(told: Told) -> list[str]:
    """The section's lines."""
    return [
        *_head(told),
        *_rates(told),
        *_ratios(told),
        *_costs(told),
        *_losses(told),
        *flat_lines(told),
        *_sides(told),
        *_problems(told),
    ]


def plots(told: Told) -> dict[str, str]:
    """Name to SVG."""
    drawn = {}
    for kind, label in RATES.items():
        found = [
            Bar(_shown(side), rate, _kind(side))
            for side in told["sides"]
            if (rate := _of(told, side, f"{kind} rate")) is not None
        ]
        if len(found) > 1:
            title = f"{NAMES[told['store']]}: tasks per second, {label}"
            found.sort(key=lambda bar: -bar.value)
            drawn[kind.replace(" ", "-")] = bars(title, found, "/s")
    waits = [
        Bar(_shown(side), p50, _kind(side), _of(told, side, "latency p99_ms"))
        for side in told["sides"]
        if (p50 := _sure(told, side, "latency p50_ms")) is not None
    ]
    if len(waits) > 1:
        waits.sort(key=lambda bar: bar.value)
        title = f"{NAMES[told['store']]}: submit to start, p50 and p99"
        drawn["latency"] = bars(title, waits, "ms", 1)
    return drawn


def values(told: Told, side: str, figure: str) -> list[float]:
    """`KIND NAME` in each round in which it was measured."""
    kind, _, name = figure.rpartition(" ")
    outcomes = told["sides"].get(side, {}).get("outcomes", {}).get(kind, [])
    return [value for outcome in outcomes if (value := outcome.get(name)) is not None]


def _of(told: Told, side: str, figure: str) -> float | None:
    """The median over the rounds of `KIND NAME`, if it was measured."""
    found = values(told, side, figure)
    return statistics.median(found) if found else None


def _sure(told: Told, side: str, figure: str) -> float | None:
    """The same, if it rests on enough rounds."""
    found = values(told, side, figure)
    return statistics.median(found) if len(found) >= FEWEST else None


def _spread(values: list[float], digits: int = 0) -> str:
    return told_of(values, digits) if values else "-"


def _n(told: Told, side: str, kind: str) -> int:
    outcomes = told["sides"][side]["outcomes"].get(kind, [])
    return outcomes[-1]["n"] if outcomes else 0


def _shown(side: str) -> str:
    return {"andon": "Andon", "limit": "a bare client"}.get(side, side)


def _kind(side: str) -> str:
    return {"andon": "ours", "limit": "limit"}.get(side, "peer")


def _peers(told: Told) -> list[str]:
    return [side for side in told["sides"] if _kind(side) == "peer"]


def _cell(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _head(told: Told) -> list[str]:
    where, unit = told["machine"], store_servers.UNIT[told["store"]]
    return [
        f"## {NAMES[told['store']]}",
        "",
        f"Measured {where['date']} on {where['cores']} cores ({where['cpu']}, {where['system']}), "
        f"load before the run {where['load_before'][0]:.1f}. {told['server']}, started for the run "
        "on the same machine and shared by all sides, emptied between measurements.",
        "",
        f"Medians of {told['rounds']} rounds, the smallest and the largest in brackets. In each "
        f"round every side has one session in turn. {_few(told)}"
        "A producer process submits; a worker process of the side's own command runs the tasks. "
        "Each side has its recommended fast settings (below) and its own virtual environment; "
        "where a worker has several processes, they have the same cores. Counts are chosen so "
        "that a measurement takes about a second or two.",
        "",
        "Every figure is verified. Andon: each task has exactly one submit, or completion, in the "
        "store's event log, whose times the rates use. Peers: each task writes when it ran into a "
        "slot of its own in a file, so that each counts once and repeats are seen; and what the "
        "peer's own records have as unfinished must be all of them before, and none after. "
        "Submits are counted in the peer's own records. A drain lasts from the first task to the "
        "last, end to end from the first submit to the last task, and latency from the call that "
        "submits to the start of the handler in another process, at 50 a second. Memory is that "
        f"of all the worker's processes. Idle load: {unit} per second on the server, caused by "
        "one worker that has nothing to do.",
        "",
        *_durability(told),
        *_limit(told),
    ]


def _few(told: Told) -> str:
    if told["rounds"] >= FEWEST:
        return ""
    return (
        f"**These are fewer than {FEWEST} rounds**: one that went wrong shifts a median, so read "
        "the brackets; latency, memory and idle load are left out until they are measured in "
        f"{FEWEST}. "
    )


def _durability(told: Told) -> list[str]:
    outcomes = told["sides"]["andon"]["outcomes"].get("drain", [])
    kept = outcomes[0].get("durability") if outcomes else None
    if not kept:
        return []
    said = "; ".join(f"{what.replace('_', ' ')}: {how}" for what, how in kept.items())
    return [f"What survives on this server, as `andon doctor` tells it: {said}.", ""]


def _limit(told: Told) -> list[str]:
    if "limit" not in told["sides"]:
        return []
    alone = f" Measured in a run of its own, {told['limit_at']}." if "limit_at" in told else ""
    return [
        "*A bare client* is one connection that sends the server what Andon's store sent during "
        "the same life of the same tasks (creates of 200, claims and commits of 100), each request "
        "when the one before is answered: the server's work with nothing beside it. It is no "
        f"limit: Andon has several requests under way and may be faster.{alone}",
        "",
    ]


def _rates(told: Told) -> list[str]:
    lines = [
        "### Tasks per second",
        "",
        f"| | {' | '.join(RATES.values())} | tasks drained |",
        "|---|" + "---|" * (len(RATES) + 1),
    ]
    for side in told["sides"]:
        cells = [_spread(values(told, side, f"{kind} rate")) for kind in RATES]
        count = f"{_n(told, side, 'drain'):,}"
        lines.append(f"| {_shown(side)} | {' | '.join(cells)} | {count} |")
    lines.append("")
    for name in plots(told):
        lines += [f"![{name}](benchmarks/{told['store']}-{name}.svg)", ""]
    return lines


def ratio(told: Told, side: str, kind: str) -> float | None:
    """Andon's median rate as a multiple of a side's, if both were measured."""
    ours, theirs = _of(told, "andon", f"{kind} rate"), _of(told, side, f"{kind} rate")
    if theirs is None and kind == "submit bulk":
        theirs = _fastest_single(told, side)
    return ours / theirs if ours and theirs else None


def _fastest_single(told: Told, side: str) -> float | None:
    ways = (_of(told, side, f"submit {way} rate") for way in ("single", "concurrent"))
    return max((rate for rate in ways if rate is not None), default=None)


def _ratios(told: Told) -> list[str]:
    others = [side for side in told["sides"] if side != "andon"]
    if not others:
        return []
    lines = [
        "### Andon's rate, as a multiple of each",
        "",
        "Below 1.0 the other is faster. Where a peer has no bulk call, bulk is held against the "
        "fastest it can submit.",
        "",
        f"| | {' | '.join(RATES.values())} |",
        "|---|" + "---|" * len(RATES),
    ]
    for side in others:
        cells = (_cell(ratio(told, side, kind), 2) for kind in RATES)
        lines.append(f"| {_shown(side)} | {' | '.join(cells)} |")
    return [*lines, ""]


def _costs(told: Told) -> list[str]:
    if all(_sure(told, "andon", figure) is None for figure in LESS_IS_BETTER):
        return []
    unit = store_servers.UNIT[told["store"]]
    heads = [
        {"idle load": f"idle load, {unit}/s"}.get(label, label) for label in LESS_IS_BETTER.values()
    ]
    lines = [
        "### Latency (ms), memory, CPU and idle load",
        "",
        f"| | {' | '.join(heads)} | processes |",
        "|---|" + "---|" * (len(heads) + 1),
    ]
    for side in told["sides"]:
        if side == "limit":
            continue
        found = [(values(told, side, f), DIGITS.get(f, 0)) for f in LESS_IS_BETTER]
        cells = [_spread(v if len(v) >= FEWEST else [], digits) for v, digits in found]
        processes = _cell(_of(told, side, "drain processes"))
        lines.append(f"| {_shown(side)} | {' | '.join(cells)} | {processes} |")
    return [*lines, ""]


def _losses(told: Told) -> list[str]:
    """Everything at which some peer is better, said in words."""
    lines = []
    for kind, label in RATES.items():
        better = {s: r for s in _peers(told) if (r := ratio(told, s, kind)) and r < 1}
        if better:
            said = ", ".join(f"{side} ({1 / better[side]:.2f}x)" for side in better)
            lines.append(f"- {label}, tasks per second: {said}")
    for figure, label in LESS_IS_BETTER.items():
        ours = _sure(told, "andon", figure)
        found = {s: v for s in _peers(told) if (v := _sure(told, s, figure)) is not None}
        better = {s: v for s, v in found.items() if ours is not None and v < ours}
        if better:
            digits = DIGITS.get(figure, 0)
            shown = f"latency, {label}, ms" if figure.startswith("latency") else label
            said = ", ".join(f"{side} ({value:,.{digits}f})" for side, value in better.items())
            lines.append(f"- {shown} (Andon {_cell(ours, digits)}): {said}")
    if not _peers(told):
        return []
    if not lines:
        lines = ["At none of the figures shown here."]
    return ["### Where a peer is better", "", *lines, ""]


def _sides(told: Told) -> list[str]:
    lines = ["### Settings and versions", "", "| | settings | versions |", "|---|---|---|"]
    for side, one in told["sides"].items():
        versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
        lines.append(f"| {_shown(side)} | {one['settings']} | {versions} |")
    return [*lines, ""]


def _problems(told: Told) -> list[str]:
    found = [
        f"- {_shown(side)}: {problem}"
        for side, one in told["sides"].items()
        for problem in dict.fromkeys(one["problems"])
    ]
    found += [f"- {why}" for why in told["missing"]]
    return ["### Not measured, or not as asked", "", *found, ""] if found else []
