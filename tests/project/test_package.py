"""What a package index and an installer are told."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXTRA = re.compile(r"\bandon\[([a-z,]+)\]")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/**/*.md"),
    *ROOT.glob("examples/**/*.toml"),
    *ROOT.glob("examples/**/Dockerfile"),
    *ROOT.glob("src/**/*.py"),
]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def readme(project: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    """The long description, as the build's hook makes it. Hatchling itself is there in builds
    only; of it the hook takes a base class."""
    assert project["dynamic"] == ["readme"]
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hatch_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hatch_build)
    hook = hatch_build.ReadmeHook()
    hook.root = str(ROOT)
    metadata = dict(project)
    hook.update(metadata)
    assert metadata["readme"]["content-type"] == "text/markdown"
    return metadata["readme"]["text"]


def test_every_extra_that_is_named_anywhere_is_one(project: dict[str, Any]) -> None:
    named = {
        (extra, page.relative_to(ROOT).as_posix())
        for page in PAGES
        for found in EXTRA.findall(page.read_text(encoding="utf-8"))
        for extra in found.split(",")
    }
    assert {extra for extra, _ in named} > {"cli", "server"}
    extras = project["optional-dependencies"]
    assert [one for one in sorted(named) if one[0] not in extras] == []


def test_all_has_every_extra(project: dict[str, Any]) -> None:
    extras = project["optional-dependencies"]
    [everything] = extras["all"]
    assert EXTRA.fullmatch(everything)
    assert set(EXTRA.findall(everything)[0].split(",")) == extras.keys() - {"all"}


def test_links_are_whole_where_an_index_shows_them(project: dict[str, Any], readme: str) -> None:
    links = LINK.findall(readme)
    source = project["urls"]["Source"]
    assert f"{source}/blob/main/docs/guide.md" in links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    for link in links:
        path = link.removeprefix(f"{source}/blob/main/").partition("#")[0]
        if path != link:
            assert (ROOT / path).exists(), link


def test_what_is_shown_is_otherwise_the_readme(readme: str) -> None:
    ours = (ROOT / "README.md").read_text(encoding="utf-8")
    assert LINK.sub("](link)", readme) == LINK.sub("](link)", ours)


def test_the_first_thing_to_install_has_the_command_line() -> None:
    installs = re.findall(r"^\$ pip install .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert installs[0] == "$ pip install 'andon[cli]'"


def test_the_python_that_runs_this_is_among_those_named(project: dict[str, Any]) -> None:
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    named = [
        one.rpartition(" ")[2]
        for one in project["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", one)
    ]
    assert minor in named
    assert named[0] == project["requires-python"].removeprefix(">=")
    assert named == [f"3.{int(named[0][2:]) + i}" for i in range(len(named))]


def test_no_page_holds_what_a_merge_left() -> None:
    left = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
    assert [page for page in PAGES if left.search(page.read_text(encoding="utf-8"))] == []
