"""The report: what all the files together hold, as Markdown with a chart beside it.

The same outcomes give the same report, byte for byte: nothing in it depends on the run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from andon.demo.analysis import Facts
from andon.demo.chart import Bar, stacked_bars
from andon.demo.files import write_whole
from andon.demo.findings import Outcome

_MOST_PARTS = 16
_MOST_ROWS = 12
_MOST_MODULES = 20
_BAR = 36


class Part(msgspec.Struct, kw_only=True):
    """The sums of one folder right below the root, or of the files beside them."""

    name: str
    files: int = 0
    code: int = 0
    comments: int = 0
    docs: int = 0
    blank: int = 0

    @property
    def lines(self) -> int:
        """All lines."""
        return self.code + self.comments + self.docs + self.blank

    def add(self, facts: Facts) -> None:
        """Count a file in."""
        self.files += 1
        self.code += facts.code
        self.comments += facts.comments
        self.docs += facts.docs
        self.blank += facts.blank


def write_report(path: Path, folder: str, outcomes: Sequence[Outcome]) -> Path:
    """Write the report to `path` and its chart beside it; returns `path`."""
    chart = path.with_suffix(".svg")
    found = [outcome.facts for outcome in outcomes if outcome.facts is not None]
    parts = _parts(found)
    bars = [Bar(p.name, (p.code, p.docs, p.comments, p.blank)) for p in _largest(parts)]
    kinds = ("code", "docstrings", "comments", "blank")
    svg = stacked_bars(f"Lines of {Path(folder).name or folder} by part", kinds, bars)
    write_whole(chart, svg.encode())
    text = "\n".join(_sections(folder, chart.name, outcomes, found, parts))
    write_whole(path, text.encode())
    return path


def _sections(
    folder: str,
    chart: str,
    outcomes: Sequence[Outcome],
    found: Sequence[Facts],
    parts: Sequence[Part],
) -> Iterable[str]:
    yield f"# What is in {_code(folder)}\n"
    yield from _summary(outcomes, found)
    yield "\n## Where the lines are\n"
    yield f"![Lines of code, docstrings, comments and blank lines by part]({chart})\n"
    yield from _table(
        ("part", "files", "lines", "code", "docstrings", "comments"),
        [(_code(p.name), p.files, p.lines, p.code, p.docs, p.comments) for p in _largest(parts)],
    )
    yield "\n## What is imported most\n"
    yield from _imports(found)
    yield "\n## The longest functions\n"
    longest = _top(found, lambda facts: facts.longest)
    yield from _table(
        ("function", "file", "lines"),
        [(_code(f.longest_name), _code(f.path), f.longest) for f in longest if f.longest],
    )
    yield "\n## The files where the flow divides most\n"
    yield from _table(
        ("file", "branches", "functions", "lines of code"),
        [
            (_code(f.path), f.branches, f.functions, f.code)
            for f in _top(found, lambda facts: facts.branches)
            if f.branches
        ],
    )
    yield from _same(outcomes)
    yield from _retried(found)
    yield from _failed(outcomes)


def _summary(outcomes: Sequence[Outcome], found: Sequence[Facts]) -> Iterable[str]:
    whole = Part(name="")
    for facts in found:
        whole.add(facts)
    functions = sum(facts.functions for facts in found)
    classes = sum(facts.classes for facts in found)
    documented = sum(facts.documented for facts in found)
    lines = whole.lines or 1
    yield from _table(
        ("", "number", "share"),
        [
            ("files", len(outcomes), ""),
            ("of them analysed", len(found), _share(len(found), len(outcomes))),
            ("bytes", sum(facts.size for facts in found), ""),
            ("lines", whole.lines, ""),
            ("lines of code", whole.code, _share(whole.code, lines)),
            ("lines of docstrings", whole.docs, _share(whole.docs, lines)),
            ("lines of comments", whole.comments, _share(whole.comments, lines)),
            ("blank lines", whole.blank, _share(whole.blank, lines)),
            ("classes", classes, ""),
            ("functions and methods", functions, ""),
            ("of both, with a docstring", documented, _share(documented, functions + classes)),
        ],
    )


def _imports(found: Sequence[Facts]) -> Iterable[str]:
    counts = Counter(module for facts in found for module in facts.imports)
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_MODULES]
    if not most:
        yield "Nothing is imported."
        return
    width = max(len(module) for module, _ in most)
    yield f"How many of the {len(found):,} files import each module.\n"
    yield "```text"
    for module, count in most:
        bar = "█" * max(1, round(_BAR * count / most[0][1]))
        yield f"{module:<{width}}  {bar:<{_BAR}}  {count:>6,}"
    yield "```"


def _same(outcomes: Sequence[Outcome]) -> Iterable[str]:
    """Files of one content; those with nothing in them say nothing."""
    by_digest: dict[str, list[Facts]] = {}
    for outcome in outcomes:
        if outcome.digest and outcome.facts is not None and outcome.facts.size:
            by_digest.setdefault(outcome.digest, []).append(outcome.facts)
    same = sorted(
        (facts for facts in by_digest.values() if len(facts) > 1),
        key=lambda facts: (-facts[0].size, facts[0].path),
    )
    yield "\n## Files that are the same\n"
    if not same:
        yield "None."
        return
    yield from _table(
        ("bytes", "files", "one of them", "another"),
        [(f[0].size, len(f), _code(f[0].path), _code(f[1].path)) for f in same[:_MOST_ROWS]],
    )


def _retried(found: Sequence[Facts]) -> Iterable[str]:
    again = _top([f for f in found if f.tries > 1], lambda facts: facts.size)
    number = sum(facts.tries > 1 for facts in found)
    yield "\n## Files that took more than one try\n"
    if not again:
        yield "None: every file fitted the budget of its first try."
        return
    yield f"{number:,} files; the largest of them:\n"
    rows = [(_code(f.path), f.size, f.tries) for f in again]
    yield from _table(("file", "bytes", "tries"), rows)


def _failed(outcomes: Sequence[Outcome]) -> Iterable[str]:
    failed = [outcome for outcome in outcomes if outcome.facts is None]
    yield "\n## Files that could not be analysed\n"
    if not failed:
        yield "None.\n"
        return
    yield f"{len(failed):,} files; their tasks are in the dead-letter queue.\n"
    yield from _table(
        ("file", "state", "why"),
        [(_code(f.path), f.state, _cell(f.error)) for f in failed],
    )
    yield ""


def _parts(found: Iterable[Facts]) -> list[Part]:
    parts: dict[str, Part] = {}
    for facts in found:
        head, slash, _ = facts.path.partition("/")
        name = f"{head}/" if slash else "(top level)"
        parts.setdefault(name, Part(name=name)).add(facts)
    return sorted(parts.values(), key=lambda part: (-part.lines, part.name))


def _largest(parts: Sequence[Part]) -> list[Part]:
    """The largest parts, and the sum of the others."""
    if len(parts) <= _MOST_PARTS:
        return list(parts)
    rest = Part(name=f"({len(parts) - _MOST_PARTS + 1} others)")
    for part in parts[_MOST_PARTS - 1 :]:
        rest.files += part.files
        rest.code += part.code
        rest.comments += part.comments
        rest.docs += part.docs
        rest.blank += part.blank
    return [*parts[: _MOST_PARTS - 1], rest]


def _top(found: Sequence[Facts], by: Callable[[Facts], int]) -> list[Facts]:
    return sorted(found, key=lambda facts: (-by(facts), facts.path))[:_MOST_ROWS]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str | int, ...]]) -> Iterable[str]:
    if not rows:
        yield "None."
        return
    numbers = [isinstance(cell, int) for cell in rows[0]]
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---:' if number else '---' for number in numbers)}|"
    for row in rows:
        cells = [f"{cell:,}" if isinstance(cell, int) else cell for cell in row]
        yield f"| {' | '.join(cells)} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _cell(text: str) -> str:
    """Text that a table's cell takes, whatever it says."""
    text = " ".join(text.split())
    for special in "\\|`*_<>[]":
        text = text.replace(special, f"\\{special}")
    return text


def _code(text: str) -> str:
    """A name as code, within a table too."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    if "|" in shown or "`" in shown:
        return _cell(shown)
    return f"`{shown}`"
