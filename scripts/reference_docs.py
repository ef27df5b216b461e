"""Write docs/reference/ from the docstrings of everything that is public.

    python scripts/reference_docs.py            rewrite the pages
    python scripts/reference_docs.py --check    fail when one is stale, or too many

What stands where is `reference.PAGES`. The pages have no part that is written by hand.
"""

import argparse
import sys

from reference import FOLDER, PAGES, SETTING, Reference
from reference.markdown import page_text

INDEX = """\
# Reference

Every public name, generated from the code by `scripts/reference_docs.py`. Times are aware
datetimes in UTC and durations are seconds, unless something else is said. R1, R2 and so on are
[rulings](../rulings.md). The sentences that errors and logs say are on
[a page of their own](../troubleshooting.md).

| page | what it has |
| --- | --- |
{rows}

## The examples

Each example is run by the tests. One that makes no application or worker of its own takes place in
this shop, with a worker running. `await` stands where an `async def` would be around it.

```python
{setting}
```
"""


def pages() -> dict[str, str]:
    """The text of every page by its file name."""
    reference = Reference()
    made = {f"{page.slug}.md": page_text(reference, page) for page in PAGES}
    rows = [
        f"| [{page.title}]({page.slug}.md) | "
        + ", ".join(f"`{reference.title_of(name)}`" for name in page.names)
        + " |"
        for page in PAGES
    ]
    setting = SETTING.read_text(encoding="utf-8").strip()
    made["index.md"] = INDEX.format(rows="\n".join(rows), setting=setting)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when a page is stale")
    arguments = parser.parse_args()
    made = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    if there == made:
        return 0
    if arguments.check:
        stale = sorted(name for name in there | made if there.get(name) != made.get(name))
        print(
            f"docs/reference is stale ({', '.join(stale)}); run: python scripts/reference_docs.py",
            file=sys.stderr,
        )
        return 1
    FOLDER.mkdir(exist_ok=True)
    for name in there.keys() - made.keys():
        (FOLDER / name).unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
