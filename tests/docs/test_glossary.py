"""The glossary names what there is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text()


@pytest.fixture(scope="module")
def source() -> str:
    files = [p for kind in ("py", "sql", "lua") for p in (ROOT / "src").rglob(f"*.{kind}")]
    return "\n".join(file.read_text() for file in files)


def test_every_name_in_the_glossary_is_one_of_the_code(source: str) -> None:
    names = set(re.findall(r"`([A-Za-z_]\w*)`", PAGE))
    assert len(names) > 10
    assert {name for name in names if not re.search(rf"\b{name}\b", source)} == set()


def test_every_place_in_the_glossary_is_there() -> None:
    places = re.findall(r"\| `([\w/*.]+)`(?:, `([\w/*.]+)`)* \|$", PAGE, re.MULTILINE)
    assert len(places) > 50
    package = ROOT / "src" / "andon"
    named = {place for row in places for place in row if place}
    assert {place for place in named if not any(package.glob(place))} == set()
