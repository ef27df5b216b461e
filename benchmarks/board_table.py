"""What `board.py` measured, beside what is wanted, as one table in Markdown."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from board_pages import HAS_NO_INDEX

Row = tuple[str, str, str, str]
"""What it is; what was measured; what is wanted; what was counted besides, whatever the load."""

HEAD: Row = ("what", "measured", "wanted", "counted")


def table(told: Sequence[dict[str, Any]]) -> str:
    """Store by store."""
    lines: list[str] = []
    for one in told:
        lines += ["", f"## {one['store']}: {one['tasks']:,} tasks", "", one["about"], ""]
        rows = [HEAD, ("---",) * 4]
        for part, rows_of in _ROWS.items():
            if part in one:
                rows += rows_of(one[part])
        size = one["assets_bytes"] / 1000
        rows.append(("script and style, compressed", f"{size:.1f} kB", "60 kB", _verdict(size, 60)))
        loads = [load for part in _ROWS if part in one for load in one[part]["load"]]
        lines += ["| " + " | ".join(row) + " |" for row in rows]
        lines += ["", f"Load of the machine: {min(loads)} to {max(loads)}." if loads else ""]
    return "\n".join(lines)


def _verdict(measured: float, most: float) -> str:
    return "kept" if measured <= most else "**not kept**"


def _pages(told: dict[str, Any]) -> Iterator[Row]:
    for name, one in told.items():
        if name == "load":
            continue
        most = 50 if name == "andon" else 150
        wanted = f"p95 {most} ms"
        if name in HAS_NO_INDEX:
            wanted += " (no index)"
        counted = f"{_verdict(one['p95'], most)}; CPU {one['cpu']} + {one['server_cpu']} ms"
        if "commands" in one:
            counted += f", {one['commands']} commands"
        yield name, f"p50 {one['p50']}, p95 {one['p95']} ms", wanted, f"{counted}, {one['kb']} kB"


def _paint(told: dict[str, Any]) -> Iterator[Row]:
    if "skipped" in told:
        yield "first paint", told["skipped"], "300 ms", ""
        return
    for name, one in told["first_paint_ms"].items():
        yield (
            f"first paint: {name}",
            f"{one['p50']} ms, most {one['most']}",
            "300 ms",
            f"{_verdict(one['p50'], 300)}; first byte after {one['first_byte']} ms",
        )
    found = told["failure"]
    yield (
        "a failure found, read and run again",
        f"{found['clicks']} clicks, {found['seconds']} s",
        "5 clicks",
        _verdict(found["clicks"], 5),
    )


def _viewers(told: dict[str, Any]) -> Iterator[Row]:
    one, many = told["1"], told["100"]
    cpu = round(many["cpu_percent"] - one["cpu_percent"], 2)
    rss = round(many["rss_mb"] - one["rss_mb"], 1)
    yield "100 viewers more than one: CPU", f"{cpu} % of a core", "5 %", _verdict(cpu, 5)
    yield "100 viewers more than one: memory", f"{rss} MB", "60 MB", _verdict(rss, 60)
    nobody = told["nobody"]
    for count in ("1", "100"):
        yield (
            f"drain while {count} look, beside nobody",
            _interval(told[count]["rate_beside_nobody"]),
            "0.98",
            f"CPU of a task: {_interval(told[count]['task_us_beside_nobody'])}; "
            f"{told[count]['rate']:,.0f} a second, nobody: {nobody['rate']:,.0f}; "
            f"CPU of the service {told[count]['cpu_percent']} %, nobody: "
            f"{nobody['cpu_percent']} %; of those who look {told[count]['looking_percent']} %",
        )
    yield (
        "drain of nobody, beside another",
        _interval(nobody["rate_beside_nobody"]),
        "",
        f"CPU of a task: {_interval(nobody['task_us_beside_nobody'])}; "
        f"what is of the machine, over {told['drains']} drains",
    )


def _costs(told: dict[str, Any]) -> Iterator[Row]:
    for count in ("1", "100", "nobody"):
        one = told[count]
        took = ", ".join(f"{part} {_signed(one[part]['mean'])}" for part in one["took"])
        beside = "nobody again" if count == "nobody" else "nobody"
        yield (
            f"{count} at {told['rate']:,} tasks a second, more than {beside}",
            f"{_signed(one['all']['mean'])} ({_signed(one['all']['low'])} to "
            f"{_signed(one['all']['high'])}) % of a core",
            "" if count == "nobody" else f"{2 * told['cores']} %",
            f"{took}; over {told['rounds']} rounds",
        )


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def _interval(ratio: dict[str, float]) -> str:
    """The mean, and the interval that holds 95 % of them."""
    return f"{ratio['mean']} ({ratio['low']} to {ratio['high']})"


def _streams(told: dict[str, Any]) -> Iterator[Row]:
    count = told["asked_for"]
    yield (
        f"{count:,} streams open",
        f"{told['with_a_fragment']:,} after {told['opened_s']} s",
        f"{count:,}",
        f"{told['rss_mb_more']} MB, {told['cpu_percent_idle']} % of a core at rest; the first page "
        f"meanwhile {told['page_meanwhile_ms']} ms",
    )
    yield (
        "seen alike after all came back",
        f"{told['alike_after_coming_back']:,}",
        f"{count:,}",
        "by `Last-Event-ID`",
    )


def _nobody(told: dict[str, Any]) -> Iterator[Row]:
    yield (
        "a service that nobody looks at",
        f"{told['service_percent']} % of a core",
        "",
        f"with its timekeeper; the server {told['server_percent']} %",
    )


def _rollup(told: dict[str, Any]) -> Iterator[Row]:
    yield (
        "cost of nobody looking: roll-ups",
        f"{told['percent']} % of a core",
        "0.1 %",
        f"{_verdict(told['percent'], 0.1)}; {told['ms']} ms for a minute of {told['tasks']:,} runs",
    )


_ROWS: dict[str, Callable[[dict[str, Any]], Iterator[Row]]] = {
    "pages": _pages,
    "paint": _paint,
    "viewers": _viewers,
    "costs": _costs,
    "streams": _streams,
    "nobody": _nobody,
    "rollup": _rollup,
}
