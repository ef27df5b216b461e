"""The andon board: the state of every station at a glance, several times a second.

Drawn with Rich, from a `View` alone; a frame asks the store nothing.
"""

import time
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from andon.demo.tally import named
from andon.demo.view import View
from andon.model.words import TERMINAL, State

_STYLES: dict[State, str] = {
    State.BLOCKED: "grey62",
    State.SCHEDULED: "cyan",
    State.PENDING: "bright_blue",
    State.ACTIVE: "bold yellow",
    State.RETRY: "magenta",
    State.COMPLETED: "bold green",
    State.FAILED: "bold red",
}
_ALWAYS = (
    State.BLOCKED,
    State.PENDING,
    State.ACTIVE,
    State.RETRY,
    State.COMPLETED,
    State.FAILED,
)
_SPARKS = " ▁▂▃▄▅▆▇█"
_ROWS = 6
_MOST_ENDED = 3
"""Rows of the failures that tasks ended with; the others are for runs that are tried again."""
_WIDEST = 120
_MOST_FLOWS = 2
"""Flows that are shown, the newest ones."""


class Board:
    """The board on a terminal, while entered."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> "Board":
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def show(self, view: View, *, last: bool = False) -> None:
        """Draw a frame; the last one stays on the terminal."""
        frame = draw(view, width=min(self._console.width, _WIDEST), ended=last)
        self._live.update(frame, refresh=True)

    def say(self, text: str) -> None:
        """Say something above the board."""
        self._console.print(text)


def draw(view: View, *, width: int, ended: bool = False) -> RenderableType:
    """One frame."""
    elapsed = time.monotonic() - view.started
    title = Text.assemble(("ANDON", "bold"), "  ", (str(view.place.folder), "cyan"))
    if view.place.round.number > 1:
        title.append(f"  round {view.place.round.number}", "dim")
    body: list[RenderableType] = [
        _lamps(view),
        Text(),
        _tree(view),
        _progress(view, width),
        _speed(view, width),
        Text(),
        _lists(view),
        Text(),
        _workers(view),
    ]
    if not ended:
        body += [Text(), _hint(view)]
    return Panel(
        Group(*body),
        title=title,
        title_align="left",
        subtitle=Text(_clock(elapsed), "dim"),
        subtitle_align="right",
        border_style="green" if ended else "blue",
        padding=(1, 2),
        width=width,
    )


def _lamps(view: View) -> RenderableType:
    """One lamp per state: lit while a task is in it."""
    counts = view.tally.counts
    others = [s for s in State if s not in _ALWAYS and counts[s]]
    grid = Table.grid(expand=True)
    cells: list[RenderableType] = []
    for state in (*_ALWAYS, *others):
        grid.add_column(justify="center", ratio=1)
        number = counts[state]
        style = _STYLES.get(state, "bold red" if state in TERMINAL else "white")
        lamp = Text.assemble(
            (f"{number:,}", style if number else "dim"),
            "\n",
            ("● " if number else "○ ", style if number else "dim"),
            (state.value, "" if number else "dim"),
        )
        cells.append(lamp)
    grid.add_row(*cells)
    return grid


def _tree(view: View) -> RenderableType:
    """The schedule, and what it has begun: each flow with its three parts."""
    grid = Table.grid(expand=True, padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    watch = Text.assemble("watch, each second  ", (f"{view.fired:,}", "bold"), " so far")
    grid.add_row(Text("schedule", "dim"), watch, Text())
    shown = sorted(view.flows)[-_MOST_FLOWS:]
    for number in shown:
        grid.add_row(Text(f"└ flow {number}", "dim"), _flow(view, number), _what(view, number))
    for _ in range(_MOST_FLOWS - len(shown)):
        grid.add_row(Text(), Text(), Text())
    return grid


def _flow(view: View, number: int) -> Text:
    """One flow: scan, the analyses, report."""
    names, report = view.place.names, view.report(number)
    singles = (view.state(names.scan(number)), view.state(report))
    ended = view.ended(number) - sum(state in TERMINAL for state in singles)
    files = len(view.flows[number])
    if ended == files:
        analyses = State.COMPLETED
    else:
        analyses = State.ACTIVE if singles[0] in TERMINAL else State.BLOCKED
    arrow = (" ─► ", "dim")
    return Text.assemble(
        _lamp(singles[0]),
        "scan",
        arrow,
        _lamp(analyses),
        f"analyze {ended:,} of {files:,}",
        arrow,
        _lamp(singles[1]),
        "report",
    )


def _lamp(state: State | None) -> tuple[str, str]:
    lit = state is not None and state not in (State.BLOCKED, State.PENDING)
    return ("● " if lit else "○ ", _STYLES.get(state, "bold red") if lit and state else "dim")


def _what(view: View, number: int) -> Text:
    """What a flow is of."""
    files = list(view.flows[number])
    if number == 1:
        return Text("all files", "dim")
    more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
    return Text(f"changed: {files[0]}{more}", "cyan")


def _progress(view: View, width: int) -> RenderableType:
    """How far the newest flow is."""
    known = bool(view.flows)
    ended = view.ended(view.newest) if known else 0
    total = view.total(view.newest) if known else 0
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    bar = ProgressBar(
        total=max(total, 1),
        completed=ended,
        width=None if width > 40 else 20,
        style="grey30",
        complete_style="green",
        finished_style="green",
    )
    share = f"{100 * ended / total:3.0f} %  {ended:,} of {total:,}" if known else "…"
    grid.add_row(bar, Text(share, "bold"))
    return grid


def _speed(view: View, width: int) -> RenderableType:
    tally = view.tally
    taken = 90 if tally.lost else 76
    rates = tally.rates(view.now, seconds=max(5, min(40, width - taken)))
    middle, most = tally.percentiles(0.5, 0.95)
    grid = Table.grid(expand=True, padding=(0, 2))
    grid.add_column(no_wrap=True, ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    text = Text.assemble(
        (_spark(rates), "green"),
        "  ",
        (f"{tally.rate(view.now):,.0f}", "bold"),
        " tasks/s",
    )
    figures = Text.assemble(
        "a run takes ",
        (_ms(middle), "bold"),
        ("  p95 ", "dim"),
        (_ms(most), "bold"),
        ("  retries ", "dim"),
        (f"{tally.retried:,}", "bold magenta" if tally.retried else "dim"),
        ("  lost ", "dim"),
        (f"{len(tally.lost):,}", "bold red" if tally.lost else "dim"),
    )
    if tally.lost:
        figures.append("  recovered ", "dim")
        figures.append(f"{tally.recovered:,}", "bold green")
    grid.add_row(text, figures)
    return grid


def _lists(view: View) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 2))
    grid.add_column(ratio=2)
    grid.add_column(ratio=3)
    grid.add_row(_slowest(view), _failures(view))
    return grid


def _slowest(view: View) -> RenderableType:
    rows = [
        (Text(f"{_ms(took):>7}", "yellow"), Text(named(task, view.paths)))
        for took, task in view.tally.slowest
        if view.paths.get(task, "").endswith(".py")
    ]
    return _rows("slowest", rows)


def _failures(view: View) -> RenderableType:
    rows: list[tuple[Text, Text]] = []
    ended = list(reversed(view.tally.failures))[:_MOST_ENDED]
    for failure in [*ended, *reversed(view.tally.setbacks)]:
        style = _STYLES.get(failure.state, "bold red")
        name, why = failure.shown(view.paths)
        text = Text.assemble(name, (f"  {why}", "dim"))
        rows.append((Text(f"{failure.state.value:<6}", style), text))
    return _rows("last failures", rows)


def _rows(title: str, rows: Iterable[tuple[Text, Text]]) -> RenderableType:
    """A list of a fixed height, so that the board does not jump."""
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    shown = list(rows)[:_ROWS]
    for row in shown:
        grid.add_row(*row)
    for _ in range(_ROWS - len(shown)):
        grid.add_row(Text(), Text())
    return Group(Text(title, "bold underline"), grid)


def _workers(view: View) -> RenderableType:
    """The workers that the store knows to be alive, with what each has done."""
    text = Text.assemble(("workers ", "bold"), overflow="ellipsis", no_wrap=True)
    for info in view.workers:
        done = view.tally.by_worker[info.id]
        text.append("  ● ", "green" if info.state == "running" else "yellow")
        text.append(f"{info.pid}")
        text.append(f" {done:,} runs", "dim")
    if not view.workers:
        text.append("  starting", "dim")
    if view.replaced:
        text.append(f"  {view.replaced} died and replaced", "bold red")
    if view.doing:
        text.append(f"   {view.doing}", "dim")
    return text


def _hint(view: View) -> RenderableType:
    text = Text(no_wrap=True, overflow="ellipsis", style="dim")
    if view.pids:
        text.append(f"kill -9 {view.pids[0]} to lose a worker; ")
    text.append("Ctrl-C to stop; the same command goes on")
    if view.resumed:
        text.append(f" (this one went on from {view.resumed:,} done)")
    return text


def _spark(rates: list[int]) -> str:
    most = max(rates, default=0) or 1
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[0 if not rate else max(1, round(top * rate / most))] for rate in rates)


def _ms(ms: int) -> str:
    return f"{ms:,} ms" if ms < 10_000 else f"{ms / 1000:,.1f} s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
