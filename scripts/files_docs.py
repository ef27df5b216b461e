"""Write the list of source files in docs/files.md, with the first sentence of each docstring.

    python scripts/files_docs.py            rewrite the page
    python scripts/files_docs.py --check    fail when the page is stale

What stands between `<!-- generated: files -->` and `<!-- end -->` is generated.
"""

import ast
import re
import sys
from pathlib import Path

import generated

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "andon"
PAGE = ROOT / "docs" / "files.md"


def listing() -> str:
    """A table for each folder, in the order of their names."""
    lines: list[str] = []
    folders = sorted({path.parent for path in sources()})
    for folder in folders:
        name = folder.relative_to(SOURCES.parent).as_posix()
        lines += [f"## {name}", "", "| file | what it does |", "|---|---|"]
        for path in sources():
            if path.parent == folder:
                link = f"../{path.relative_to(ROOT).as_posix()}"
                lines.append(f"| [{path.name}]({link}) | {first_sentence(path)} |")
        lines.append("")
    return "\n".join(lines)


def sources() -> list[Path]:
    return sorted(path for path in SOURCES.rglob("*.py") if path.name != "__init__.py")


def first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if docstring is None:
        raise SystemExit(f"{path.relative_to(ROOT)} has no docstring that says what it does.")
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0]
    return sentence.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(generated.main(PAGE, {"files": listing}, about=__doc__ or ""))
