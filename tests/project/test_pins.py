"""A fresh machine gets the versions that were tested: everything asked for is pinned."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+( ; .+)?")


def project_name(requirement: str) -> str:
    """Return the name that a requirement starts with, in the one spelling used to compare."""
    name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(pyproject: dict[str, Any]) -> Iterator[str]:
    yield from pyproject["build-system"]["requires"]
    yield from pyproject["project"]["dependencies"]
    for extra in pyproject["project"]["optional-dependencies"].values():
        yield from extra
    for group in pyproject["dependency-groups"].values():
        yield from (entry for entry in group if isinstance(entry, str))


def test_everything_that_pyproject_asks_for_is_pinned() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pinned = {project_name(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    asked = {project_name(requirement) for requirement in requirements(pyproject)}
    assert asked - {"andon"} <= pinned


def test_a_constraint_is_an_exact_pin_and_nothing_else() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
