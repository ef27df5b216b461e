"""docs/troubleshooting.md has everything that Andon says when something goes wrong, and nothing
that it only said once."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pytest
from scripts.said import ROOT, Said, findings, log_lines, problems, shortened, store_errors

import andon
from andon.model.errors import AndonError
from andon.service.problems import KINDS

PAGE = ROOT / "docs" / "troubleshooting.md"
NOT_SHOWN = ("andon.bench", "andon.demo", "andon.testing")

_SPAN = re.compile(r"``\s(.+?)\s``|`([^`]+)`")


def section(title: str) -> str:
    """One part of the page, from its heading to the next."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} has no section '## {title}'"
    return found[1]


def first_cells(title: str) -> list[str]:
    """What the rows of the section's table are about, in their order."""
    rows = [line for line in section(title).splitlines() if line.startswith("| `")]
    spans = (_SPAN.match(row.removeprefix("| ")) for row in rows)
    return [span[1] or span[2] for span in spans if span]


@cache
def said_by(collect: Callable[[], list[Said]]) -> dict[str, str]:
    """What is said, with a place that says it."""
    return {said.text: said.place for said in collect()}


TABLES = {
    "Log lines": log_lines,
    "What a store says": store_errors,
    "What doctor finds": findings,
}


@pytest.mark.parametrize("title", TABLES)
def test_whatever_is_said_has_its_row(title: str) -> None:
    missing = said_by(TABLES[title]).keys() - set(first_cells(title))
    assert not missing, "\n".join(
        [
            f"docs/troubleshooting.md, '## {title}', lacks a row for what the code says. Write, in "
            "the place that its first letters have, what it means and what to do:",
            *(f"| {quoted(text)} | … | … |   ({said_by(TABLES[title])[text]})" for text in missing),
        ]
    )


@pytest.mark.parametrize("title", TABLES)
def test_every_row_is_of_something_that_is_said(title: str) -> None:
    stale = [text for text in first_cells(title) if text not in said_by(TABLES[title])]
    assert not stale, (
        f"docs/troubleshooting.md, '## {title}': nothing says this any more; take the row out, or "
        "give it the new words:\n" + "\n".join(stale)
    )


@pytest.mark.parametrize("title", [*TABLES, "Errors"])
def test_rows_stand_where_one_looks_for_them(title: str) -> None:
    keys = [re.sub(r"^[^A-Za-z]+", "", text).casefold() for text in first_cells(title)]
    late = [key for key, before in zip(keys[1:], keys, strict=False) if key < before]
    assert not late, f"docs/troubleshooting.md, '## {title}' is not sorted at: {late}"


def test_no_log_line_is_without_words_of_its_own() -> None:
    wordless = [
        place for text, place in said_by(log_lines).items() if not re.search(r"[a-z]{3}", text)
    ]
    assert not wordless, f"Nobody can look up what has no words; give it some: {wordless}"


def test_every_error_has_its_row() -> None:
    told = {cell.rpartition(".")[2] for cell in first_cells("Errors")}
    missing = sorted({kind.__name__ for kind in kinds_of_error()} - told)
    assert not missing, (
        f"docs/troubleshooting.md, '## Errors', lacks a row for {', '.join(missing)}: what it "
        "means, and what to do."
    )


def test_errors_are_told_with_their_answers_over_http() -> None:
    rows = section("Errors").splitlines()
    for error, kind in KINDS.items():
        if error is AndonError:
            continue
        answer = f"| {kind.status} `{kind.name}` |"
        row = next(row for row in rows if row.startswith(f"| `{error.__name__}` |"))
        assert answer in row, f"docs/troubleshooting.md, '## Errors': {error.__name__} is {answer}"


def test_every_problem_over_http_has_its_row() -> None:
    told = set(first_cells("Problems over HTTP"))
    told |= {kind.name for kind in KINDS.values()}
    missing = [f"{name} ({place})" for name, place in said_by(problems).items() if name not in told]
    assert not missing, (
        "docs/troubleshooting.md, '## Problems over HTTP', lacks a row for " + ", ".join(missing)
    )
    stale = set(first_cells("Problems over HTTP")) - said_by(problems).keys()
    assert not stale, f"No service answers this any more: {', '.join(stale)}"


def test_every_exit_code_of_the_command_line_has_its_row() -> None:
    used = {0, 2}  # click's own
    for path in (ROOT / "src" / "andon" / "cli").rglob("*.py"):
        found = re.findall(r"\b(?:Exit|sys\.exit)\((\d+)\)", path.read_text())
        used |= {int(code) for code in found}
    told = set(re.findall(r"^\| (\d+) \|", section("The command line"), re.MULTILINE))
    assert {int(code) for code in told} == used


def test_the_collector_follows_helpers_to_those_who_give_them_words() -> None:
    lines = said_by(log_lines)
    assert lines["timers wait for the store: …"].startswith("src/andon/engine/timekeeper.py")
    assert any(line.startswith("Run … of task … was not taken") for line in lines)
    assert not any("completed" in line for line in lines), "an INFO line is none of these"


def test_what_differs_each_time_is_shown_once() -> None:
    assert shortened("…  … is\nfull: …") == "… is full: …"


def kinds_of_error() -> Iterable[type[AndonError]]:
    """Every public class of error, wherever it is declared."""
    for module in pkgutil.walk_packages(andon.__path__, "andon."):
        if not module.name.startswith(NOT_SHOWN) and "__main__" not in module.name:
            importlib.import_module(module.name)
    return (kind for kind in below(AndonError) if not kind.__name__.startswith("_"))


def below(kind: type[AndonError]) -> Iterator[type[AndonError]]:
    if not kind.__module__.startswith(("andon.", "andon")) or kind.__module__.startswith(NOT_SHOWN):
        return
    yield kind
    for other in kind.__subclasses__():
        yield from below(other)


def quoted(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
