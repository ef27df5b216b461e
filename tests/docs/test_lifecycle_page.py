"""docs/lifecycle.md tells what the code does: its generated parts are fresh, its words complete."""

import re
import subprocess
import sys
from pathlib import Path

from andon.model.words import State

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lifecycle.md"


def test_the_generated_parts_are_fresh() -> None:
    script = ROOT / "scripts" / "lifecycle_docs.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_state_has_its_paragraph() -> None:
    told = set(re.findall(r"\*\*`([a-z]+)`\*\*", PAGE.read_text()))
    assert told == {state.value for state in State}


def test_every_ruling_that_the_project_cites_has_its_entry() -> None:
    entries = set(re.findall(r"^- \*\*(R\d+) ", rulings(), re.MULTILINE))
    assert entries == {f"R{number}" for number in range(1, 43)}
    sources = [PAGE, *(ROOT / "src").rglob("*.py")]
    cited = {r for path in sources for r in re.findall(r"\bR\d+\b", path.read_text())}
    assert cited <= entries


def test_code_that_cites_a_ruling_names_its_page() -> None:
    sources = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".py", ".sql", ".lua")]
    bare: dict[str, list[str]] = {}
    for path in sources:
        written = re.sub(r"\n\s*(?:#:?|--)?\s*", " ", path.read_text())
        rest = re.sub(r"docs/rulings\.md, R\d+(?:(?:, | and )R\d+)*", "", written)
        if found := re.findall(r"\bR\d{1,2}\b", rest):
            bare[path.name] = found
    assert bare == {}


def rulings() -> str:
    return (ROOT / "docs" / "rulings.md").read_text()
