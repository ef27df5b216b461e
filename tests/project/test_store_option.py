"""`--store` decides which stores the store-parametrised tests run on."""

from pathlib import Path

import pytest
from conftest import STORES

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parents[1]
CONFTEST = TESTS / "conftest.py"
PRINTS_SELECTION = """
    from conftest import selected_stores

    def test_selection(pytestconfig):
        print("selected:", *selected_stores(pytestconfig))
"""


@pytest.fixture(autouse=True)
def import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the copy of conftest.py imports lies beside the original."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))


@pytest.mark.parametrize(
    ("arguments", "selected"),
    [
        ([], " ".join(STORES)),
        (["--store", "sqlite"], "sqlite"),
        (["--store", "sqlite", "--store", "memory"], "memory sqlite"),
    ],
)
def test_named_stores_are_selected_and_all_when_none_is_named(
    pytester: pytest.Pytester, arguments: list[str], selected: str
) -> None:
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makepyfile(PRINTS_SELECTION)
    result = pytester.runpytest_subprocess("-s", *arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"*selected: {selected}"])


def test_an_unknown_store_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.read_text())
    result = pytester.runpytest_subprocess("--store", "abacus")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*invalid choice: 'abacus'*"])
