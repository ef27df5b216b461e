"""The report says what the files hold, whatever they are called."""

import xml.etree.ElementTree as ET
from pathlib import Path

from andon.demo.analysis import analyse
from andon.demo.findings import Outcome, merged
from andon.demo.names import Names
from andon.demo.report import write_report


def outcome(path: str, source: str, tries: int = 1) -> Outcome:
    return Outcome(path=path, state="completed", facts=analyse(source.encode(), path, tries=tries))


def test_it_sums_up_and_lists(tmp_path: Path) -> None:
    found = [
        outcome("a/one.py", "import os\n"),
        outcome("a/two.py", "import os, sys\n", tries=2),
        Outcome(path="bad.py", state="failed", facts=None, error="SyntaxError: no"),
    ]
    text = write_report(tmp_path / "report.md", "/code", found).read_text()
    assert "| files | 3 |" in text
    assert "| of them analysed | 2 | 66.7 % |" in text
    assert "os   ████████████████████████████████████       2" in text
    assert "| `a/two.py` | 15 | 2 |" in text
    assert "| `bad.py` | failed | SyntaxError: no |" in text
    assert "![Lines of code, docstrings, comments and blank lines by part](report.svg)" in text


def test_its_chart_is_an_image(tmp_path: Path) -> None:
    many = [outcome(f"part{n}<&/x.py", "x = 1\n" * (n + 1)) for n in range(30)]
    write_report(tmp_path / "report.md", "/code & more", many)
    root = ET.parse(tmp_path / "report.svg").getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "part29<&/" in texts
    assert "(15 others)" in texts


def test_a_name_cannot_break_a_table(tmp_path: Path) -> None:
    odd = [outcome("a|b`c\n.py", "x = 1\n"), Outcome(path="|", state="failed", facts=None)]
    text = write_report(tmp_path / "report.md", "/code", odd).read_text()
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert r"| \| | failed |  |" in rows


def test_nothing_at_all_makes_a_report_too(tmp_path: Path) -> None:
    failed = [Outcome(path="bad.py", state="failed", facts=None, error="no")]
    text = write_report(tmp_path / "report.md", "/code", failed).read_text()
    assert "Nothing is imported." in text


def test_the_same_outcomes_give_the_same_bytes(tmp_path: Path) -> None:
    found = [outcome("one.py", "import os\n"), outcome("two.py", "import sys\n")]
    first = write_report(tmp_path / "a" / "report.md", "/code", found).read_bytes()
    again = write_report(tmp_path / "b" / "report.md", "/code", found).read_bytes()
    assert first == again


def test_a_later_flow_keeps_what_has_not_changed_and_drops_what_is_gone(tmp_path: Path) -> None:
    names = Names(folder="/code", home=str(tmp_path), prefix="r-1")
    first = [outcome(path, "import os\n") for path in ("a.py", "b.py", "gone.py")]
    merged(names, 1, first, there={"a.py", "b.py", "gone.py"})
    changed = outcome("b.py", "import sys\n")
    assert merged(names, 2, [changed], there={"a.py", "b.py"}) == [first[0], changed]


def test_files_of_one_content_are_named(tmp_path: Path) -> None:
    found = [
        Outcome(path=o.path, state=o.state, facts=o.facts, digest=digest)
        for o, digest in (
            (outcome("a.py", "x = 1\n"), "1"),
            (outcome("b.py", "x = 1\n"), "1"),
            (outcome("c.py", "x = 2\n"), "2"),
            (outcome("d.py", ""), "3"),
            (outcome("e.py", ""), "3"),
        )
    ]
    text = write_report(tmp_path / "report.md", "/code", found).read_text()
    assert "| 6 | 2 | `a.py` | `b.py` |" in text
    assert "`d.py`" not in text
