"""Pages of which parts are made from the code: rewritten in place, or checked for staleness."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

PART = re.compile(r"(<!-- generated: ([\w-]+) -->)\n.*?(<!-- end -->)", re.DOTALL)
"""What stands between the markers is made anew."""


def rewritten(page: Path, parts: Mapping[str, Callable[[], str]]) -> str:
    """The page with every part made anew; every part must be there once."""
    text = page.read_text(encoding="utf-8")
    found = [match[2] for match in PART.finditer(text)]
    if sorted(found) != sorted(parts):
        raise SystemExit(f"{page.name} has the parts {found}, expected {list(parts)}.")
    return PART.sub(lambda match: f"{match[1]}\n\n{parts[match[2]]().strip()}\n\n{match[3]}", text)


def main(page: Path, parts: Mapping[str, Callable[[], str]], *, about: str) -> int:
    """The command line of a script that makes one page; the exit code."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when the page is stale")
    arguments = parser.parse_args()
    new = rewritten(page, parts)
    if page.read_text(encoding="utf-8") == new:
        return 0
    if arguments.check:
        script = Path(sys.argv[0]).name
        print(f"docs/{page.name} is stale; run: python scripts/{script}", file=sys.stderr)
        return 1
    page.write_text(new, encoding="utf-8")
    return 0
