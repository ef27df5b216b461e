"""The section on SQLite in docs/benchmarks.md: figures, ratios, losses included."""

import statistics
from typing import Any

import blocks

Told = dict[str, Any]


def section(told: Told) -> list[str]:
    """The section's lines."""
    return [*_head(told), *_rates(told), *_waits(told), *_rest(told), *flat_lines(told)]


def plots(told: Told) -> dict[str, str]:
    """Name to SVG."""
    return {}


def _of(told: Told, name: str, figure: str = "rate") -> float:
    return statistics.median(outcome[figure] for outcome in told["outcomes"][name])


def _spread(told: Told, name: str, figure: str = "rate", digits: int = 0) -> str:
    return told_of([outcome[figure] for outcome in told["outcomes"][name]], digits)


def told_of(values: list[float], digits: int) -> str:
    """The median, the smallest and the largest."""
    least, most = min(values), max(values)
    return f"{statistics.median(values):,.{digits}f} ({least:,.{digits}f} to {most:,.{digits}f})"


def _head(told: Told) -> list[str]:
    where, sizes = told["machine"], told["sizes"]
    ours = told["outcomes"]["andon drain full"][0]["versions"]
    theirs = told["outcomes"]["huey drain full, 1 thread"][0]["versions"]
    versions = ", ".join(f"{k} {v}" for k, v in {**ours, **theirs}.items())
    load = where["load_before"][0]
    return [
        "## SQLite",
        "",
        f"Measured {where['date']} on {where['cores']} cores "
        f"({where['cpu']}, {where['system']}), load before the run {load:.1f}. {versions}.",
        "",
        "No-op tasks with an integer argument; Andon keeps results, history and events. Medians "
        f"of {told['rounds']} interleaved rounds, each figure from fresh processes on a fresh "
        f"file, {sizes['n']:,} tasks for Andon and the limit, {sizes['few']:,} where each task is "
        "a commit of its own (SqliteHuey, awaited singles). Every figure is verified: the tasks "
        "completed (or stored, for submit) were counted in the store, and in the handlers for "
        "Huey, which keeps no record; all counts were exact. The smallest and the largest of the "
        "rounds are in brackets.",
        "",
        "*The limit* is a bare `sqlite3` loop that writes the same rows and indexes in the same "
        "batches with the store's own statements: no encoding, no event loop, no threads.",
        "",
        "SqliteHuey has no batches: one transaction per task and step. Results are off and polling "
        f"is 5 to 10 ms. Left alone it has `synchronous={told['huey_default']}` in this build of "
        "SQLite; beside FULL stands its `fsync=True`, which is FULL, and beside NORMAL its "
        "`fsync=False`, which is OFF and promises less: it may lose more, or the file, in a power "
        "cut.",
        "",
    ]


def _rates(told: Told) -> list[str]:
    threads = told["sizes"]["threads"]
    lines = []
    for sync, other in (("full", "full"), ("normal", "off")):
        lines += [
            f"### Tasks per second, `synchronous={sync}`",
            "",
            f"| | Andon | SqliteHuey ({other}) | Andon / Huey | limit | Andon / limit |",
            "|---|---|---|---|---|---|",
        ]
        single, drains = f"huey submit {other}", [f"huey drain {other}, 1 thread"]
        if threads > 1:
            drains.append(f"huey drain {other}, {threads} threads")
        drain = max(drains, key=lambda name: _of(told, name))
        rows = (
            ("submit in bulk (one stream)", "andon submit bulk", single, "limit submit"),
            ("awaited singles, 100 coroutines", "andon submit 100 coroutines", single, ""),
            ("awaited singles, one after another", "andon submit single", single, ""),
            ("drain, one worker process", "andon drain", drain, "limit drain"),
            ("end to end, producer and worker", "andon e2e", f"huey e2e {other}", ""),
        )
        for label, ours, theirs, bare in rows:
            mine, peer = _of(told, f"{ours} {sync}"), _of(told, theirs)
            line = f"| {label} | {_spread(told, f'{ours} {sync}')} | {_spread(told, theirs)} | "
            line += f"{mine / peer:.1f} | "
            if bare:
                most = f"{bare} {sync}"
                line += f"{_spread(told, most)} | {mine / _of(told, most):.0%} |"
            else:
                line += "| |"
            lines.append(line)
        lines += ["", f"Huey's drain is with {drain.rpartition(', ')[2]}.", ""]
    return lines


def _waits(told: Told) -> list[str]:
    lines = [
        "### Submit to start, in another process, 50 a second (ms)",
        "",
        "| | p50 | p95 | p99 |",
        "|---|---|---|---|",
    ]
    for label, name in (
        ("Andon, FULL", "andon latency full"),
        ("Andon, NORMAL", "andon latency normal"),
        ("SqliteHuey, FULL", "huey latency full"),
        ("SqliteHuey, OFF", "huey latency off"),
    ):
        cells = (_spread(told, name, figure, 1) for figure in ("p50_ms", "p95_ms", "p99_ms"))
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return [*lines, ""]


def _rest(told: Told) -> list[str]:
    imports, workers = told["imports"], told.get("workers", [])
    helped = imports["andon_help_ms"]
    help_ms = "not there yet" if helped is None else f"{helped:.0f} ms"
    return [
        "### What a process costs",
        "",
        "| | |",
        "|---|---|",
        f"| `import andon`, beyond Python's own start | {imports['import_andon_ms']:.0f} ms |",
        f"| the same and `andon.Andon` | {imports['import_andon_app_ms']:.0f} ms |",
        f"| `andon --help`, the whole process | {help_ms} |",
        *(_worker(workers) if len(workers) >= told["rounds"] else ()),
        "",
    ]


def _worker(workers: list[dict[str, float]]) -> list[str]:
    def of(figure: str, digits: int = 1) -> str:
        return told_of([worker[figure] for worker in workers], digits)

    tasks = round(workers[0]["tasks"])
    return [
        f"| a worker with nothing to do, % of a core | {of('idle_cpu_percent', 2)} |",
        f"| its memory (RSS) idle, MB | {of('rss_idle_mb')} |",
        f"| after {tasks // 2:,} tasks, MB | {of('rss_half_mb')} |",
        f"| after {tasks:,} tasks, MB | {of('rss_after_mb')} |",
        f"| at its most, MB | {of('rss_peak_mb')} |",
    ]


def _within(flat: Told) -> str:
    if not all("within" in cost for cost in flat["costs"].values()):
        return ""
    return "In brackets: the smallest and the largest ratio of a fifth of the rounds. "


def flat_lines(told: Told) -> list[str]:
    """The table of flatness, if it was measured."""
    flat = told.get("flat")
    if flat is None:
        return []
    lines = [
        f"### Flatness: {flat['few']:,} against {flat['many']:,} stored tasks",
        "",
        "Microseconds per task in batches of 100 (create, claim, commit), per call (the others); "
        f"medians of {flat['rounds'] - 5} rounds, interleaved{flat['how']}. {_within(flat)}"
        f"A run of its own, {flat['date']}.",
        "",
        f"| | {flat['few']:,} | {flat['many']:,} | ratio |",
        "|---|---|---|---|",
    ]
    for name, cost in flat["costs"].items():
        ratio = blocks.told(cost["ratio"], cost.get("within", []))
        cells = f"{cost['few_us']:.1f} | {cost['many_us']:.1f} | {ratio}"
        lines.append(f"| {name} | {cells} |")
    return [*lines, ""]
